// The world of a run over MPI, its ranks numbered as the placement numbers them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/load.hpp"
#include "runtime/comm/mpi/mpi_group.hpp"

namespace railyard::mpi {

// Initialises MPI once; later calls return the same.
MpiWorld initialize();
void finalize();

class MpiCommunicator final : public Communicator {
 public:
  // Collective over MPI's world. `limit`: largest count of one MPI call.
  MpiCommunicator(Backend& backend, const CommunicatorOptions& options, std::int64_t limit = kLargestCount);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  std::unique_ptr<Group> make_group(const std::vector<int>& ranks, const std::string& name) override;
  void barrier() override;
  std::string broadcast(const std::string& bytes, int root) override;
  std::vector<std::string> gather(const std::string& bytes, int root) override;
  double all_reduce(double value, ReduceOp op) override;
  void all_reduce(std::span<double> values, ReduceOp op) override;
  [[noreturn]] void abort(int exit_code) override;

 private:
  // Waits for one collective of the whole world.
  void finish(MPI_Request request, const char* name);

  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::int64_t limit_;
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<StagingPool> pool_;
  std::int64_t number_ = 0;  // the world's as a group, for roll calls
};

}  // namespace railyard::mpi
