// Counts work and memory against the limits.
#include "lua/host/meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace railyard::lua {
namespace {

constexpr double kLookEvery = 0.02;  // seconds between two readings of the processor time

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Meter::Meter(const Limits& limits) : limits_(limits) { restart(); }

void Meter::restart() {
  used_ = 0;
  work_tripped_ = time_tripped_ = memory_tripped_ = false;
  cpu_start_ = seconds(CLOCK_THREAD_CPUTIME_ID);
  last_look_ = seconds(CLOCK_MONOTONIC_COARSE);
}

bool Meter::charge(std::int64_t steps) {
  if (tripped()) return false;
  if (steps > limits_.instructions - used_) {
    work_tripped_ = true;
    return false;
  }
  used_ += steps;
  if (const double now = seconds(CLOCK_MONOTONIC_COARSE); now - last_look_ > kLookEvery) {
    last_look_ = now;
    if (seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_start_ > limits_.cpu_seconds) work_tripped_ = time_tripped_ = true;
  }
  return !work_tripped_;
}

void Meter::require(std::int64_t steps) {
  if (!charge(steps)) throw LimitReached(reason());
}

void Meter::require_memory(std::size_t bytes) {
  if (bytes <= limits_.memory && memory_ <= limits_.memory - bytes) return;
  memory_tripped_ = true;
  throw LimitReached(reason());
}

std::string Meter::reason() const {
  if (memory_tripped_)
    return fmt::format(
        "stopped: the file needs more than its limit of {} MiB of memory; does a loop grow a table, or a function call "
        "itself?",
        limits_.memory >> 20);
  if (time_tripped_)
    return fmt::format("stopped after {:g} s of processor time; is there an endless loop?", limits_.cpu_seconds);
  return fmt::format("stopped after {} instructions; is there an endless loop?", limits_.instructions);
}

void* Meter::allocate(void* meter, void* block, std::size_t old_size, std::size_t new_size) {
  auto& self = *static_cast<Meter*>(meter);
  const std::size_t held = block == nullptr ? 0 : old_size;  // for new blocks old_size is a kind, not a size
  if (new_size == 0) {
    std::free(block);
    self.memory_ -= held;
    return nullptr;
  }
  if (new_size > held && new_size - held > self.limits_.memory - std::min(self.memory_, self.limits_.memory)) {
    if (self.on_refusal_) self.on_refusal_();
    return nullptr;
  }
  void* moved = std::realloc(block, new_size);
  if (moved != nullptr) self.memory_ = self.memory_ - held + new_size;
  return moved;
}

}  // namespace railyard::lua
