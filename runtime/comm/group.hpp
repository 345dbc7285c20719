// Communication as a layer sees it: a group of ranks, collectives on tensors, and handles to wait on. MPI and NCCL live
// behind it. Calls on one group must be made by all of its ranks in the same order.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.hpp"

namespace railyard {

class Backend;

enum class ReduceOp { kSum, kMax };

// A communication in flight. `wait` returns once the result may be used: the host blocks (MPI), or work launched later
// on the compute stream is ordered behind it (NCCL). Destroying a handle waits first, so buffers are never left in use.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::function<void()> wait) : wait_(std::move(wait)) {}
  Handle(Handle&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept(false) {
    wait();
    wait_ = std::exchange(other.wait_, nullptr);
    return *this;
  }
  ~Handle() noexcept(false) {
    if (std::uncaught_exceptions() == 0) wait();
  }
  void wait() {
    if (auto pending = std::exchange(wait_, nullptr)) pending();
  }

 private:
  std::function<void()> wait_;
};

// Tensors are in the memory of the backend that the communicator was made for, dense, of equal dtype on all ranks.
// Every call returns at once; inputs and outputs must stay untouched until the handle has been waited on. A time-out
// (from the job) throws RunError naming the group, the operation and the ranks that are missing.
class Group {
 public:
  virtual ~Group() = default;
  [[nodiscard]] virtual int rank() const = 0;  // of this process within the group
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;

  // In place. fp32, fp64, bf16 (summed in fp32), int64.
  virtual Handle all_reduce(const Tensor& tensor, ReduceOp op) = 0;
  // `gathered` [size * n] is the concatenation of every rank's `part` [n]. `part` may be its own place in `gathered`.
  virtual Handle all_gather(const Tensor& part, const Tensor& gathered) = 0;
  // `part` [n] becomes the sum of every rank's block `rank()` of `whole` [size * n]. `part` may be that block of
  // `whole`.
  virtual Handle reduce_scatter(const Tensor& whole, const Tensor& part) = 0;
  // Block i of `input` [size * n] goes to rank i; block j of `output` comes from rank j.
  virtual Handle all_to_all(const Tensor& input, const Tensor& output) = 0;
  virtual Handle broadcast(const Tensor& tensor, int root) = 0;
  // Point to point, matched in order for each (sender, receiver) pair.
  virtual Handle send(const Tensor& tensor, int peer) = 0;
  virtual Handle receive(const Tensor& tensor, int peer) = 0;
  // `sent` goes to rank `to` while `received` comes from rank `from`; every rank of the group takes part in the same
  // step of an exchange, as in a ring. Not matched with send and receive.
  virtual Handle exchange(const Tensor& sent, int to, const Tensor& received, int from) {
    auto receiving = std::make_shared<Handle>(receive(received, from));
    auto sending = std::make_shared<Handle>(send(sent, to));
    return Handle([receiving, sending] {
      receiving->wait();
      sending->wait();
    });
  }
};

// The world of a run: ranks 0..size-1 in the order of the placement's logical ranks. Host-side calls block and are for
// control decisions, never for the step's data.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Collective over the world: every rank names the group it belongs to (ascending world ranks, itself included);
  // ranks that name equal lists share the group. `name` is for messages ("tp 3").
  virtual std::unique_ptr<Group> make_group(const std::vector<int>& ranks, const std::string& name) = 0;

  virtual void barrier() = 0;
  // Rank `root`'s bytes to all (sizes may differ between ranks before the call).
  virtual std::string broadcast(const std::string& bytes, int root) = 0;
  // Every rank's bytes, by rank; empty on ranks other than `root`.
  virtual std::vector<std::string> gather(const std::string& bytes, int root) = 0;
  virtual double all_reduce(double value, ReduceOp op) = 0;
  // Element-wise over equal-sized spans.
  virtual void all_reduce(std::span<double> values, ReduceOp op) = 0;
  // Ends all ranks at once; for errors that one rank alone sees.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// A world of one rank: no library needed. Its groups copy with `backend`, which must outlive it.
std::unique_ptr<Communicator> make_single_communicator(Backend& backend);
// A group of this process alone, for communicators of any kind.
std::unique_ptr<Group> make_single_group(Backend& backend, const std::string& name);

}  // namespace railyard
