// Reads the part of a rectangle that one saved chunk holds: the same for our checkpoints and for others' files.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/dtype.hpp"
#include "runtime/checkpoint/file.hpp"
#include "runtime/checkpoint/rectangle.hpp"

namespace railyard {

// Where a rectangle lies, or shall lie, in host memory: its inner axes are packed, and consecutive indices of its first
// axis are `row_stride` bytes apart (0: packed too).
struct HostView {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::int64_t row_stride = 0;
};

// A rectangle of a tensor, packed, at a position of a file.
struct SavedChunk {
  Rectangle where;
  DType dtype = DType::kFloat32;
  std::uint64_t position = 0;
};

// Fills what `chunk` holds of `wanted` into `out` (which is laid out for the whole of `wanted`), converting between
// floating-point types, and returns the bytes read. `window` is scratch. UsageError when the file cannot be read.
std::uint64_t read_chunk(const File& file, const SavedChunk& chunk, const Rectangle& wanted, const HostView& out,
                         std::vector<std::byte>& window);

}  // namespace railyard
