// MANIFEST.json: what a checkpoint holds. Which rectangle of which logical tensor lies at which bytes of which file,
// with a checksum each, and everything else that a run needs to go on. Its first line holds the CRC-32C of all later
// lines.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.hpp"
#include "runtime/base/json.hpp"
#include "runtime/checkpoint/rectangle.hpp"

namespace railyard {

inline constexpr const char* kManifestName = "MANIFEST.json";

// The state of a run between two steps, next to its tensors. All of it belongs to the same step.
struct CheckpointInfo {
  std::int64_t step = 0;  // completed updates
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  double loss_scale = 1.0;  // of fp16; 1 otherwise
  std::string data_order;   // digest of the order of all samples; empty when there is no data
  Json generator = Json::object();
  Json job = Json::object();    // the resolved job
  Json state = Json::object();  // whatever else the writer wants back
};

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;  // of the safetensors header, with its length
  std::uint32_t header_crc32c = 0;
};

struct ManifestChunk {
  std::size_t file = 0;  // index into Manifest::files
  Rectangle where;
  std::uint64_t position = 0;  // of its first byte in the file
  std::uint32_t crc32c = 0;
};

struct ManifestTensor {
  DType dtype = DType::kFloat32;
  Extents shape;
  std::vector<ManifestChunk> chunks;
};

// One rank's part on its way to rank 0: its file, if it wrote one, and the chunks in it (their `file` is not used).
struct ManifestPart {
  std::optional<ManifestFile> file;
  std::map<std::string, ManifestTensor> tensors;

  [[nodiscard]] std::string to_text() const;
  static ManifestPart parse(std::string_view text);
};

struct Manifest {
  CheckpointInfo info;
  std::vector<ManifestFile> files;
  std::map<std::string, ManifestTensor> tensors;

  // Joins the parts of all ranks. RunError when ranks disagree about a tensor or its chunks do not cover it exactly
  // once, naming the tensor and the ranks.
  static Manifest join(CheckpointInfo info, std::vector<ManifestPart> parts);

  [[nodiscard]] std::string to_text() const;
  // UsageError, beginning with `source`, for anything that is not a whole and consistent manifest.
  static Manifest parse(std::string_view text, const std::string& source);

  // UsageError when there is no such tensor.
  [[nodiscard]] const ManifestTensor& at(const std::string& name) const;
  // Bytes of all tensors.
  [[nodiscard]] std::uint64_t tensor_bytes() const;
};

// The name of a chunk in its safetensors file: "layers.0.mlp.up.weight@0,128".
[[nodiscard]] std::string chunk_name(const std::string& tensor, const Extents& offset);

}  // namespace railyard
