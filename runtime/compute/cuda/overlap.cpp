// Products with communication beside them: the rows of one rank after the other, so that the next ones travel on the
// group's stream while the product of the last ones runs on the compute stream.
#include "runtime/compute/cuda/cuda_backend.hpp"

namespace railyard::cuda {
namespace {

// Fewer rows do not fill the device: all at once is faster then.
constexpr std::int64_t kSmallestPart = 256;

bool can_split(Group& group, const Gemm& gemm) {
  const std::int64_t ranks = group.size(), rows = gemm.d.rows();
  return ranks > 1 && !gemm.transpose_a && rows % ranks == 0 && rows / ranks >= kSmallestPart &&
         gemm.a_scaling == Scaling::kTensor;
}

// The product of rows [begin, begin + count) alone.
Gemm rows_of(const Gemm& gemm, std::int64_t begin, std::int64_t count) {
  Gemm part = gemm;
  part.a = gemm.a.row_range(begin, count);
  part.d = gemm.d.row_range(begin, count);
  if (gemm.addend.defined()) part.addend = gemm.addend.row_range(begin, count);
  return part;
}

}  // namespace

void CudaBackend::all_gather_gemm(Group& group, const Tensor& part, const Tensor& gathered, const Gemm& arguments) {
  if (!can_split(group, arguments)) return Backend::all_gather_gemm(group, part, gathered, arguments);
  RAILYARD_CHECK(arguments.a.data == gathered.data, "the product must take what was gathered");
  const int ranks = group.size(), rank = group.rank();
  const std::int64_t count = part.rows();
  const Tensor own = gathered.row_range(rank * count, count);
  if (own.data != part.data) copy(part, own);
  std::vector<Handle> arrivals;
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    arrivals.push_back(group.exchange(own, to, gathered.row_range(from * count, count), from));
  }
  gemm(rows_of(arguments, rank * count, count));
  for (int step = 1; step < ranks; ++step) {
    const int from = (rank + ranks - step) % ranks;
    arrivals[static_cast<std::size_t>(step - 1)].wait();
    gemm(rows_of(arguments, from * count, count));
  }
}

void CudaBackend::gemm_reduce_scatter(Group& group, const Gemm& arguments, const Tensor& part) {
  if (!can_split(group, arguments)) return Backend::gemm_reduce_scatter(group, arguments, part);
  const int ranks = group.size(), rank = group.rank();
  const std::int64_t count = part.rows();
  auto* received = static_cast<std::byte*>(scratch(static_cast<std::size_t>(ranks - 1) * part.bytes()));
  std::vector<Handle> arrivals;
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    const Gemm rows = rows_of(arguments, to * count, count);
    gemm(rows);
    arrivals.push_back(group.exchange(
        rows.d, to, {received + static_cast<std::size_t>(step - 1) * part.bytes(), part.dtype, part.shape}, from));
  }
  const Gemm own = rows_of(arguments, rank * count, count);
  gemm(own);
  if (own.d.data != part.data) copy(own.d, part);
  for (int step = 1; step < ranks; ++step) {
    arrivals[static_cast<std::size_t>(step - 1)].wait();
    add(part, {received + static_cast<std::size_t>(step - 1) * part.bytes(), part.dtype, part.shape}, part);
  }
}

}  // namespace railyard::cuda
