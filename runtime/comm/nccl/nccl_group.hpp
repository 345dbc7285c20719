// A group of ranks over an NCCL communicator of its own. Operations run on the stream of the group's kind, behind what
// the compute stream had when they were called; a handle's wait orders the compute stream behind them.
#pragma once

#include <nccl.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/nccl/monitor.hpp"
#include "runtime/compute/cuda/cuda_backend.hpp"

namespace railyard::nccl {

// Owns an NCCL communicator that the monitor watches.
class OwnedCommunicator {
 public:
  OwnedCommunicator(std::shared_ptr<Monitor> monitor, ncclComm_t communicator);
  ~OwnedCommunicator();
  OwnedCommunicator(const OwnedCommunicator&) = delete;
  OwnedCommunicator& operator=(const OwnedCommunicator&) = delete;
  [[nodiscard]] ncclComm_t get() const { return communicator_; }

 private:
  std::shared_ptr<Monitor> monitor_;
  ncclComm_t communicator_;
};

// Waits until a call on a communicator that does not block has ended; RunError after the monitor's time-out.
void finish(Monitor& monitor, ncclComm_t communicator, ncclResult_t result, const std::string& what);

// A new communicator of `ranks` ranks with the id that one of them made.
std::unique_ptr<OwnedCommunicator> join(const std::shared_ptr<Monitor>& monitor, const ncclUniqueId& id, int rank,
                                        int ranks, const std::string& what);

class NcclGroup final : public Group {
 public:
  // `host`: the same group through the host, for agreements about messages. `ranks`: world ranks.
  NcclGroup(cuda::CudaBackend& backend, std::shared_ptr<Monitor> monitor,
            std::unique_ptr<OwnedCommunicator> communicator, std::shared_ptr<cuda::Stream> stream,
            std::unique_ptr<Group> host, std::vector<int> ranks, std::string name);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

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
  Handle exchange(const Tensor& sent, int to, const Tensor& received, int from) override;

 private:
  // Messages of one rank to one other have a communicator and a stream of their own: NCCL runs what is on one
  // communicator in order, and a message that waits for its receiver must not hold up another.
  struct Channel {
    std::unique_ptr<OwnedCommunicator> communicator;
    std::shared_ptr<cuda::Stream> stream;
    std::vector<int> ranks;  // world ranks of sender and receiver
    Line line;
  };
  Channel& channel(int sender, int receiver);

  using Launch = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;
  Handle run(const char* operation, const Channel& channel, const Launch& launch);
  Handle run(const char* operation, const Launch& launch) { return run(operation, collective_, launch); }
  std::shared_ptr<cuda::Event> take_event();

  cuda::CudaBackend& backend_;
  std::shared_ptr<Monitor> monitor_;
  Channel collective_;
  std::map<std::pair<int, int>, Channel> channels_;  // by group ranks of sender and receiver
  std::unique_ptr<Group> host_;
  std::vector<int> ranks_;
  std::string name_;
  int rank_ = 0;
  std::vector<std::shared_ptr<cuda::Event>> events_;
};

}  // namespace railyard::nccl
