// One allocation for a run, planned before it is made. Components first state what they will hold (plan), then take
// their tensors out of it; the planner stops after the first half, so what it predicts is what the runtime allocates.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/compute/backend.hpp"

namespace railyard {

enum class MemoryKind { kWeights, kGradients, kOptimizer, kActivations, kOther };
inline constexpr int kMemoryKinds = 5;

// A place in an arena, given by ArenaPlan::add.
struct ArenaSlot {
  std::size_t offset = 0;
  DType dtype = DType::kFloat32;
  Shape shape;
};

class ArenaPlan {
 public:
  ArenaSlot add(const std::string& name, MemoryKind kind, DType dtype, const Shape& shape) {
    const ArenaSlot slot{bytes_, dtype, shape};
    const std::size_t size = round(static_cast<std::size_t>(shape.elements()) * dtype_size(dtype));
    by_kind_[static_cast<size_t>(kind)] += size;
    entries_.push_back({name, kind, size});
    bytes_ += size;
    return slot;
  }
  // Room that several users share one after the other: the caller lays out tensors within it by itself.
  ArenaSlot add_shared(const std::string& name, MemoryKind kind, std::size_t size) {
    return add(name, kind, DType::kUInt8, Shape{static_cast<std::int64_t>(size)});
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t bytes(MemoryKind kind) const { return by_kind_[static_cast<size_t>(kind)]; }
  struct Entry {
    std::string name;
    MemoryKind kind;
    std::size_t bytes;
  };
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  static constexpr std::size_t kAlignment = 256;
  [[nodiscard]] static std::size_t round(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  std::size_t bytes_ = 0;
  std::array<std::size_t, kMemoryKinds> by_kind_{};
  std::vector<Entry> entries_;
};

class Arena {
 public:
  Arena() = default;
  // Throws RunError naming the sizes when the device has not enough memory.
  Arena(Backend& backend, const ArenaPlan& plan) : buffer_(backend.allocate(plan.bytes())) {}
  [[nodiscard]] Tensor tensor(const ArenaSlot& slot) const {
    return {buffer_.data() + slot.offset, slot.dtype, slot.shape};
  }

 private:
  Buffer buffer_;
};

}  // namespace railyard
