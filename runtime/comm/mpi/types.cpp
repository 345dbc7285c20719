// MPI's types for ours, and derived types for messages beyond 2^31 bytes.
#include "runtime/comm/mpi/types.hpp"

#include <array>

#include "runtime/base/error.hpp"
#include "runtime/comm/mpi/wait.hpp"

namespace railyard::mpi {

MPI_Datatype arithmetic_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
    case DType::kInt64:
      return MPI_INT64_T;
    default:
      check_failed("type", __FILE__, __LINE__, fmt::format("a sum of {} over ranks", dtype_name(type)));
  }
}

MPI_Op operation(ReduceOp op) { return op == ReduceOp::kSum ? MPI_SUM : MPI_MAX; }

Block::Block(std::int64_t bytes, std::int64_t limit) {
  if (bytes <= limit) {
    count_ = static_cast<int>(bytes);
    return;
  }
  // Whole pieces of `limit` bytes, then the rest.
  const std::int64_t pieces = bytes / limit, rest = bytes % limit;
  MPI_Datatype piece = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(limit), MPI_BYTE, &piece), "MPI_Type_contiguous");
  const std::array<int, 2> counts{static_cast<int>(pieces), static_cast<int>(rest)};
  const std::array<MPI_Aint, 2> offsets{0, static_cast<MPI_Aint>(pieces * limit)};
  const std::array<MPI_Datatype, 2> types{piece, MPI_BYTE};
  check(MPI_Type_create_struct(2, counts.data(), offsets.data(), types.data(), &type_), "MPI_Type_create_struct");
  check(MPI_Type_commit(&type_), "MPI_Type_commit");
  check(MPI_Type_free(&piece), "MPI_Type_free");
  count_ = 1;
  derived_ = true;
}

Block::~Block() {
  if (derived_) MPI_Type_free(&type_);  // MPI keeps it until pending messages are through
}

}  // namespace railyard::mpi
