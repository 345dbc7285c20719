// What torch.save writes: a zip archive, uncompressed, of a pickle and the bytes of each storage it refers to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/dtype.hpp"
#include "runtime/checkpoint/file.hpp"
#include "runtime/checkpoint/megatron/pickle.hpp"
#include "runtime/checkpoint/rectangle.hpp"

namespace railyard {

// One archive, a file of its own or a stretch of a larger one.
class TorchArchive {
 public:
  // Reads the directory of the `bytes` from `position` on. UsageError when it is none, is compressed, or leaves its
  // bounds.
  TorchArchive(const File& file, std::uint64_t position, std::uint64_t bytes);

  struct Member {
    std::uint64_t position = 0;  // in the file
    std::uint64_t bytes = 0;
  };
  // The member whose path below the archive's folder is `name`; UsageError when there is none.
  [[nodiscard]] const Member& at(const std::string& name) const;
  // The parsed data.pkl.
  [[nodiscard]] Pickle pickle(Pickle::Unknown unknown) const;

 private:
  const File& file_;
  std::map<std::string, Member> members_;
};

// A tensor that is the only content of an archive: contiguous, at a position of the file.
struct TorchTensor {
  DType dtype = DType::kFloat32;
  Extents shape;
  std::uint64_t position = 0;
};
[[nodiscard]] TorchTensor read_torch_tensor(const File& file, std::uint64_t position, std::uint64_t bytes);

// Whether data in a checkpoint may refer to "module name": torch's types, tensors and the descriptions of DCP.
[[nodiscard]] bool torch_allows(std::string_view global);
// The element type of "torch float32", "torch FloatStorage", ...; UsageError naming `what`.
[[nodiscard]] DType torch_dtype(const PickleNode& node, const std::string& what);

}  // namespace railyard
