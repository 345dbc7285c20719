// A tensor is a view: where the numbers are, their type and their shape. Memory belongs to Buffers; layers and backends
// pass views by value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "runtime/base/dtype.hpp"
#include "runtime/base/error.hpp"

namespace railyard {

// Up to four extents, outermost first.
class Shape {
 public:
  static constexpr int kMaximumRank = 4;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    RAILYARD_CHECK(extents.size() <= kMaximumRank);
    for (const std::int64_t extent : extents) extents_[static_cast<size_t>(rank_++)] = extent;
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](int axis) const {
    return extents_[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)];
  }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= extents_[static_cast<size_t>(axis)];
    return product;
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int axis = 0; axis < a.rank_; ++axis)
      if (a[axis] != b[axis]) return false;
    return true;
  }

 private:
  std::array<std::int64_t, kMaximumRank> extents_{};
  int rank_ = 0;
};

// A dense row-major view that owns nothing. An 8-bit tensor carries its scale: real value = stored value * *scale,
// where `scale` points to one float in the memory of the tensor's device (block scaling: one per block, row-major).
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;
  const float* scale = nullptr;

  [[nodiscard]] bool defined() const { return data != nullptr; }
  [[nodiscard]] std::int64_t elements() const { return shape.elements(); }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements()) * dtype_size(dtype); }
  // Extent of the last axis, and the product of all others.
  [[nodiscard]] std::int64_t columns() const { return shape.rank() == 0 ? 1 : shape[-1]; }
  [[nodiscard]] std::int64_t rows() const { return columns() == 0 ? 0 : elements() / columns(); }

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
  // The same elements under another shape.
  [[nodiscard]] Tensor view(const Shape& other) const {
    RAILYARD_CHECK(other.elements() == elements());
    return {data, dtype, other, scale};
  }
  // Elements [begin, begin + count) as a vector.
  [[nodiscard]] Tensor flat(std::int64_t begin, std::int64_t count) const {
    RAILYARD_CHECK(begin >= 0 && count >= 0 && begin + count <= elements());
    return {static_cast<std::byte*>(data) + static_cast<std::size_t>(begin) * dtype_size(dtype), dtype, Shape{count},
            scale};
  }
  // Rows [begin, begin + count) of the matrix [rows(), columns()].
  [[nodiscard]] Tensor row_range(std::int64_t begin, std::int64_t count) const {
    RAILYARD_CHECK(begin >= 0 && count >= 0 && begin + count <= rows());
    Tensor part = flat(begin * columns(), count * columns());
    part.shape = Shape{count, columns()};
    return part;
  }
};

}  // namespace railyard
