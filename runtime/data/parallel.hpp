// Work on a few threads: a loop over independent items, and a pipeline that keeps order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
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

// One thread calls produce() until it returns nothing; `threads` workers turn each item into a result by a function of
// their own, make_worker()(item); the calling thread calls consume(result) in the order of production. At most
// `capacity` items are in flight. The first exception ends all and is thrown again here.
template <class In, class Out, class Produce, class MakeWorker, class Consume>
void ordered_pipeline(std::size_t threads, std::size_t capacity, Produce produce, MakeWorker make_worker,
                      Consume consume) {
  enum class State { kEmpty, kFilled, kWorking, kDone };
  struct Slot {
    State state = State::kEmpty;
    std::optional<In> in;
    std::optional<Out> out;
  };
  std::vector<Slot> slots(capacity);
  std::mutex guard;
  std::condition_variable changed;
  std::size_t produced = 0, taken = 0, consumed = 0;
  bool ended = false, stopped = false;
  std::exception_ptr failure;

  const auto guarded = [&](const auto& body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!failure) failure = std::current_exception();
      stopped = true;
    }
    changed.notify_all();
  };
  const auto producer = [&] {
    for (;;) {
      std::optional<In> item = produce();
      std::unique_lock lock(guard);
      if (!item) {
        ended = true;
        return;
      }
      changed.wait(lock, [&] { return stopped || produced - consumed < capacity; });
      if (stopped) return;
      Slot& slot = slots[produced++ % capacity];
      slot.in = std::move(item);
      slot.state = State::kFilled;
      changed.notify_all();
    }
  };
  const auto worker = [&] {
    auto work = make_worker();
    for (;;) {
      std::unique_lock lock(guard);
      changed.wait(lock, [&] { return stopped || taken < produced || ended; });
      if (stopped || taken == produced) return;
      Slot& slot = slots[taken++ % capacity];
      slot.state = State::kWorking;
      lock.unlock();
      Out out = work(*std::move(slot.in));
      lock.lock();
      slot.in.reset();
      slot.out = std::move(out);
      slot.state = State::kDone;
      changed.notify_all();
    }
  };
  std::vector<std::thread> others;
  others.emplace_back([&] { guarded(producer); });
  for (std::size_t t = 0; t < threads; ++t) others.emplace_back([&] { guarded(worker); });
  guarded([&] {
    for (;;) {
      std::unique_lock lock(guard);
      const auto ready = [&] { return consumed < produced && slots[consumed % capacity].state == State::kDone; };
      changed.wait(lock, [&] { return stopped || ready() || (ended && consumed == produced); });
      if (stopped || !ready()) return;
      Slot& slot = slots[consumed % capacity];
      lock.unlock();
      consume(*std::move(slot.out));
      lock.lock();
      slot.out.reset();
      slot.state = State::kEmpty;
      ++consumed;
      changed.notify_all();
    }
  });
  for (auto& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace railyard::data
