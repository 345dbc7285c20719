// Hugging Face weights into a checkpoint.
#include <algorithm>
#include <cstring>
#include <set>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/builder.hpp"
#include "runtime/checkpoint/hf/convert.hpp"

namespace railyard {
namespace {

constexpr std::int64_t kBlock = 128;  // of DeepSeek's fp8 weights: one scale per 128 x 128 elements
constexpr const char* kScaleSuffix = "_scale_inv";
constexpr std::uint64_t kFileBytes = std::uint64_t{4} << 30;

// Reads our tensors' rows out of theirs.
class Importer {
 public:
  Importer(const HfWeights& weights, const std::vector<HfPart>& parts) : weights_(weights) {
    for (const HfPart& part : parts) by_name_[part.ours] = &part;
  }

  // fp8 with scales becomes bf16; everything else stays.
  [[nodiscard]] DType dtype_of(const HfPart& part) const {
    const DType type = weights_.at(part.theirs).type();
    return scaled(part) ? DType::kBFloat16 : type;
  }

  void read(const BuildPart& part, const Rectangle& rows, std::span<std::byte> out) {
    const HfPart& from = *by_name_.at(part.tensor);
    const std::int64_t first = rows.offset.empty() ? 0 : rows.offset[0];
    const std::int64_t count = rows.shape.empty() ? 1 : rows.shape[0];
    const std::size_t row_bytes = out.size() / static_cast<std::size_t>(count);
    if (from.transposed) {
      read_columns(from, first, count, dtype_size(part.dtype), out);
    } else if (scaled(from)) {
      read_scaled(from, first, count, out);
    } else if (from.rotary) {
      for (std::int64_t i = 0; i < count; ++i)
        read_rows(from, rotary_source_row(*from.rotary, first + i),
                  out.subspan(static_cast<std::size_t>(i) * row_bytes, row_bytes));
    } else {
      read_rows(from, first, out);
    }
  }

 private:
  [[nodiscard]] bool scaled(const HfPart& part) const {
    return weights_.at(part.theirs).dtype == "F8_E4M3" && weights_.holds(part.theirs + kScaleSuffix);
  }

  // Packed rows of a part that is contiguous in theirs.
  void read_rows(const HfPart& from, std::int64_t row, std::span<std::byte> out) const {
    const TensorEntry& entry = weights_.at(from.theirs);
    const auto element = static_cast<std::int64_t>(dtype_size(entry.type()));
    const std::int64_t inner = from.shape.empty() ? 1 : volume(from.shape) / std::max<std::int64_t>(1, from.shape[0]);
    weights_.read(from.theirs, static_cast<std::uint64_t>((from.offset + row * inner) * element), out);
  }

  void read_columns(const HfPart& from, std::int64_t first, std::int64_t count, std::size_t element,
                    std::span<std::byte> out) {
    if (cached_name_ != from.theirs) {
      cached_.resize(weights_.at(from.theirs).bytes());
      weights_.read(from.theirs, 0, cached_);
      cached_name_ = from.theirs;
    }
    const auto inputs = static_cast<std::size_t>(from.their_shape[0]);
    const auto total = static_cast<std::size_t>(from.their_shape[1]);
    const auto column = static_cast<std::size_t>(from.offset + first);
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row)
      for (std::size_t in = 0; in < inputs; ++in)
        std::memcpy(out.data() + (row * inputs + in) * element, cached_.data() + (in * total + column + row) * element,
                    element);
  }

  void read_scaled(const HfPart& from, std::int64_t first, std::int64_t count, std::span<std::byte> out) const {
    const std::int64_t columns = from.shape[1], scale_columns = (columns + kBlock - 1) / kBlock;
    std::vector<std::byte> row(static_cast<std::size_t>(columns));
    std::vector<float> scales(static_cast<std::size_t>(scale_columns));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t source = from.rotary ? rotary_source_row(*from.rotary, first + i) : first + i;
      weights_.read(from.theirs, static_cast<std::uint64_t>(source * columns), row);
      weights_.read(from.theirs + kScaleSuffix, static_cast<std::uint64_t>(source / kBlock * scale_columns * 4),
                    std::as_writable_bytes(std::span(scales)));
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto bits = std::to_integer<std::uint8_t>(row[static_cast<std::size_t>(c)]);
        const std::uint16_t value =
            float_to_bf16(fp8_e4m3_to_float(bits) * scales[static_cast<std::size_t>(c / kBlock)]);
        std::memcpy(out.data() + static_cast<std::size_t>(i * columns + c) * 2, &value, 2);
      }
    }
  }

  const HfWeights& weights_;
  std::map<std::string, const HfPart*> by_name_;
  std::string cached_name_;
  std::vector<std::byte> cached_;
};

// A tied head that was saved all the same must be what it is tied to.
void check_tied_head(const HfWeights& weights, const std::string& head, const std::string& embedding) {
  const TensorEntry &left = weights.at(head), &right = weights.at(embedding);
  bool same = left.dtype == right.dtype && left.shape == right.shape;
  std::vector<std::byte> a, b;
  constexpr std::uint64_t kPiece = 4 << 20;
  for (std::uint64_t at = 0; same && at < left.bytes(); at += kPiece) {
    a.resize(std::min(kPiece, left.bytes() - at));
    b.resize(a.size());
    weights.read(head, at, a);
    weights.read(embedding, at, b);
    same = a == b;
  }
  if (!same)
    throw UsageError("{} differs from {}, but config.json says tie_word_embeddings = true; set it to false", head,
                     embedding);
}

// All tensors are accounted for and have the shapes that the config says. Returns those that are left out.
std::vector<std::string> check_tensors(const HfWeights& weights, const HfModel& model, const std::vector<HfPart>& parts,
                                       const std::string& folder) {
  std::set<std::string> known;
  std::string embedding;
  for (const HfPart& part : parts) {
    const TensorEntry& entry = weights.at(part.theirs);
    known.insert(part.theirs);
    if (part.ours == "embedding.word_embeddings.weight") embedding = part.theirs;
    if (entry.shape != part.their_shape)
      throw UsageError("{}: tensor \"{}\" has shape {}, but config.json makes it {}", folder, part.theirs,
                       shape_text(entry.shape), shape_text(part.their_shape));
    static_cast<void>(entry.type());
    const std::string scale = part.theirs + kScaleSuffix;
    if (entry.dtype != "F8_E4M3" || !weights.holds(scale)) continue;
    known.insert(scale);
    const Extents blocks = {(entry.shape[0] + kBlock - 1) / kBlock, (entry.shape.back() + kBlock - 1) / kBlock};
    if (entry.shape.size() != 2 || weights.at(scale).shape != blocks || weights.at(scale).dtype != "F32")
      throw UsageError("{}: tensor \"{}\" does not hold one F32 for each {} x {} elements", folder, scale, kBlock,
                       kBlock);
  }
  std::vector<std::string> ignored;
  for (const std::string& name : weights.names()) {
    if (known.contains(name)) continue;
    if (name == "lm_head.weight") {
      check_tied_head(weights, name, embedding);
    } else if (!hf_ignored(model, name)) {
      throw UsageError("{}: tensor \"{}\" is none of a {} with this config.json", folder, name, model.architecture);
    }
    ignored.push_back(name);
  }
  return ignored;
}

}  // namespace

Json job_of(const ModelSpec& model) {
  JobSpec job;
  job.model = model;
  return {{"model", job.to_json()["model"]}};
}

std::optional<ModelSpec> model_of(const CheckpointInfo& info, const std::string& source) {
  if (!info.job.is_object() || !info.job.contains("model")) return std::nullopt;
  Json document = JobSpec{}.to_json();
  document["model"] = info.job["model"];
  return JobSpec::from_json(document, source).model;
}

ImportedModel import_hf(const std::filesystem::path& folder, const std::filesystem::path& out,
                        const ConvertProgress& progress) {
  const auto config_path = folder / "config.json";
  ImportedModel imported{read_hf_config(read_json_file(config_path), config_path.string()), {}, 0, 0};
  const HfWeights weights(folder);
  const auto parts = hf_parts(imported.model, [&](const std::string& name) { return weights.holds(name); });
  imported.ignored = check_tensors(weights, imported.model, parts, folder.string());

  Importer importer(weights, parts);
  std::vector<std::vector<BuildPart>> files(1);
  std::uint64_t in_file = 0;
  for (const HfPart& part : parts) {
    const DType dtype = importer.dtype_of(part);
    const std::uint64_t bytes = static_cast<std::uint64_t>(volume(part.shape)) * dtype_size(dtype);
    if (in_file > 0 && in_file + bytes > kFileBytes) {
      files.emplace_back();
      in_file = 0;
    }
    in_file += bytes;
    imported.bytes += bytes;
    ++imported.tensors;
    files.back().push_back({part.ours, dtype, part.shape, {Extents(part.shape.size(), 0), part.shape}});
  }
  CheckpointInfo info;
  if (imported.model.spec) info.job = job_of(*imported.model.spec);
  info.state = {{"hf_config", imported.model.config}};
  build_checkpoint(
      out, info, files,
      [&](const BuildPart& part, const Rectangle& rows, std::span<std::byte> bytes) {
        importer.read(part, rows, bytes);
      },
      [&](std::uint64_t done) {
        if (progress) progress(done, imported.bytes);
      });
  return imported;
}

}  // namespace railyard
