// A loop over independent items on a few threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace railyard::data {

// Calls work(0) ... work(count - 1) on up to `threads` threads, in any order; the first exception is thrown again here.
template <class Work>
void parallel_for(std::size_t count, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex guard;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < threads && t < count; ++t) others.emplace_back(loop);
  loop();
  for (auto& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace railyard::data
