// A checkpoint's weights as a Hugging Face folder.
#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/hf/convert.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPiece = 8 << 20;

// One tensor of theirs and what fills it.
struct Target {
  TensorEntry entry;
  DType dtype = DType::kFloat32;
  std::vector<const HfPart*> parts;
};

Rectangle whole(const Extents& shape) { return {Extents(shape.size(), 0), shape}; }

// Writes the rows of one part that is contiguous in theirs, in bounded memory.
void write_rows(CheckpointReader& reader, const HfPart& part, const Target& target, SafetensorsWriter& writer,
                const TensorEntry& entry) {
  const std::int64_t rows = part.shape.empty() ? 1 : part.shape[0];
  const auto element = static_cast<std::int64_t>(dtype_size(target.dtype));
  const std::int64_t row = volume(part.shape) / std::max<std::int64_t>(1, rows);
  const std::int64_t step = std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, row * element));
  std::vector<std::byte> buffer;
  for (std::int64_t first = 0; first < rows; first += step) {
    Rectangle piece = whole(part.shape);
    const std::int64_t count = std::min(step, rows - first);
    if (!piece.shape.empty()) {
      piece.offset[0] = first;
      piece.shape[0] = count;
    }
    buffer.assign(static_cast<std::size_t>(count * row * element), std::byte{0});
    if (!part.ours.empty()) reader.read(part.ours, piece, {buffer.data(), target.dtype, 0});
    writer.write(entry, static_cast<std::uint64_t>((part.offset + first * row) * element), buffer);
  }
}

// Assembles a tensor whose rows or columns change places.
void write_rearranged(CheckpointReader& reader, const Target& target, SafetensorsWriter& writer,
                      const TensorEntry& entry) {
  const std::size_t element = dtype_size(target.dtype);
  std::vector<std::byte> theirs(entry.bytes()), ours;
  for (const HfPart* part : target.parts) {
    ours.resize(static_cast<std::size_t>(volume(part->shape)) * element);
    reader.read(part->ours, whole(part->shape), {ours.data(), target.dtype, 0});
    const auto rows = static_cast<std::size_t>(part->shape[0]), inner = static_cast<std::size_t>(part->shape[1]);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::byte* from = ours.data() + row * inner * element;
      if (!part->transposed) {
        const auto to = static_cast<std::size_t>(rotary_source_row(*part->rotary, static_cast<std::int64_t>(row)));
        std::memcpy(theirs.data() + (static_cast<std::size_t>(part->offset) + to * inner) * element, from,
                    inner * element);
        continue;
      }
      const auto total = static_cast<std::size_t>(part->their_shape[1]);
      const std::size_t column = static_cast<std::size_t>(part->offset) + row;
      for (std::size_t in = 0; in < inner; ++in)
        std::memcpy(theirs.data() + (in * total + column) * element, from + in * element, element);
    }
  }
  writer.write(entry, 0, theirs);
}

void write_target(CheckpointReader& reader, const Target& target, SafetensorsWriter& writer, const TensorEntry& entry) {
  if (target.parts.front()->transposed || target.parts.front()->rotary) {
    write_rearranged(reader, target, writer, entry);
    return;
  }
  for (const HfPart* part : target.parts) write_rows(reader, *part, target, writer, entry);
}

// Groups the parts by their tensor and checks them against the checkpoint.
std::vector<Target> make_targets(const CheckpointReader& reader, const std::vector<HfPart>& parts,
                                 const ExportSettings& settings) {
  std::vector<Target> targets;
  std::map<std::string, std::size_t> index;
  std::set<std::string> used;
  std::optional<DType> weights_type;
  for (const HfPart& part : parts) {
    const auto [slot, fresh] = index.try_emplace(part.theirs, targets.size());
    if (fresh) targets.push_back({{part.theirs, "", part.their_shape}, DType::kFloat32, {}});
    Target& target = targets[slot->second];
    target.parts.push_back(&part);
    if (part.ours.empty()) continue;
    const ManifestTensor& saved = reader.manifest().at(part.ours);
    if (saved.shape != part.shape)
      throw UsageError("{}: tensor {} has shape {}, but the model makes it {}", reader.folder().string(), part.ours,
                       shape_text(saved.shape), shape_text(part.shape));
    used.insert(part.ours);
    // A router's bias is kept as it is: rounding it would change which experts are chosen.
    const bool keep = part.ours.ends_with(".expert_bias");
    target.dtype = settings.dtype && !keep ? *settings.dtype : saved.dtype;
    if (!weights_type) weights_type = target.dtype;
  }
  for (const auto& [name, tensor] : reader.manifest().tensors)
    if (name.find('/') == std::string::npos && !used.contains(name))
      throw UsageError("{}: tensor {} is none of the model", reader.folder().string(), name);
  for (Target& target : targets) {
    const bool zeros = std::all_of(target.parts.begin(), target.parts.end(), [](auto* p) { return p->ours.empty(); });
    if (zeros) target.dtype = weights_type.value_or(DType::kFloat32);
    target.entry.dtype = dtype_safetensors_name(target.dtype);
  }
  return targets;
}

std::uint64_t bytes_of(const Target& target) {
  return static_cast<std::uint64_t>(volume(target.entry.shape)) * dtype_size(target.dtype);
}

// Consecutive targets of at most `shard_bytes` each, but for single tensors that are larger.
std::vector<std::vector<const Target*>> make_shards(const std::vector<Target>& targets, std::uint64_t shard_bytes) {
  std::vector<std::vector<const Target*>> shards(1);
  std::uint64_t size = 0;
  for (const Target& target : targets) {
    if (size > 0 && size + bytes_of(target) > shard_bytes) {
      shards.emplace_back();
      size = 0;
    }
    size += bytes_of(target);
    shards.back().push_back(&target);
  }
  return shards;
}

void write_weights(CheckpointReader& reader, const fs::path& folder, const std::vector<Target>& targets,
                   const ExportSettings& settings, const ConvertProgress& progress) {
  const auto shards = make_shards(targets, settings.shard_bytes);
  std::uint64_t total = 0;
  for (const Target& target : targets) total += bytes_of(target);
  Json weight_map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? "model.safetensors"
                                                : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    std::vector<TensorEntry> entries;
    std::map<std::string, const Target*> by_name;
    for (const Target* target : shards[i]) {
      entries.push_back(target->entry);
      by_name[target->entry.name] = target;
      weight_map[target->entry.name] = name;
    }
    // transformers refuses files without a format.
    SafetensorsWriter writer(folder / name, std::move(entries), {{"format", "pt"}});
    for (const TensorEntry& entry : writer.tensors()) {
      write_target(reader, *by_name.at(entry.name), writer, entry);
      if (progress) progress(entry.bytes(), total);
    }
    writer.finish();
  }
  if (shards.size() > 1) {
    const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    write_new_file(folder / "model.safetensors.index.json", index.dump(2) + "\n");
  }
}

// The model as their config: from the resolved job, else as it was imported.
HfModel model_to_export(const CheckpointReader& reader, std::optional<DType> dtype) {
  const CheckpointInfo& info = reader.manifest().info;
  const std::string source = (reader.folder() / kManifestName).string();
  const auto spec = model_of(info, source);
  if (spec) {
    const DType type = dtype.value_or(reader.manifest().at("embedding.word_embeddings.weight").dtype);
    HfModel model = make_hf_config(*spec, type);
    // Token ids and the like come along when the weights were imported.
    if (info.state.contains("hf_config") && info.state["hf_config"].is_object())
      for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
        if (info.state["hf_config"].contains(key)) model.config[key] = info.state["hf_config"][key];
    return model;
  }
  if (!info.state.contains("hf_config")) throw UsageError("{}: does not say which model it holds", source);
  return read_hf_config(info.state["hf_config"], source);
}

}  // namespace

HfModel export_hf(CheckpointReader& reader, const fs::path& out, const ExportSettings& settings,
                  const ConvertProgress& progress) {
  HfModel model = model_to_export(reader, settings.dtype);
  const auto parts = hf_parts(model);
  const auto targets = make_targets(reader, parts, settings);
  std::error_code error;
  if (fs::exists(out, error)) throw UsageError("{}: exists already; give a new folder", out.string());
  fs::path temporary = out;
  temporary += ".tmp";
  fs::remove_all(temporary, error);
  make_directory(temporary);
  try {
    write_weights(reader, temporary, targets, settings, progress);
    write_new_file(temporary / "config.json", model.config.dump(2) + "\n");
    sync_directory(temporary);
    rename_path(temporary, out);
    sync_directory(fs::absolute(out).parent_path());
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  return model;
}

}  // namespace railyard
