// Makes a checkpoint in one process, tensor by tensor, in bounded memory: imports and resharding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.hpp"

namespace railyard {

// A rectangle of a logical tensor that goes into one file.
struct BuildPart {
  std::string tensor;
  DType dtype = DType::kFloat32;
  Extents global_shape;
  Rectangle where;
};

// Fills `out` with the packed elements of the rectangle `rows`, some consecutive indices of the part's first axis.
using BuildSource = std::function<void(const BuildPart& part, const Rectangle& rows, std::span<std::byte> out)>;

// Writes the files and publishes the checkpoint of info.step in `dir` (made if needed), as CheckpointWriter does. Parts
// of all files together must cover each tensor exactly once. `progress` (may be empty) is told the bytes written since
// its last call. RunError when it cannot be written; UsageError from the source passes through. Nothing is left then.
void build_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info,
                      const std::vector<std::vector<BuildPart>>& files, const BuildSource& source,
                      const std::function<void(std::uint64_t)>& progress = {});

}  // namespace railyard
