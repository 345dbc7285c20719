// Saves the state of ONE step from all ranks: copied to a staging buffer, written in the background, and published as a
// whole or not at all. Until publish() returns, nothing that existed before has been touched.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/checkpoint/collectives.hpp"
#include "runtime/checkpoint/manifest.hpp"
#include "runtime/checkpoint/store.hpp"

namespace railyard {

// A rectangle of a logical tensor in this rank's host memory. Inner axes are packed; consecutive indices of the first
// axis are `row_stride` bytes apart (0: packed too).
struct Chunk {
  std::string name;
  DType dtype = DType::kFloat32;
  Extents global_shape;
  Rectangle where;
  const void* data = nullptr;
  std::int64_t row_stride = 0;
};

// The calls of one save: begin (collective), add for each chunk, finish, ... training goes on ..., publish
// (collective). Over all ranks, the chunks of each tensor must cover it exactly once; which of several replicas adds a
// chunk is the caller's decision. A rank may add nothing.
class CheckpointWriter {
 public:
  // Collective. Makes `dir` and removes what killed programs left in it; the caller owns the run (its lock).
  // `collectives` must live as long as the writer. RunError.
  CheckpointWriter(Collectives& collectives, std::filesystem::path dir, Retention retention);
  // Waits for the background; a save that was not published is given up.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Collective. Starts a save; the one before must have been published. RunError when the folder cannot be made.
  void begin(CheckpointInfo info);
  // Copies the chunk, so the source may change as soon as this returns. RunError when there is no memory for the copy.
  void add(const Chunk& chunk);
  // Starts to write this rank's file: in the background, or here and now.
  void finish(bool in_background);

  // Between finish and publish.
  [[nodiscard]] bool pending() const { return state_ == State::kFinished; }
  // Whether this rank's file is written (or has failed). The trainer may reduce it with the flags that ranks exchange
  // each step, and publish once it holds on all of them.
  [[nodiscard]] bool written() const { return written_.load(std::memory_order_acquire); }

  // Collective. Waits for all ranks' files, then rank 0 checks that every element was saved exactly once, writes the
  // manifest and renames. Only when it returns is the step saved; returns that step. RunError on all ranks, with the
  // same message, when any of them failed; older checkpoints are as they were, and another save may be tried.
  std::int64_t publish();

 private:
  enum class State { kIdle, kAdding, kFinished };
  struct Staged {
    std::string tensor;
    DType dtype;
    Extents global_shape;
    Rectangle where;
    std::size_t begin, bytes;  // in the staging buffer
    std::uint32_t crc32c;
  };
  struct FreeDeleter {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::byte* stage(std::size_t bytes);
  void write_part() noexcept;
  [[nodiscard]] ManifestPart write_file() const;
  void publish_on_rank_zero(const std::vector<std::string>& parts);
  void wait_for_background();

  Collectives& collectives_;
  std::filesystem::path dir_;
  Retention retention_;
  State state_ = State::kIdle;
  CheckpointInfo info_;
  std::filesystem::path temporary_;  // the folder being filled
  std::vector<Staged> staged_;
  std::unique_ptr<std::byte, FreeDeleter> buffer_;  // grows, and is kept for the next save
  std::size_t buffer_size_ = 0, buffer_capacity_ = 0;
  std::string part_;  // what write_part leaves for publish: "+" and the part's text, or "!" and an error
  std::atomic<bool> written_ = false;
  std::thread background_, pruning_;
};

}  // namespace railyard
