// Waiting for MPI without starving other ranks of the same cores, and finding out who is missing when it takes too
// long.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/activity.hpp"

namespace railyard::mpi {

class ReductionQueue;

// Throws RunError with MPI's own text when `status` is an error.
void check(int status, const char* what);

// What a rank waits for, as told in an answer to a roll call and in a time-out's message.
struct Awaited {
  enum Kind : std::int64_t { kCollective, kSend, kReceive };
  std::string operation;   // "all_reduce of group tp 0"
  std::int64_t group = 0;  // number of the group, the same on all its ranks
  Kind kind = kCollective;
  std::int64_t sequence = 0;  // the how manieth of its kind (and peer) on the group, from 1
  std::vector<int> peers;     // world ranks that must take part, without this one
};

// How far this rank has come in one group, for answers.
struct Progress {
  std::int64_t collectives = 0;
  std::vector<std::int64_t> sends, receives;  // by peer's world rank
};

// Waits for requests of one process. While it waits it answers roll calls of ranks whose time is up: those ask every
// peer how far it has come in the operation, and name the ones that do not answer or have not come to it.
class Waiter {
 public:
  // `activity` (or null) is told what is waited for.
  Waiter(MPI_Comm world, double timeout, ActivityBoard* activity = nullptr);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Returns when `done` says so, which tries again at each call; RunError after the time-out. Sums of all groups
  // advance meanwhile: a rank that waits for one must not hold up others that wait for another.
  void wait(const std::function<bool()>& done, const Awaited& awaited);
  // Returns when all requests are complete.
  void wait(std::vector<MPI_Request>& requests, const Awaited& awaited);

  // A group's sums, to be advanced by every wait; the group removes them when it ends.
  void add_queue(ReductionQueue* queue) { queues_.push_back(queue); }
  void remove_queue(ReductionQueue* queue) { std::erase(queues_, queue); }

  // Registers the next group, in the order that all ranks register theirs; its progress is kept here.
  std::int64_t add_group();
  Progress& progress(std::int64_t group) { return progress_[static_cast<std::size_t>(group)]; }
  [[nodiscard]] int world_rank() const { return rank_; }
  [[nodiscard]] MPI_Comm world() const { return world_; }

 private:
  using Clock = std::chrono::steady_clock;

  void answer_calls(const Awaited& awaited);
  [[noreturn]] void fail(const Awaited& awaited, double waited);

  MPI_Comm world_;
  MPI_Comm control_ = MPI_COMM_NULL;
  double timeout_;
  ActivityBoard* activity_;
  int rank_ = 0, size_ = 0;
  std::vector<Progress> progress_;
  std::vector<ReductionQueue*> queues_;
};

}  // namespace railyard::mpi
