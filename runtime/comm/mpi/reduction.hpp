// Large sums over a group, by messages between its members: every rank adds one block of all ranks' numbers, in the
// order of the ranks, and hands the result on. Against MPI's own reductions this halves what bf16 sends (fp32 is only
// on the adding rank), gives the same bits with every MPI, and is about twice as fast through shared memory.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/base/dtype.hpp"

namespace railyard::mpi {

// Members of a group of ranks and the messages between them.
struct Members {
  MPI_Comm communicator;
  int rank, size;
};

// One sum in flight. It advances a chunk at a time, first exchanging blocks and adding, then (all_reduce) sharing the
// sums.
class Reduction {
 public:
  // Elements of `type` (fp32 or bf16) that a rank adds at a time; its staging holds (size - 1) of such blocks.
  static constexpr std::int64_t kBlock = std::int64_t{1} << 18U;

  // all_reduce: data [count] in place. reduce_scatter: data [size * count], result [count], which may be this rank's
  // block of data. `staging` has staging_bytes(...) and like `data` must stay until done.
  static std::shared_ptr<Reduction> all_reduce(Members members, DType type, std::byte* data, std::int64_t count,
                                               std::byte* staging);
  static std::shared_ptr<Reduction> reduce_scatter(Members members, DType type, const std::byte* data,
                                                   std::byte* result, std::int64_t count, std::byte* staging);
  static std::size_t staging_bytes(int size, DType type, std::int64_t block_count);

  // Does what can be done without waiting. True when the sum is complete.
  bool advance();
  [[nodiscard]] bool done() const { return phase_ == Phase::kDone; }

 private:
  enum class Phase { kStart, kExchange, kShare, kDone };

  Reduction(Members members, DType type, const std::byte* data, std::byte* result, std::int64_t count,
            std::byte* staging, bool share);

  // Of the current chunk: where rank r's block lies in data_ (elements), and how long it is.
  [[nodiscard]] std::int64_t block_begin(int rank) const;
  [[nodiscard]] std::int64_t block_size(int rank) const;
  void start_exchange();
  void add();
  void start_share();
  bool test();

  Members members_;
  DType type_;
  const std::byte* data_;
  std::byte* result_;
  std::int64_t count_;
  std::byte* staging_;
  bool share_;
  std::int64_t chunk_ = 0;  // elements done: of data_ (all_reduce) or of a block (reduce_scatter)
  Phase phase_ = Phase::kStart;
  std::vector<MPI_Request> requests_;
};

// The sums of one group, worked on in the order they were begun, so that the messages of all ranks match.
class ReductionQueue {
 public:
  void push(std::shared_ptr<Reduction> reduction) {
    pending_.push_back(std::move(reduction));
    advance();
  }
  void advance() {
    while (!pending_.empty() && pending_.front()->advance()) pending_.pop_front();
  }

 private:
  std::deque<std::shared_ptr<Reduction>> pending_;
};

}  // namespace railyard::mpi
