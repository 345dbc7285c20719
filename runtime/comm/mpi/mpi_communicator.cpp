// MPI's start and end, groups, and host-side collectives.
#include "runtime/comm/mpi/mpi_communicator.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "runtime/base/error.hpp"

namespace railyard::mpi {

MpiWorld initialize() {
  int initialized = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0) {
    int provided = 0;
    // Calls may come from different threads, one at a time (a checkpoint's writer ends with a barrier).
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED)
      throw RunError("this MPI does not allow calls from several threads in turn: use another");
  }
  MpiWorld world;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &world.size), "MPI_Comm_size");
  return world;
}

void finalize() {
  int finalized = 0;
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized == 0) check(MPI_Finalize(), "MPI_Finalize");
}

MpiCommunicator::MpiCommunicator(Backend& backend, const CommunicatorOptions& options, std::int64_t limit)
    : limit_(limit) {
  const MpiWorld world = initialize();
  const auto& logical = options.logical_ranks;
  RAILYARD_CHECK(logical.empty() || logical.size() == static_cast<std::size_t>(world.size),
                 "{} logical ranks for {} ranks", logical.size(), world.size);
  const int key = logical.empty() ? world.rank : logical[static_cast<std::size_t>(world.rank)];
  check(MPI_Comm_split(MPI_COMM_WORLD, 0, key, &world_), "MPI_Comm_split");
  check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(world_, &size_), "MPI_Comm_size");
  RAILYARD_CHECK(rank_ == key, "logical ranks are no permutation");
  waiter_ = std::make_shared<Waiter>(world_, options.timeout, options.activity);
  pool_ = std::make_shared<StagingPool>(backend);
  number_ = waiter_->add_group();
}

MpiCommunicator::~MpiCommunicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&world_);
}

std::unique_ptr<Group> MpiCommunicator::make_group(const std::vector<int>& ranks, const std::string& name) {
  RAILYARD_CHECK(
      std::is_sorted(ranks.begin(), ranks.end()) && std::find(ranks.begin(), ranks.end(), rank_) != ranks.end(),
      "group {} must ascend and hold rank {}", name, rank_);
  barrier();  // by the waiter, so that a rank that does not come is named
  MPI_Comm communicator = MPI_COMM_NULL;
  check(MPI_Comm_split(world_, ranks.front(), rank_, &communicator), "MPI_Comm_split");
  const std::int64_t number = waiter_->add_group();
  int size = 0;
  check(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  RAILYARD_CHECK(static_cast<std::size_t>(size) == ranks.size(), "ranks name group {} differently: {} of {} agree",
                 name, size, ranks.size());
  if (ranks.size() == 1) {
    check(MPI_Comm_free(&communicator), "MPI_Comm_free");
    return make_single_group(pool_->backend(), name);
  }
  return std::make_unique<MpiGroup>(waiter_, pool_, communicator, ranks, name, number, limit_);
}

void MpiCommunicator::finish(MPI_Request request, const char* name) {
  Awaited awaited{fmt::format("{} of all ranks", name), number_, Awaited::kCollective,
                  ++waiter_->progress(number_).collectives, std::vector<int>(static_cast<std::size_t>(size_))};
  std::iota(awaited.peers.begin(), awaited.peers.end(), 0);
  std::erase(awaited.peers, rank_);
  std::vector<MPI_Request> requests{request};
  waiter_->wait(requests, awaited);
}

void MpiCommunicator::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(world_, &request), "MPI_Ibarrier");
  finish(request, "barrier");
}

std::string MpiCommunicator::broadcast(const std::string& bytes, int root) {
  auto size = static_cast<std::int64_t>(bytes.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibcast(&size, 1, MPI_INT64_T, root, world_, &request), "MPI_Ibcast");
  finish(request, "broadcast");
  std::string result = rank_ == root ? bytes : std::string(static_cast<std::size_t>(size), '\0');
  const Block block(size, limit_);
  check(MPI_Ibcast(result.data(), block.count(), block.type(), root, world_, &request), "MPI_Ibcast");
  finish(request, "broadcast");
  return result;
}

std::vector<std::string> MpiCommunicator::gather(const std::string& bytes, int root) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<std::int64_t> sizes(rank_ == root ? ranks : 0);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Igather(&size, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, root, world_, &request), "MPI_Igather");
  finish(request, "gather");
  std::vector<int> counts, offsets;
  std::int64_t total = 0;
  for (const std::int64_t part : sizes) {
    // Counts are 32-bit; control messages of gigabytes are a mistake anyway.
    if (total + part > kLargestCount) throw RunError("a gather of more than 2 GiB of control data");
    counts.push_back(static_cast<int>(part));
    offsets.push_back(static_cast<int>(total));
    total += part;
  }
  if (size > kLargestCount) throw RunError("a gather of {} bytes of control data from one rank", size);
  std::string all(static_cast<std::size_t>(total), '\0');
  check(MPI_Igatherv(bytes.data(), static_cast<int>(size), MPI_BYTE, all.data(), counts.data(), offsets.data(),
                     MPI_BYTE, root, world_, &request),
        "MPI_Igatherv");
  finish(request, "gather");
  std::vector<std::string> result;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    result.push_back(all.substr(static_cast<std::size_t>(offsets[rank]), static_cast<std::size_t>(counts[rank])));
  return result;
}

double MpiCommunicator::all_reduce(double value, ReduceOp op) {
  all_reduce(std::span(&value, 1), op);
  return value;
}

void MpiCommunicator::all_reduce(std::span<double> values, ReduceOp op) {
  RAILYARD_CHECK(values.size() <= static_cast<std::size_t>(kLargestCount), "{} numbers", values.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, operation(op), world_,
                       &request),
        "MPI_Iallreduce");
  finish(request, "all_reduce");
}

void MpiCommunicator::abort(int exit_code) {
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace railyard::mpi
