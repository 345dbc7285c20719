// What people do with checkpoints by hand: find one, compare two, cut one anew.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/reader.hpp"

namespace railyard {

// The folder of a checkpoint that `path` means: itself (it holds a manifest), or a step in it or in its ckpt/ (a run
// directory); without `step` the newest with a sound manifest. UsageError when there is none.
[[nodiscard]] std::filesystem::path locate_checkpoint(const std::filesystem::path& path,
                                                      std::optional<std::int64_t> step = std::nullopt);

// Whether a tensor is a weight of the model: no optimizer state and no master copy ("exp_avg/...", "master/...").
[[nodiscard]] bool is_weight(const std::string& tensor);

struct DiffSettings {
  double tolerance = 0.0;     // largest |a - b| that counts as equal; 0: the same bits
  bool weights_only = false;  // no optimizer state, no step, job and state
};

// One line for each difference, in the order of names; empty when the two hold the same, however they are cut into
// files. `progress` (may be empty) is told the bytes compared of the left one since its last call.
[[nodiscard]] std::vector<std::string> diff_checkpoints(CheckpointReader& left, CheckpointReader& right,
                                                        const DiffSettings& settings,
                                                        const std::function<void(std::uint64_t)>& progress = {});

struct ReshardSettings {
  std::int64_t files = 1;
  std::optional<DType> dtype;  // of the weights; nothing: as saved
  bool weights_only = false;
};

// Writes the checkpoint anew into `out` as `files` files, each tensor cut along its first axis. A layout reads its part
// from any cut: this is for shipping one file, for few large files on a slow file system, or for dropping what an
// inference needs not. Everything else in the manifest is kept.
void reshard_checkpoint(CheckpointReader& reader, const std::filesystem::path& out, const ReshardSettings& settings,
                        const std::function<void(std::uint64_t)>& progress = {});

}  // namespace railyard
