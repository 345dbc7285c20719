// A timer thread.
#include "launch/watchdog.hpp"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "runtime/base/error.hpp"

namespace railyard::launch {

Watchdog::Watchdog(double seconds, std::string message)
    : thread_([this, seconds, text = std::move(message)] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, nullptr);
        std::unique_lock guard(mutex_);
        if (ended_.wait_for(guard, std::chrono::duration<double>(seconds), [this] { return ending_; })) return;
        std::fprintf(stderr, "railyard: %s\n", text.c_str());
        std::fflush(stderr);
        _exit(kExitFailed);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

}  // namespace railyard::launch
