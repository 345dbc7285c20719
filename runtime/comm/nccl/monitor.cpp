// The monitor's thread.
#include "runtime/comm/nccl/monitor.hpp"

#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hpp"
#include "runtime/comm/nccl/nccl_library.hpp"

namespace railyard::nccl {
namespace {

constexpr int kPeriod = 50;  // milliseconds between two looks

}  // namespace

Monitor::Monitor(Communicator& host, int device, double timeout)
    : timeout_(timeout), rank_(host.rank()), roll_call_(host), thread_([this, device] { run(device); }) {}

Monitor::~Monitor() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  thread_.join();
}

void Monitor::add_communicator(ncclComm_t communicator) {
  const std::lock_guard<std::mutex> lock(mutex_);
  communicators_.push_back(communicator);
}

void Monitor::remove_communicator(ncclComm_t communicator) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(communicators_, communicator);
}

void Monitor::watch(InFlight operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Queue& queue = queues_[operation.line];
  if (queue.operations.empty()) queue.since = Clock::now();
  queue.operations.push_back(std::move(operation));
}

void Monitor::check() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!error_.empty()) throw RunError(error_);
}

void Monitor::run(int device) {
  cudaSetDevice(device);
  for (;;) {
    roll_call_.answer(kPeriod);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
      if (!error_.empty()) continue;  // others may still ask
    }
    look_at_communicators();
    look_at_operations();
  }
}

void Monitor::look_at_communicators() {
  std::string reason;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (ncclComm_t communicator : communicators_) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = library().comm_get_async_error(communicator, &state);
      if (asked != ncclSuccess) state = asked;
      if (state != ncclSuccess && state != ncclInProgress)
        reason = fmt::format("rank {}: NCCL failed in flight: {}; another rank may have ended, its log says why", rank_,
                             library().get_error_string(state));
    }
  }
  if (!reason.empty()) fail(reason);
}

void Monitor::look_at_operations() {
  InFlight late;
  double waited = 0.0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Clock::time_point now = Clock::now();
    for (auto& [line, queue] : queues_) {
      while (!queue.operations.empty() && cudaEventQuery(queue.operations.front().done->get()) != cudaErrorNotReady) {
        queue.operations.pop_front();
        queue.since = now;
      }
      const double seconds = std::chrono::duration<double>(now - queue.since).count();
      if (queue.operations.empty() || seconds <= timeout_ || seconds <= waited) continue;
      waited = seconds;
      late = queue.operations.front();
    }
  }
  if (waited == 0.0) return;
  std::string missing = roll_call_.missing(late.line, late.count, late.ranks);
  if (missing.empty()) missing = "no rank: all have come, but the network does not deliver, or the GPU is busy";
  fail(fmt::format(
      "rank {} has waited {:.1f} s in {}; missing: {}. A longer run.timeout helps when the rank was only slow", rank_,
      waited, late.operation, missing));
}

void Monitor::fail(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!error_.empty()) return;
  error_ = reason;
  // Kernels that wait for other ranks end; the thread that trains sees the reason at its next call.
  for (ncclComm_t communicator : communicators_) library().comm_abort(communicator);
  communicators_.clear();
  queues_.clear();
}

}  // namespace railyard::nccl
