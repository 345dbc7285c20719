// What a parameter is: one physical (fused, padded, split) matrix of a rank, and the logical tensors it holds parts of.
// Initial values, gradient groups, optimizer shards and checkpoint offsets all follow from this record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tensor/tensor.hpp"

namespace railyard {

// A rectangle of a logical tensor that lies in the physical one as rows [local_row, local_row + rows), all columns.
// Logical vectors are one row. Rows of the physical tensor that no piece covers are padding and stay zero.
struct ParameterPiece {
  std::string name;  // of the logical tensor, as in checkpoints
  std::int64_t logical_rows = 0, logical_columns = 0;
  std::int64_t first_row = 0, first_column = 0;
  std::int64_t rows = 0, local_row = 0;
  bool vector = false;                  // the logical tensor has one axis
  float mean = 0.0F, deviation = 0.0F;  // initial values: mean + deviation * N(0, 1)
};

struct ParameterSpec {
  std::string name;                    // for messages and reports
  std::int64_t rows = 0, columns = 0;  // physical, on this rank; a vector is one row
  std::vector<ParameterPiece> pieces;
  bool decay = false;          // weight decay applies (matrices)
  bool split_over_tp = false;  // else every tp rank holds the same values
  // The first backward pass of a step overwrites the whole gradient; others add to what must be zero then.
  bool overwrites_gradient = false;
  // Replicated over tp, but each tp rank sees only its tokens (sequence parallelism) or its heads: gradients are summed
  // over tp.
  bool sum_over_tp = false;
  bool tied_copy = false;  // a second copy of a tied parameter on another stage: not counted in the norm

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

// Where a parameter's numbers are. Both views stay at fixed addresses for the whole run.
struct Parameter {
  ParameterSpec spec;
  Tensor value;     // [rows, columns] compute dtype
  Tensor gradient;  // [rows, columns] fp32, accumulated
};

}  // namespace railyard
