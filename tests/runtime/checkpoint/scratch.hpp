// A temporary folder for one test, and ranks as threads.
#pragma once

#include <unistd.h>

#include <barrier>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/checkpoint/collectives.hpp"

namespace railyard::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    // In memory where there is such a place: these tests sync thousands of files.
    const std::filesystem::path memory = "/dev/shm";
    const bool writable = ::access(memory.c_str(), W_OK) == 0;
    std::string name = ((writable ? memory : std::filesystem::temp_directory_path()) / "railyard-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// The meeting place of threads that act as ranks.
struct Meeting {
  explicit Meeting(int ranks) : texts(static_cast<std::size_t>(ranks)), barrier(ranks) {}
  std::vector<std::string> texts;
  std::barrier<> barrier;
};

class ThreadCollectives final : public Collectives {
 public:
  ThreadCollectives(int rank, Meeting& meeting) : rank_(rank), meeting_(meeting) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(meeting_.texts.size()); }
  std::vector<std::string> gather(const std::string& text) override {
    meeting_.texts[static_cast<std::size_t>(rank_)] = text;
    meeting_.barrier.arrive_and_wait();
    std::vector<std::string> all;
    if (rank_ == 0) all = meeting_.texts;
    meeting_.barrier.arrive_and_wait();
    return all;
  }
  std::string broadcast(const std::string& text) override {
    if (rank_ == 0) meeting_.texts[0] = text;
    meeting_.barrier.arrive_and_wait();
    std::string out = meeting_.texts[0];
    meeting_.barrier.arrive_and_wait();
    return out;
  }

 private:
  int rank_;
  Meeting& meeting_;
};

// Runs `body` on `count` ranks and returns what each threw, as text; empty where nothing.
inline std::vector<std::string> on_ranks(int count, const std::function<void(Collectives&)>& body) {
  Meeting meeting(count);
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCollectives collectives(rank, meeting);
      try {
        body(collectives);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace railyard::test
