// The world over NCCL: groups split from one communicator, host-side calls by the communicator of the host.
#include "runtime/comm/nccl/nccl.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/comm/nccl/nccl_group.hpp"
#include "runtime/comm/nccl/nccl_library.hpp"

namespace railyard::nccl {
namespace {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(cuda::CudaBackend& backend, Communicator& host, double timeout)
      : backend_(backend), host_(host), monitor_(std::make_shared<Monitor>(host, backend.device(), timeout)) {
    ncclUniqueId id{};
    if (host.rank() == 0) check(library().get_unique_id(&id), nullptr, "make an id");
    const std::string bytes = host.broadcast({reinterpret_cast<const char*>(&id), sizeof id}, 0);
    RAILYARD_CHECK(bytes.size() == sizeof id, "an id of {} bytes", bytes.size());
    std::memcpy(&id, bytes.data(), sizeof id);
    world_ = join(monitor_, id, host.rank(), host.size(), "connect all ranks");
  }

  [[nodiscard]] int rank() const override { return host_.rank(); }
  [[nodiscard]] int size() const override { return host_.size(); }

  std::unique_ptr<Group> make_group(const std::vector<int>& ranks, const std::string& name) override {
    RAILYARD_CHECK(
        std::is_sorted(ranks.begin(), ranks.end()) && std::find(ranks.begin(), ranks.end(), rank()) != ranks.end(),
        "group {} must ascend and hold rank {}", name, rank());
    monitor_->check();
    auto host_group = host_.make_group(ranks, name);  // finds ranks that are missing or disagree
    // A group of one needs no library, unless it is all that there is: then the library's own way is wanted.
    const bool alone = ranks.size() == 1 && size() > 1;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    const int color = alone ? NCCL_SPLIT_NOCOLOR : ranks.front();
    const std::string what = fmt::format("make group {}", name);
    const ncclResult_t result = library().comm_split(world_->get(), color, rank(), &communicator, &config);
    check(result, world_->get(), what.c_str());
    finish(*monitor_, world_->get(), result, what);
    if (alone) return make_single_group(backend_, name);
    wait_for_handle(communicator, what);
    finish(*monitor_, communicator, ncclInProgress, what);
    return std::make_unique<NcclGroup>(backend_, monitor_, std::make_unique<OwnedCommunicator>(monitor_, communicator),
                                       stream_of(name), std::move(host_group), ranks, name);
  }

  void barrier() override { host().barrier(); }
  std::string broadcast(const std::string& bytes, int root) override { return host().broadcast(bytes, root); }
  std::vector<std::string> gather(const std::string& bytes, int root) override { return host().gather(bytes, root); }
  double all_reduce(double value, ReduceOp op) override { return host().all_reduce(value, op); }
  void all_reduce(std::span<double> values, ReduceOp op) override { host().all_reduce(values, op); }
  [[noreturn]] void abort(int exit_code) override {
    host_.abort(exit_code);
    std::_Exit(exit_code);
  }

 private:
  Communicator& host() {
    monitor_->check();
    return host_;
  }

  // NCCL writes the new communicator's handle from a thread of its own, some time after the call.
  void wait_for_handle(ncclComm_t& communicator, const std::string& what) {
    const std::atomic_ref<ncclComm_t> handle(communicator);
    const auto start = std::chrono::steady_clock::now();
    while (handle.load() == nullptr) {
      monitor_->check();
      const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (waited > monitor_->timeout())
        throw RunError("NCCL: {} takes more than {:.0f} s; NCCL_DEBUG=INFO tells more", what, monitor_->timeout());
      std::this_thread::yield();
    }
  }

  // Groups of a kind ("tp 0", "tp 1") share a stream: a rank is in one of each kind.
  std::shared_ptr<cuda::Stream> stream_of(const std::string& name) {
    std::shared_ptr<cuda::Stream>& stream = streams_[name.substr(0, name.find_first_of("(0123456789"))];
    if (!stream) stream = std::make_shared<cuda::Stream>(true);
    return stream;
  }

  cuda::CudaBackend& backend_;
  Communicator& host_;
  std::shared_ptr<Monitor> monitor_;
  std::unique_ptr<OwnedCommunicator> world_;
  std::map<std::string, std::shared_ptr<cuda::Stream>> streams_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(Backend& backend, Communicator& host,
                                                const CommunicatorOptions& options) {
  auto* device = dynamic_cast<cuda::CudaBackend*>(&backend);
  RAILYARD_CHECK(device != nullptr, "NCCL needs the CUDA backend");
  return std::make_unique<NcclCommunicator>(*device, host, options.timeout);
}

}  // namespace railyard::nccl
