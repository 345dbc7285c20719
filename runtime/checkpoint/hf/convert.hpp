// Hugging Face checkpoints in and out: folders with config.json and model.safetensors, whole or sharded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/hf/model.hpp"
#include "runtime/checkpoint/reader.hpp"
#include "runtime/checkpoint/safetensors.hpp"

namespace railyard {

// Told the bytes done since the last call, and the bytes in all.
using ConvertProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// The tensors of a folder's safetensors files under one roof.
class HfWeights {
 public:
  // Reads model.safetensors.index.json or model.safetensors. UsageError: neither is there, a file breaks a rule or
  // lacks a tensor that the index lists.
  explicit HfWeights(const std::filesystem::path& folder);

  [[nodiscard]] bool holds(const std::string& name) const { return place_.contains(name); }
  [[nodiscard]] std::vector<std::string> names() const;
  // UsageError when there is none.
  [[nodiscard]] const TensorEntry& at(const std::string& name) const;
  // Bytes of the packed content from `first` on.
  void read(const std::string& name, std::uint64_t first, std::span<std::byte> out) const;

 private:
  std::filesystem::path folder_;
  std::vector<SafetensorsReader> files_;
  std::map<std::string, std::size_t> place_;
};

struct ImportedModel {
  HfModel model;
  std::vector<std::string> ignored;  // tensors that hold nothing learnt
  std::uint64_t tensors = 0, bytes = 0;
};

// Reads the weights in `folder` and publishes them as the checkpoint of step 0 in `out`. Element types are kept, but
// for DeepSeek's fp8 blocks, which become bf16. The manifest's job holds the model, its state hf_config. UsageError: a
// tensor that is missing, unknown, or of another shape than the config says; RunError: cannot be written.
ImportedModel import_hf(const std::filesystem::path& folder, const std::filesystem::path& out,
                        const ConvertProgress& progress);

struct ExportSettings {
  std::optional<DType> dtype;                          // nothing: as saved
  std::uint64_t shard_bytes = std::uint64_t{5} << 30;  // weights per file
};

// Writes the weights of a checkpoint and a config.json into the new folder `out`. UsageError: the model has no
// counterpart, a tensor is missing or not of the model, or `out` exists; RunError: cannot be written. An export that
// fails leaves no `out`.
HfModel export_hf(CheckpointReader& reader, const std::filesystem::path& out, const ExportSettings& settings,
                  const ConvertProgress& progress);

// The model that a manifest's resolved job describes; nothing when it holds none.
[[nodiscard]] std::optional<ModelSpec> model_of(const CheckpointInfo& info, const std::string& source);
// The part of a resolved job that says the model.
[[nodiscard]] Json job_of(const ModelSpec& model);

}  // namespace railyard
