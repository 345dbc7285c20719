// Collectives and messages of one NCCL group.
#include "runtime/comm/nccl/nccl_group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/comm/nccl/nccl_library.hpp"

namespace railyard::nccl {
namespace {

ncclDataType_t data_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kInt64:
      return ncclInt64;
    case DType::kInt32:
      return ncclInt32;
    default:
      check_failed("type", __FILE__, __LINE__, fmt::format("a sum of {}", dtype_name(type)));
  }
}

ncclRedOp_t operation(ReduceOp op) { return op == ReduceOp::kSum ? ncclSum : ncclMax; }

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda::check(cudaStreamIsCapturing(stream, &status), "capture status");
  return status != cudaStreamCaptureStatusNone;
}

// Messages that NCCL carries at the same time; the first error of them.
class GroupedCalls {
 public:
  GroupedCalls() { keep(library().group_start()); }
  void keep(ncclResult_t result) {
    if (result_ == ncclSuccess || result_ == ncclInProgress) result_ = result;
  }
  ncclResult_t end() {
    keep(library().group_end());
    return result_;
  }

 private:
  ncclResult_t result_ = ncclSuccess;
};

}  // namespace

OwnedCommunicator::OwnedCommunicator(std::shared_ptr<Monitor> monitor, ncclComm_t communicator)
    : monitor_(std::move(monitor)), communicator_(communicator) {
  monitor_->add_communicator(communicator_);
}

OwnedCommunicator::~OwnedCommunicator() {
  try {
    monitor_->check();
  } catch (const RunError&) {
    return;  // the monitor has aborted it
  }
  monitor_->remove_communicator(communicator_);
  // Finalizing waits for work in flight; of ranks that end at different times none must wait for ever.
  ncclResult_t state = library().comm_finalize(communicator_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (state == ncclInProgress && std::chrono::steady_clock::now() < end) {
    if (library().comm_get_async_error(communicator_, &state) != ncclSuccess) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (state == ncclSuccess)
    library().comm_destroy(communicator_);
  else
    library().comm_abort(communicator_);
}

void finish(Monitor& monitor, ncclComm_t communicator, ncclResult_t result, const std::string& what) {
  const auto start = std::chrono::steady_clock::now();
  while (result == ncclInProgress) {
    monitor.check();  // first: a communicator that the monitor has aborted must not be touched
    check(library().comm_get_async_error(communicator, &result), communicator, what.c_str());
    if (result != ncclInProgress) break;
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (waited > monitor.timeout())
      throw RunError(
          "NCCL: {} takes more than {:.0f} s: a rank has not come, or the network between the GPUs does not work "
          "(NCCL_DEBUG=INFO tells)",
          what, monitor.timeout());
    std::this_thread::yield();
  }
  check(result, communicator, what.c_str());
}

std::unique_ptr<OwnedCommunicator> join(const std::shared_ptr<Monitor>& monitor, const ncclUniqueId& id, int rank,
                                        int ranks, const std::string& what) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  const ncclResult_t result = library().comm_init_rank_config(&communicator, ranks, id, rank, &config);
  check(result, communicator, what.c_str());
  finish(*monitor, communicator, result, what);
  return std::make_unique<OwnedCommunicator>(monitor, communicator);
}

NcclGroup::NcclGroup(cuda::CudaBackend& backend, std::shared_ptr<Monitor> monitor,
                     std::unique_ptr<OwnedCommunicator> communicator, std::shared_ptr<cuda::Stream> stream,
                     std::unique_ptr<Group> host, std::vector<int> ranks, std::string name)
    : backend_(backend),
      monitor_(std::move(monitor)),
      collective_{std::move(communicator), std::move(stream), ranks, line_of(name, ranks)},
      host_(std::move(host)),
      ranks_(std::move(ranks)),
      name_(std::move(name)),
      rank_(host_->rank()) {}

NcclGroup::~NcclGroup() {
  cudaStreamSynchronize(collective_.stream->get());
  for (const auto& [pair, channel] : channels_) cudaStreamSynchronize(channel.stream->get());
}

std::shared_ptr<cuda::Event> NcclGroup::take_event() {
  for (const auto& event : events_)
    if (event.use_count() == 1) return event;
  events_.push_back(std::make_shared<cuda::Event>());
  return events_.back();
}

NcclGroup::Channel& NcclGroup::channel(int sender, int receiver) {
  const auto found = channels_.find({sender, receiver});
  if (found != channels_.end()) return found->second;
  // The first message between the two: they agree on a communicator through the host.
  ncclUniqueId id{};
  const Buffer memory = backend_.allocate(sizeof id);
  const Tensor tensor{memory.data(), DType::kUInt8, Shape{static_cast<std::int64_t>(sizeof id)}};
  const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(&id), sizeof id);
  if (rank_ == sender) {
    check(library().get_unique_id(&id), nullptr, "make an id");
    backend_.copy_from_host(bytes, tensor);
    host_->send(tensor, receiver).wait();
  } else {
    host_->receive(tensor, sender).wait();
    backend_.copy_to_host(tensor, bytes);
  }
  const std::vector<int> pair{ranks_[static_cast<std::size_t>(sender)], ranks_[static_cast<std::size_t>(receiver)]};
  const std::string what = fmt::format("connect rank {} to rank {} for group {}", pair[0], pair[1], name_);
  Channel made{join(monitor_, id, rank_ == sender ? 0 : 1, 2, what), std::make_shared<cuda::Stream>(true), pair,
               line_of(name_ + " messages", pair)};
  return channels_.emplace(std::pair{sender, receiver}, std::move(made)).first->second;
}

Handle NcclGroup::run(const char* operation, const Channel& channel, const Launch& launch) {
  monitor_->check();
  const cudaStream_t stream = channel.stream->get(), compute = backend_.stream();
  cuda::order(compute, stream, *take_event());
  const std::string what = fmt::format("{} of group {}", operation, name_);
  finish(*monitor_, channel.communicator->get(), launch(channel.communicator->get(), stream), what);
  const std::shared_ptr<cuda::Event> done = take_event();
  done->record(stream);
  const std::int64_t count = monitor_->come(channel.line);
  // Events of a captured graph cannot be asked; the graph's launch is followed by operations that can.
  if (!capturing(compute)) monitor_->watch({what, channel.line, count, channel.ranks, done});
  return Handle(
      [compute, done] { cuda::check(cudaStreamWaitEvent(compute, done->get(), 0), "wait for communication"); });
}

Handle NcclGroup::all_reduce(const Tensor& tensor, ReduceOp op) {
  return run("all_reduce", [&](ncclComm_t communicator, cudaStream_t stream) {
    return library().all_reduce(tensor.data, tensor.data, static_cast<std::size_t>(tensor.elements()),
                                data_type(tensor.dtype), operation(op), communicator, stream);
  });
}

Handle NcclGroup::all_gather(const Tensor& part, const Tensor& gathered) {
  RAILYARD_CHECK(gathered.bytes() == part.bytes() * ranks_.size(), "all_gather of group {}", name_);
  return run("all_gather", [&](ncclComm_t communicator, cudaStream_t stream) {
    return library().all_gather(part.data, gathered.data, part.bytes(), ncclInt8, communicator, stream);
  });
}

Handle NcclGroup::reduce_scatter(const Tensor& whole, const Tensor& part) {
  RAILYARD_CHECK(whole.bytes() == part.bytes() * ranks_.size() && whole.dtype == part.dtype,
                 "reduce_scatter of group {}", name_);
  return run("reduce_scatter", [&](ncclComm_t communicator, cudaStream_t stream) {
    return library().reduce_scatter(whole.data, part.data, static_cast<std::size_t>(part.elements()),
                                    data_type(part.dtype), ncclSum, communicator, stream);
  });
}

Handle NcclGroup::all_to_all(const Tensor& input, const Tensor& output) {
  RAILYARD_CHECK(input.bytes() == output.bytes() && input.bytes() % ranks_.size() == 0, "all_to_all of group {}",
                 name_);
  const std::size_t block = input.bytes() / ranks_.size();
  return run("all_to_all", [&](ncclComm_t communicator, cudaStream_t stream) {
    GroupedCalls calls;
    for (int peer = 0; peer < size(); ++peer) {
      const std::size_t at = static_cast<std::size_t>(peer) * block;
      calls.keep(library().send(input.as<std::byte>() + at, block, ncclInt8, peer, communicator, stream));
      calls.keep(library().receive(output.as<std::byte>() + at, block, ncclInt8, peer, communicator, stream));
    }
    return calls.end();
  });
}

Handle NcclGroup::exchange(const Tensor& sent, int to, const Tensor& received, int from) {
  return run("exchange", [&](ncclComm_t communicator, cudaStream_t stream) {
    GroupedCalls calls;
    calls.keep(library().send(sent.data, sent.bytes(), ncclInt8, to, communicator, stream));
    calls.keep(library().receive(received.data, received.bytes(), ncclInt8, from, communicator, stream));
    return calls.end();
  });
}

Handle NcclGroup::broadcast(const Tensor& tensor, int root) {
  return run("broadcast", [&](ncclComm_t communicator, cudaStream_t stream) {
    return library().broadcast(tensor.data, tensor.data, tensor.bytes(), ncclInt8, root, communicator, stream);
  });
}

Handle NcclGroup::send(const Tensor& tensor, int peer) {
  RAILYARD_CHECK(peer != rank_ && peer >= 0 && peer < size(), "send to {} of group {}", peer, name_);
  return run("send", channel(rank_, peer), [&](ncclComm_t communicator, cudaStream_t stream) {
    return library().send(tensor.data, tensor.bytes(), ncclInt8, 1, communicator, stream);
  });
}

Handle NcclGroup::receive(const Tensor& tensor, int peer) {
  RAILYARD_CHECK(peer != rank_ && peer >= 0 && peer < size(), "receive from {} of group {}", peer, name_);
  return run("receive", channel(peer, rank_), [&](ncclComm_t communicator, cudaStream_t stream) {
    return library().receive(tensor.data, tensor.bytes(), ncclInt8, 0, communicator, stream);
  });
}

}  // namespace railyard::nccl
