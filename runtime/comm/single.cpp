// A world of one rank, and a group of one.
#include <cstdio>
#include <cstdlib>

#include "runtime/base/error.hpp"
#include "runtime/comm/group.hpp"
#include "runtime/compute/backend.hpp"

namespace railyard {
namespace {

class SingleGroup final : public Group {
 public:
  SingleGroup(Backend& backend, std::string name) : backend_(backend), name_(std::move(name)) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  Handle all_reduce(const Tensor&, ReduceOp) override { return {}; }
  Handle all_gather(const Tensor& part, const Tensor& gathered) override { return copy(part, gathered); }
  Handle reduce_scatter(const Tensor& whole, const Tensor& part) override { return copy(whole, part); }
  Handle all_to_all(const Tensor& input, const Tensor& output) override { return copy(input, output); }
  Handle broadcast(const Tensor&, int root) override {
    RAILYARD_CHECK(root == 0, "root {} of a group of one", root);
    return {};
  }
  Handle send(const Tensor&, int peer) override {
    check_failed("peer", __FILE__, __LINE__, fmt::format("send to {}", peer));
  }
  Handle receive(const Tensor&, int peer) override {
    check_failed("peer", __FILE__, __LINE__, fmt::format("receive from {}", peer));
  }

 private:
  Handle copy(const Tensor& from, const Tensor& to) {
    if (from.data != to.data) backend_.copy(from, to);
    return {};
  }

  Backend& backend_;
  std::string name_;
};

class SingleCommunicator final : public Communicator {
 public:
  explicit SingleCommunicator(Backend& backend) : backend_(backend) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  std::unique_ptr<Group> make_group(const std::vector<int>& ranks, const std::string& name) override {
    RAILYARD_CHECK(ranks.size() == 1 && ranks[0] == 0, "group {} of a world of one rank", name);
    return make_single_group(backend_, name);
  }
  void barrier() override {}
  std::string broadcast(const std::string& bytes, int) override { return bytes; }
  std::vector<std::string> gather(const std::string& bytes, int) override { return {bytes}; }
  double all_reduce(double value, ReduceOp) override { return value; }
  void all_reduce(std::span<double>, ReduceOp) override {}
  [[noreturn]] void abort(int exit_code) override {
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

 private:
  Backend& backend_;
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator(Backend& backend) {
  return std::make_unique<SingleCommunicator>(backend);
}

std::unique_ptr<Group> make_single_group(Backend& backend, const std::string& name) {
  return std::make_unique<SingleGroup>(backend, name);
}

}  // namespace railyard
