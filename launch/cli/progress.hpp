// A bar on a terminal for work whose size in bytes is known: done, rate and time left. Nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace railyard::launch {

// Draws on standard error, at most ten times a second, and clears its line when it ends. One thread.
class Progress {
 public:
  Progress(std::string label, std::uint64_t total_bytes);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // So many bytes more are done.
  void advance(std::uint64_t bytes);

 private:
  void draw();

  std::string label_;
  std::uint64_t total_, done_ = 0;
  std::chrono::steady_clock::time_point start_, drawn_;
  bool shown_;
};

}  // namespace railyard::launch
