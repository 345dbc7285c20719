// What an evaluation may use: instructions, memory and processor time. Lua is kept within them by a count hook, by its
// allocator, and by charging those library functions that could run long without executing an instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace railyard::lua {

struct Limits {
  std::int64_t instructions = 100'000'000;     // Lua instructions, or steps of as much work
  std::size_t memory = std::size_t{64} << 20;  // bytes that Lua may hold at once
  double cpu_seconds = 10.0;                   // of the evaluating thread
};

// Thrown by Meter::require(); what() says which limit and its value, without a place.
class LimitReached : public std::exception {
 public:
  explicit LimitReached(std::string message) : message_(std::move(message)) {}
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// Once a limit is reached the meter stays tripped until restart(), so that code cannot go on by catching the error.
class Meter {
 public:
  explicit Meter(const Limits& limits);

  // Forgets the work done so far (not the memory held): before each call of a hook.
  void restart();

  // Adds `steps`; false when a limit is reached now or was before.
  bool charge(std::int64_t steps);

  // charge() that throws LimitReached.
  void require(std::int64_t steps);

  // Throws LimitReached when `bytes` more would not fit, for memory that Lua's allocator does not see.
  void require_memory(std::size_t bytes);

  // What to do when memory is refused: find out where. Must not allocate from the meter.
  void on_refusal(std::function<void()> action) { on_refusal_ = std::move(action); }

  void trip_memory() { memory_tripped_ = true; }
  [[nodiscard]] bool tripped() const { return work_tripped_ || memory_tripped_; }
  [[nodiscard]] std::string reason() const;

  // The allocator of lua_newstate; `meter` is a Meter*. Refuses what exceeds the memory limit.
  static void* allocate(void* meter, void* block, std::size_t old_size, std::size_t new_size);

 private:
  Limits limits_;
  std::int64_t used_ = 0;
  std::size_t memory_ = 0;
  double cpu_start_ = 0.0;
  double last_look_ = 0.0;  // coarse clock at the last reading of the processor time, which costs a system call
  std::function<void()> on_refusal_;
  bool work_tripped_ = false, time_tripped_ = false, memory_tripped_ = false;
};

}  // namespace railyard::lua
