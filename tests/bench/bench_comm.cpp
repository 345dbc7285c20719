// Time of the collectives between ranks of this machine: mpirun -n RANKS bench_comm.
//
// Prints the least time of several runs and the bytes a rank handles per second.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <vector>

#include "runtime/comm/mpi/mpi_communicator.hpp"

namespace railyard {
namespace {

void run() {
  const auto backend = make_cpu_backend({.threads = 1});
  mpi::MpiCommunicator world(*backend, {});
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto group = world.make_group(all, "all");
  const auto measure = [&](const char* name, std::int64_t bytes, const std::function<void()>& operation) {
    double best = 1e30;
    for (int round = 0; round < 20; ++round) {
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      operation();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best = std::min(best, world.all_reduce(seconds, ReduceOp::kMax));
    }
    if (world.rank() == 0)
      fmt::print("  {:16} {:9} bytes {:10.1f} us {:8.2f} GB/s\n", name, bytes, best * 1e6,
                 static_cast<double>(bytes) / best * 1e-9);
  };
  if (world.rank() == 0) fmt::print("{} ranks\n", world.size());
  for (const std::int64_t count : {16, 4096, 65536, 524288, 3300000}) {
    const std::int64_t whole = (count + world.size() - 1) / world.size() * world.size(), bytes = whole * 4;
    const Buffer a = backend->allocate(static_cast<std::size_t>(bytes)),
                 b = backend->allocate(static_cast<std::size_t>(bytes));
    const Tensor x{a.data(), DType::kFloat32, Shape{whole}}, y{b.data(), DType::kFloat32, Shape{whole}};
    backend->zero(x);
    backend->zero(y);
    const Tensor part = y.flat(group->rank() * (whole / world.size()), whole / world.size());
    const Tensor half{b.data(), DType::kBFloat16, Shape{whole}};
    measure("all_reduce", bytes, [&] { group->all_reduce(x, ReduceOp::kSum).wait(); });
    measure("all_reduce bf16", bytes / 2, [&] { group->all_reduce(half, ReduceOp::kSum).wait(); });
    measure("all_gather", bytes, [&] { group->all_gather(part, x).wait(); });
    measure("reduce_scatter", bytes, [&] { group->reduce_scatter(x, part).wait(); });
  }
}

}  // namespace
}  // namespace railyard

int main() {
  railyard::mpi::initialize();
  railyard::run();
  railyard::mpi::finalize();
  return 0;
}
