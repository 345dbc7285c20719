// A folder of safetensors files.
#include <system_error>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/checkpoint/hf/convert.hpp"
#include "runtime/checkpoint/json_field.hpp"

namespace railyard {

HfWeights::HfWeights(const std::filesystem::path& folder) : folder_(folder) {
  std::error_code error;
  const auto index_path = folder / "model.safetensors.index.json", single = folder / "model.safetensors";
  if (!std::filesystem::exists(index_path, error)) {
    if (!std::filesystem::exists(single, error)) {
      if (std::filesystem::exists(folder / "pytorch_model.bin", error) ||
          std::filesystem::exists(folder / "pytorch_model.bin.index.json", error))
        throw UsageError("{}: holds pickled weights only; save them with transformers' save_pretrained as safetensors",
                         folder.string());
      throw UsageError("{}: holds neither model.safetensors nor model.safetensors.index.json", folder.string());
    }
    files_.emplace_back(single);
    for (const TensorEntry& tensor : files_[0].tensors()) place_[tensor.name] = 0;
    return;
  }
  const std::string source = index_path.string();
  const Json document = read_json_file(index_path);
  const JsonField map = JsonField(document, "", source).at("weight_map");
  if (!map.json().is_object()) map.fail("expected a table");
  std::map<std::string, std::size_t> file_of;
  for (const auto& [name, json] : map.json().items()) {
    const std::string file = JsonField(json, "weight_map." + name, source).string();
    if (file.empty() || file.find('/') != std::string::npos || file.front() == '.')
      map.fail(fmt::format("\"{}\" is no plain file name", file));
    const auto [slot, fresh] = file_of.try_emplace(file, files_.size());
    if (fresh) files_.emplace_back(folder / file);
    if (files_[slot->second].header().find(name) == nullptr)
      throw UsageError("{}: holds no tensor \"{}\", which the index says is there", (folder / file).string(), name);
    place_[name] = slot->second;
  }
}

std::vector<std::string> HfWeights::names() const {
  std::vector<std::string> out;
  out.reserve(place_.size());
  for (const auto& [name, file] : place_) out.push_back(name);
  return out;
}

const TensorEntry& HfWeights::at(const std::string& name) const {
  const auto found = place_.find(name);
  if (found == place_.end()) throw UsageError("{}: holds no tensor \"{}\"", folder_.string(), name);
  return files_[found->second].at(name);
}

void HfWeights::read(const std::string& name, std::uint64_t first, std::span<std::byte> out) const {
  const SafetensorsReader& file = files_[place_.at(name)];
  file.read(file.at(name), first, out);
}

}  // namespace railyard
