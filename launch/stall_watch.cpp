// Looks at the board now and then.
#include "launch/stall_watch.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>

namespace railyard::launch {

StallWatch::StallWatch(const ActivityBoard& board, double timeout, std::function<void(const std::string&)> on_stall,
                       double period)
    : board_(board), on_stall_(std::move(on_stall)), thread_([this, timeout, period] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, nullptr);
        run(timeout, period);
      }) {}

StallWatch::~StallWatch() {
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void StallWatch::run(double timeout, double period) {
  using Clock = std::chrono::steady_clock;
  double since = 0.0, stalled = 0.0;
  auto last = Clock::now();
  std::unique_lock guard(mutex_);
  while (!ended_.wait_for(guard, std::chrono::duration<double>(period), [this] { return ending_; })) {
    const auto now = Clock::now();
    // A process that was stopped and continued finds that much time has passed at once.
    const double passed = std::min(std::chrono::duration<double>(now - last).count(), 2.0 * period);
    last = now;
    const Activity seen = board_.look();
    const bool same =
        seen.kind == PhaseKind::kFiles && seen.waiting.empty() && seen.phase_since == since;  // NOLINT: a stamp
    stalled = same ? stalled + passed : 0.0;
    since = seen.phase_since;
    if (stalled <= timeout) continue;
    guard.unlock();
    on_stall_(seen.phase);
    return;
  }
}

}  // namespace railyard::launch
