// Element types and message sizes for MPI, whose counts are 32-bit.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "runtime/comm/group.hpp"

namespace railyard::mpi {

// Largest count of one call.
inline constexpr std::int64_t kLargestCount = 0x7fffffff;

// MPI's type for arithmetic on `type`; RAILYARD_CHECK on one that MPI cannot add.
MPI_Datatype arithmetic_type(DType type);
MPI_Op operation(ReduceOp op);

// `bytes` bytes as (type, count) with count at most `limit`: plain bytes, or one element of a derived type.
class Block {
 public:
  explicit Block(std::int64_t bytes, std::int64_t limit = kLargestCount);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  [[nodiscard]] MPI_Datatype type() const { return type_; }
  [[nodiscard]] int count() const { return count_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
  bool derived_ = false;
};

}  // namespace railyard::mpi
