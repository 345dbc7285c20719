// Collectives and messages of one MPI group.
#include "runtime/comm/mpi/mpi_group.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.hpp"

namespace railyard::mpi {

// One operation in flight: its requests, the host memory it works on, and what is left to do when it is through.
class MpiGroup::Operation {
 public:
  Operation(std::shared_ptr<Waiter> waiter, std::shared_ptr<StagingPool> pool, Awaited awaited)
      : waiter_(std::move(waiter)), pool_(std::move(pool)), awaited_(std::move(awaited)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() {
    // Given up after an error: MPI may still write to the buffers, so they must outlive this.
    if (!done_ && !staging_.empty()) static_cast<void>(new std::vector<Buffer>(std::move(staging_)));
  }

  // The tensor's bytes in host memory.
  std::byte* input(const Tensor& tensor) {
    if (pool_->backend().is_host_memory()) return static_cast<std::byte*>(tensor.data);
    std::byte* host = stage(tensor.bytes());
    pool_->backend().copy_to_host(tensor, {host, tensor.bytes()});
    return host;
  }
  // Host memory that becomes the tensor when the operation is through.
  std::byte* output(const Tensor& tensor) {
    if (pool_->backend().is_host_memory()) return static_cast<std::byte*>(tensor.data);
    std::byte* host = stage(tensor.bytes());
    write_back(host, tensor);
    return host;
  }
  // For operations in place.
  std::byte* both(const Tensor& tensor) {
    std::byte* host = input(tensor);
    if (host != tensor.data) write_back(host, tensor);
    return host;
  }
  // A bf16 tensor in fp32, to be added over ranks without rounding in between.
  std::byte* widened(const Tensor& tensor) {
    std::byte* wide = stage(static_cast<std::size_t>(tensor.elements()) * sizeof(float));
    convert({input(tensor), tensor.dtype, tensor.shape}, {wide, DType::kFloat32, tensor.shape});
    return wide;
  }
  void narrow_back(std::byte* wide, const Tensor& tensor) {
    std::byte* host = pool_->backend().is_host_memory() ? static_cast<std::byte*>(tensor.data) : stage(tensor.bytes());
    at_end([this, wide, host, tensor] {
      convert({wide, DType::kFloat32, tensor.shape}, {host, tensor.dtype, tensor.shape});
    });
    if (host != tensor.data) write_back(host, tensor);
  }
  std::byte* stage(std::size_t bytes) {
    staging_.push_back(pool_->take(bytes));
    return staging_.back().data();
  }
  void at_end(std::function<void()> step) { end_.push_back(std::move(step)); }
  MPI_Request* request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  void set_reduction(std::shared_ptr<Reduction> reduction) { reduction_ = std::move(reduction); }

  void wait() {
    if (reduction_) {
      waiter_->wait([this] { return reduction_->done(); }, awaited_);
    } else {
      waiter_->wait(requests_, awaited_);
    }
    for (const auto& step : end_) step();
    done_ = true;
    for (Buffer& buffer : staging_) pool_->give_back(std::move(buffer));
    staging_.clear();
  }

 private:
  void write_back(std::byte* host, const Tensor& tensor) {
    at_end([this, host, tensor] { pool_->backend().copy_from_host({host, tensor.bytes()}, tensor); });
  }
  // Host to host.
  void convert(const Tensor& from, const Tensor& to) {
    if (pool_->backend().is_host_memory()) {
      pool_->backend().cast(from, to);
    } else {
      convert_elements(from.data, from.dtype, to.data, to.dtype, static_cast<std::size_t>(from.elements()));
    }
  }

  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<StagingPool> pool_;
  Awaited awaited_;
  std::vector<MPI_Request> requests_;
  std::shared_ptr<Reduction> reduction_;
  std::vector<Buffer> staging_;
  std::vector<std::function<void()>> end_;
  bool done_ = false;
};

namespace {

template <class Pending>
Handle handle(std::shared_ptr<Pending> operation) {
  return Handle([operation = std::move(operation)] { operation->wait(); });
}

// Bytes of a block from which own sums are faster than MPI's.
constexpr std::size_t kMessageBytes = 4096;

bool widens(const Tensor& tensor) { return tensor.dtype == DType::kBFloat16; }

}  // namespace

MpiGroup::MpiGroup(std::shared_ptr<Waiter> waiter, std::shared_ptr<StagingPool> pool, MPI_Comm communicator,
                   std::vector<int> ranks, std::string name, std::int64_t number, std::int64_t limit)
    : waiter_(std::move(waiter)),
      pool_(std::move(pool)),
      communicator_(communicator),
      ranks_(std::move(ranks)),
      name_(std::move(name)),
      number_(number),
      limit_(limit) {
  check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  waiter_->add_queue(&reductions_);
}

MpiGroup::~MpiGroup() {
  waiter_->remove_queue(&reductions_);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&communicator_);
}

std::shared_ptr<MpiGroup::Operation> MpiGroup::begin_collective(const char* name) {
  Awaited awaited{fmt::format("{} of group {}", name, name_), number_, Awaited::kCollective,
                  ++waiter_->progress(number_).collectives, ranks_};
  std::erase(awaited.peers, waiter_->world_rank());
  return std::make_shared<Operation>(waiter_, pool_, std::move(awaited));
}

bool MpiGroup::by_messages(DType type, ReduceOp op, std::int64_t elements) const {
  return op == ReduceOp::kSum && (type == DType::kFloat32 || type == DType::kBFloat16) &&
         static_cast<std::size_t>(elements / size()) * dtype_size(type) >= kMessageBytes;
}

std::shared_ptr<MpiGroup::Operation> MpiGroup::begin_message(Awaited::Kind kind, int peer) {
  RAILYARD_CHECK(peer >= 0 && peer < size() && peer != rank_, "message with rank {} of group {}", peer, name_);
  const int world = ranks_[static_cast<std::size_t>(peer)];
  Progress& progress = waiter_->progress(number_);
  std::int64_t& count = (kind == Awaited::kSend ? progress.sends : progress.receives)[static_cast<std::size_t>(world)];
  const char* name = kind == Awaited::kSend ? "send to" : "receive from";
  return std::make_shared<Operation>(
      waiter_, pool_,
      Awaited{fmt::format("{} rank {} of group {}", name, world, name_), number_, kind, ++count, {world}});
}

Handle MpiGroup::all_reduce(const Tensor& tensor, ReduceOp op) {
  auto operation = begin_collective("all_reduce");
  if (by_messages(tensor.dtype, op, tensor.elements())) {
    const std::int64_t block = (tensor.elements() + size() - 1) / size();
    std::byte* staging = operation->stage(Reduction::staging_bytes(size(), tensor.dtype, block));
    auto reduction = Reduction::all_reduce({communicator_, rank_, size()}, tensor.dtype, operation->both(tensor),
                                           tensor.elements(), staging);
    operation->set_reduction(reduction);
    reductions_.push(std::move(reduction));
    return handle(std::move(operation));
  }
  const bool wide = widens(tensor);
  std::byte* data = wide ? operation->widened(tensor) : operation->both(tensor);
  if (wide) operation->narrow_back(data, tensor);
  const DType type = wide ? DType::kFloat32 : tensor.dtype;
  for (std::int64_t begin = 0; begin < tensor.elements(); begin += limit_) {
    const auto count = static_cast<int>(std::min(limit_, tensor.elements() - begin));
    check(MPI_Iallreduce(MPI_IN_PLACE, data + static_cast<std::size_t>(begin) * dtype_size(type), count,
                         arithmetic_type(type), mpi::operation(op), communicator_, operation->request()),
          "MPI_Iallreduce");
  }
  return handle(std::move(operation));
}

Handle MpiGroup::all_gather(const Tensor& part, const Tensor& gathered) {
  RAILYARD_CHECK(gathered.elements() == part.elements() * size() && gathered.dtype == part.dtype, "all_gather in {}",
                 name_);
  auto operation = begin_collective("all_gather");
  const bool own_place =
      part.data == static_cast<std::byte*>(gathered.data) + part.bytes() * static_cast<std::size_t>(rank_);
  const Block block(static_cast<std::int64_t>(part.bytes()), limit_);
  const bool in_place = own_place && pool_->backend().is_host_memory();
  const void* from = in_place ? MPI_IN_PLACE : operation->input(part);
  check(MPI_Iallgather(from, block.count(), block.type(), operation->output(gathered), block.count(), block.type(),
                       communicator_, operation->request()),
        "MPI_Iallgather");
  return handle(std::move(operation));
}

Handle MpiGroup::reduce_scatter(const Tensor& whole, const Tensor& part) {
  RAILYARD_CHECK(whole.elements() == part.elements() * size() && whole.dtype == part.dtype, "reduce_scatter in {}",
                 name_);
  auto operation = begin_collective("reduce_scatter");
  if (by_messages(whole.dtype, ReduceOp::kSum, whole.elements())) {
    std::byte* staging = operation->stage(Reduction::staging_bytes(size(), whole.dtype, part.elements()));
    auto reduction = Reduction::reduce_scatter({communicator_, rank_, size()}, whole.dtype, operation->input(whole),
                                               operation->output(part), part.elements(), staging);
    operation->set_reduction(reduction);
    reductions_.push(std::move(reduction));
    return handle(std::move(operation));
  }
  const bool wide = widens(whole);
  const DType type = wide ? DType::kFloat32 : whole.dtype;
  const std::size_t part_bytes = static_cast<std::size_t>(part.elements()) * dtype_size(type);
  const std::byte* from = wide ? operation->widened(whole) : operation->input(whole);
  // MPI's buffers must not overlap, ours may.
  const auto* part_data = static_cast<const std::byte*>(part.data);
  const auto* whole_data = static_cast<const std::byte*>(whole.data);
  const bool overlap = part_data < whole_data + whole.bytes() && whole_data < part_data + part.bytes();
  const bool staged = wide || (overlap && pool_->backend().is_host_memory());
  std::byte* to = staged ? operation->stage(part_bytes) : operation->output(part);
  if (wide) {
    operation->narrow_back(to, part);
  } else if (staged) {
    operation->at_end([to, part] { std::memcpy(part.data, to, part.bytes()); });
  }
  if (part.elements() <= limit_) {
    check(MPI_Ireduce_scatter_block(from, to, static_cast<int>(part.elements()), arithmetic_type(type), MPI_SUM,
                                    communicator_, operation->request()),
          "MPI_Ireduce_scatter_block");
    return handle(std::move(operation));
  }
  for (int root = 0; root < size(); ++root) {
    for (std::int64_t begin = 0; begin < part.elements(); begin += limit_) {
      const std::size_t offset = static_cast<std::size_t>(begin) * dtype_size(type);
      check(MPI_Ireduce(from + part_bytes * static_cast<std::size_t>(root) + offset,
                        root == rank_ ? to + offset : nullptr,
                        static_cast<int>(std::min(limit_, part.elements() - begin)), arithmetic_type(type), MPI_SUM,
                        root, communicator_, operation->request()),
            "MPI_Ireduce");
    }
  }
  return handle(std::move(operation));
}

Handle MpiGroup::all_to_all(const Tensor& input, const Tensor& output) {
  RAILYARD_CHECK(input.elements() == output.elements() && input.elements() % size() == 0, "all_to_all in {}", name_);
  RAILYARD_CHECK(input.dtype == output.dtype && input.data != output.data, "all_to_all in {}", name_);
  auto operation = begin_collective("all_to_all");
  const Block block(static_cast<std::int64_t>(input.bytes()) / size(), limit_);
  check(MPI_Ialltoall(operation->input(input), block.count(), block.type(), operation->output(output), block.count(),
                      block.type(), communicator_, operation->request()),
        "MPI_Ialltoall");
  return handle(std::move(operation));
}

Handle MpiGroup::broadcast(const Tensor& tensor, int root) {
  RAILYARD_CHECK(root >= 0 && root < size(), "root {} of group {}", root, name_);
  auto operation = begin_collective("broadcast");
  const Block block(static_cast<std::int64_t>(tensor.bytes()), limit_);
  std::byte* data = rank_ == root ? operation->input(tensor) : operation->output(tensor);
  check(MPI_Ibcast(data, block.count(), block.type(), root, communicator_, operation->request()), "MPI_Ibcast");
  return handle(std::move(operation));
}

Handle MpiGroup::send(const Tensor& tensor, int peer) {
  auto operation = begin_message(Awaited::kSend, peer);
  const Block block(static_cast<std::int64_t>(tensor.bytes()), limit_);
  check(MPI_Isend(operation->input(tensor), block.count(), block.type(), peer, 0, communicator_, operation->request()),
        "MPI_Isend");
  return handle(std::move(operation));
}

Handle MpiGroup::receive(const Tensor& tensor, int peer) {
  auto operation = begin_message(Awaited::kReceive, peer);
  const Block block(static_cast<std::int64_t>(tensor.bytes()), limit_);
  check(MPI_Irecv(operation->output(tensor), block.count(), block.type(), peer, 0, communicator_, operation->request()),
        "MPI_Irecv");
  return handle(std::move(operation));
}

}  // namespace railyard::mpi
