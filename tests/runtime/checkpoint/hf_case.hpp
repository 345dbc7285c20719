// The cases of hf/*.json (made by tests/parity/make_hf_models.py) as Hugging Face folders with weights.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/json.hpp"
#include "runtime/checkpoint/rectangle.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "tests/runtime/checkpoint/hashed_values.hpp"

namespace railyard::test {

inline std::filesystem::path hugging_face_cases() {
  return std::filesystem::path(RAILYARD_SOURCE_DIR) / "tests/runtime/checkpoint/hf";
}

// What make_hf_models.py calls `values`.
inline std::vector<float> values(const std::string& name, const Extents& shape) {
  const bool gain =
      name.ends_with(".weight") && (name.find("norm") != std::string::npos || name.find(".ln_") != std::string::npos);
  return hashed_values(name, static_cast<std::size_t>(volume(shape)), gain ? 1.0 : 0.0);
}

using Tensors = std::map<std::string, std::pair<Extents, std::vector<std::byte>>>;

inline void write_folder(const std::filesystem::path& folder, const Json& config, const Tensors& tensors,
                         const std::string& dtype = "F32") {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump();
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, dtype, tensor.first});
  SafetensorsWriter writer(folder / "model.safetensors", entries, {{"format", "pt"}});
  for (const TensorEntry& entry : writer.tensors()) writer.write(entry, 0, tensors.at(entry.name).second);
  writer.finish();
}

inline std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto span = std::as_bytes(std::span(values));
  return {span.begin(), span.end()};
}

// The folder of a case, with weights; returns the config.
inline Json make_folder(const std::string& name, const std::filesystem::path& folder, Tensors* tensors = nullptr) {
  const Json document = read_json_file(hugging_face_cases() / (name + ".json"));
  Tensors all;
  for (const auto& [key, json] : document["tensors"].items()) {
    const auto shape = json.get<Extents>();
    all[key] = {shape, bytes_of(values(key, shape))};
  }
  write_folder(folder, document["config"], all);
  if (tensors != nullptr) *tensors = all;
  return document["config"];
}

}  // namespace railyard::test
