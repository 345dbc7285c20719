// PyTorch's distributed checkpoint (DCP), which Megatron-Core calls torch_dist: .metadata says which rectangle of which
// tensor lies where in the files __RANK_N.distcp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/chunk_read.hpp"
#include "runtime/checkpoint/file.hpp"
#include "runtime/checkpoint/rectangle.hpp"

namespace railyard {

class TorchDistReader {
 public:
  struct Chunk {
    Rectangle where;
    std::string file;
    std::uint64_t position = 0, bytes = 0;  // of its archive
  };
  struct Tensor {
    DType dtype = DType::kFloat32;
    Extents shape;
    std::vector<Chunk> chunks;
  };

  // UsageError when .metadata is missing, is no such thing, or its chunks do not cover a tensor.
  explicit TorchDistReader(const std::filesystem::path& folder);

  [[nodiscard]] const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] bool holds(const std::string& name) const { return tensors_.contains(name); }
  // UsageError when there is none.
  [[nodiscard]] const Tensor& at(const std::string& name) const;
  // Reads a rectangle, converting between floating-point types. UsageError.
  void read(const std::string& name, const Rectangle& where, const HostView& out);

 private:
  std::filesystem::path folder_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, File> files_;
  std::map<std::pair<std::string, std::uint64_t>, SavedChunk> opened_;
  std::vector<std::byte> window_;
};

}  // namespace railyard
