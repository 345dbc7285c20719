// A group of ranks over an MPI communicator of its own, by MPI's nonblocking operations and own sums for large tensors.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/group.hpp"
#include "runtime/comm/mpi/reduction.hpp"
#include "runtime/comm/mpi/staging.hpp"
#include "runtime/comm/mpi/types.hpp"
#include "runtime/comm/mpi/wait.hpp"

namespace railyard::mpi {

class MpiGroup final : public Group {
 public:
  // Takes over `communicator`. `ranks`: world ranks of the members. `limit`: largest count of one MPI call.
  MpiGroup(std::shared_ptr<Waiter> waiter, std::shared_ptr<StagingPool> pool, MPI_Comm communicator,
           std::vector<int> ranks, std::string name, std::int64_t number, std::int64_t limit);
  ~MpiGroup() override;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] const std::string& name() const override { return name_; }

  Handle all_reduce(const Tensor& tensor, ReduceOp op) override;
  Handle all_gather(const Tensor& part, const Tensor& gathered) override;
  Handle reduce_scatter(const Tensor& whole, const Tensor& part) override;
  Handle all_to_all(const Tensor& input, const Tensor& output) override;
  Handle broadcast(const Tensor& tensor, int root) override;
  Handle send(const Tensor& tensor, int peer) override;
  Handle receive(const Tensor& tensor, int peer) override;

 private:
  class Operation;

  std::shared_ptr<Operation> begin_collective(const char* name);
  // Whether a sum of `elements` goes by messages between the members rather than by MPI's reduction.
  [[nodiscard]] bool by_messages(DType type, ReduceOp op, std::int64_t elements) const;
  std::shared_ptr<Operation> begin_message(Awaited::Kind kind, int peer);

  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<StagingPool> pool_;
  MPI_Comm communicator_;
  std::vector<int> ranks_;
  std::string name_;
  std::int64_t number_, limit_;
  ReductionQueue reductions_;
  int rank_ = 0;
};

}  // namespace railyard::mpi
