// Writing, joining and strict reading of manifests.
#include "runtime/checkpoint/manifest.hpp"

#include <fmt/ranges.h>

#include <charconv>
#include <set>
#include <span>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/json_field.hpp"

namespace railyard {
namespace {

constexpr std::string_view kFormat = "railyard-checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kChecksumStart = "{\"crc32c\":\"";
constexpr std::string_view kChecksumEnd = "\",\n";
constexpr std::size_t kFirstLine = kChecksumStart.size() + 8 + kChecksumEnd.size();

// Strings that are no UTF-8 (a path in a job) must not keep a checkpoint from being written.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string hex(std::uint32_t value) { return fmt::format("{:08x}", value); }

std::string file_text(const ManifestFile& file) {
  return fmt::format(R"({{"name":{},"bytes":{},"header_bytes":{},"header_crc32c":"{}"}})", Json(file.name).dump(),
                     file.bytes, file.header_bytes, hex(file.header_crc32c));
}

std::string tensors_text(const std::map<std::string, ManifestTensor>& tensors) {
  std::string out = "{";
  const char* separator = "\n";
  for (const auto& [name, tensor] : tensors) {
    out += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"chunks\":[", separator, Json(name).dump(),
                       dtype_name(tensor.dtype), fmt::join(tensor.shape, ","));
    separator = ",\n";
    const char* chunk_separator = "\n ";
    for (const ManifestChunk& chunk : tensor.chunks) {
      out += fmt::format(R"({}{{"file":{},"offset":[{}],"shape":[{}],"position":{},"crc32c":"{}"}})", chunk_separator,
                         chunk.file, fmt::join(chunk.where.offset, ","), fmt::join(chunk.where.shape, ","),
                         chunk.position, hex(chunk.crc32c));
      chunk_separator = ",\n ";
    }
    out += "]}";
  }
  return out + "}";
}

std::uint32_t checksum(const JsonField& field) {
  const std::string text = field.string();
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + 8) field.fail("expected 8 hexadecimal digits");
  return value;
}

ManifestFile read_file_entry(const JsonField& field) {
  ManifestFile file;
  file.name = field.at("name").string();
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos ||
      file.name.find('\0') != std::string::npos)
    field.fail("the file name is not a plain one");
  file.bytes = static_cast<std::uint64_t>(field.at("bytes").integer());
  file.header_bytes = static_cast<std::uint64_t>(field.at("header_bytes").integer(8));
  if (file.header_bytes > file.bytes) field.fail("the header is longer than the file");
  file.header_crc32c = checksum(field.at("header_crc32c"));
  return file;
}

std::map<std::string, ManifestTensor> read_tensors(const JsonField& field, const std::string& source) {
  if (!field.json().is_object()) field.fail("expected a table");
  std::map<std::string, ManifestTensor> tensors;
  for (const auto& [name, json] : field.json().items()) {
    const JsonField entry(json, fmt::format("tensor \"{}\"", name), source);
    ManifestTensor tensor;
    const auto dtype = dtype_from_name(entry.at("dtype").string());
    if (!dtype) entry.fail("unknown dtype");
    tensor.dtype = *dtype;
    tensor.shape = entry.at("shape").integers();
    const auto elements = checked_volume(tensor.shape);
    if (!elements || *elements > INT64_MAX / 8) entry.fail("the shape is too large");
    const JsonField chunks = entry.at("chunks");
    if (!chunks.json().is_array()) chunks.fail("expected a list");
    for (const Json& item : chunks.json()) {
      const JsonField chunk_field(item, entry.path(), source);
      ManifestChunk chunk;
      chunk.file = static_cast<std::size_t>(chunk_field.at("file").integer());
      chunk.where = {chunk_field.at("offset").integers(), chunk_field.at("shape").integers()};
      chunk.position = static_cast<std::uint64_t>(chunk_field.at("position").integer());
      chunk.crc32c = checksum(chunk_field.at("crc32c"));
      if (!lies_inside(chunk.where, tensor.shape)) entry.fail("a chunk lies outside of the tensor");
      tensor.chunks.push_back(std::move(chunk));
    }
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

std::uint64_t chunk_bytes(const ManifestTensor& tensor, const ManifestChunk& chunk) {
  return static_cast<std::uint64_t>(volume(chunk.where.shape)) * dtype_size(tensor.dtype);
}

std::optional<std::string> fault_of(const ManifestTensor& tensor, std::pair<std::size_t, std::size_t>* overlap) {
  std::vector<Rectangle> rectangles;
  rectangles.reserve(tensor.chunks.size());
  for (const ManifestChunk& chunk : tensor.chunks) rectangles.push_back(chunk.where);
  return coverage_fault(tensor.shape, rectangles, overlap);
}

}  // namespace

std::string ManifestPart::to_text() const {
  return fmt::format("{{\"file\":{},\"tensors\":{}}}", file ? file_text(*file) : "null", tensors_text(tensors));
}

ManifestPart ManifestPart::parse(std::string_view text) {
  const std::string source = "a rank's part of the manifest";
  const Json document = parse_json(text, source);
  const JsonField root(document, "", source);
  ManifestPart part;
  if (!root.at("file").json().is_null()) part.file = read_file_entry(root.at("file"));
  part.tensors = read_tensors(root.at("tensors"), source);
  return part;
}

Manifest Manifest::join(CheckpointInfo info, std::vector<ManifestPart> parts) {
  Manifest manifest;
  manifest.info = std::move(info);
  std::map<std::string, std::size_t> first_rank;
  std::vector<std::size_t> rank_of_file;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    for (auto& [name, tensor] : parts[rank].tensors) {
      auto [slot, fresh] = manifest.tensors.try_emplace(name, ManifestTensor{tensor.dtype, tensor.shape, {}});
      ManifestTensor& joined = slot->second;
      if (fresh) first_rank[name] = rank;
      if (joined.dtype != tensor.dtype || joined.shape != tensor.shape)
        throw RunError("checkpoint: rank {} has tensor {} as {} {}, but rank {} as {} {}", rank, name,
                       dtype_name(tensor.dtype), shape_text(tensor.shape), first_rank[name], dtype_name(joined.dtype),
                       shape_text(joined.shape));
      for (ManifestChunk& chunk : tensor.chunks) {
        RAILYARD_CHECK(parts[rank].file.has_value(), "rank {} has chunks without a file", rank);
        chunk.file = manifest.files.size();
        joined.chunks.push_back(std::move(chunk));
      }
    }
    if (!parts[rank].file) continue;
    manifest.files.push_back(std::move(*parts[rank].file));
    rank_of_file.push_back(rank);
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    std::pair<std::size_t, std::size_t> overlap{0, 0};
    const auto fault = fault_of(tensor, &overlap);
    if (!fault) continue;
    std::string ranks;
    if (overlap.first != overlap.second)
      ranks = fmt::format(" (ranks {} and {})", rank_of_file[tensor.chunks[overlap.first].file],
                          rank_of_file[tensor.chunks[overlap.second].file]);
    throw RunError("checkpoint: tensor {} of shape {} was not saved whole: {}{}", name, shape_text(tensor.shape),
                   *fault, ranks);
  }
  return manifest;
}

std::string Manifest::to_text() const {
  std::string body = fmt::format("\"format\":\"{}\",\"version\":{},\n\"step\":{},", kFormat, kVersion, info.step);
  body += fmt::format("\"consumed_samples\":{},\"consumed_tokens\":{},\"loss_scale\":{},\"data_order\":{},\n",
                      info.consumed_samples, info.consumed_tokens, Json(info.loss_scale).dump(), dump(info.data_order));
  body += fmt::format("\"generator\":{},\n\"job\":{},\n\"state\":{},\n\"files\":[", dump(info.generator),
                      dump(info.job), dump(info.state));
  const char* separator = "\n ";
  for (const ManifestFile& file : files) {
    body += separator + file_text(file);
    separator = ",\n ";
  }
  body += "],\n\"tensors\":" + tensors_text(tensors) + "}\n";
  return fmt::format("{}{}{}{}", kChecksumStart, hex(crc32c(std::as_bytes(std::span(body)))), kChecksumEnd, body);
}

Manifest Manifest::parse(std::string_view text, const std::string& source) {
  if (text.size() < kFirstLine || !text.starts_with(kChecksumStart) ||
      text.substr(kFirstLine - kChecksumEnd.size(), kChecksumEnd.size()) != kChecksumEnd)
    throw UsageError("{}: no valid checkpoint manifest: its first line holds no checksum", source);
  const std::string_view body = text.substr(kFirstLine);
  if (hex(crc32c(std::as_bytes(std::span(body)))) != text.substr(kChecksumStart.size(), 8))
    throw UsageError("{}: the checksum in its first line does not fit the rest: damaged or cut short", source);
  const Json document = parse_json(text, source);
  const JsonField root(document, "", source);
  if (root.at("format").string() != kFormat) root.at("format").fail("is not one of ours");
  if (root.at("version").integer() != kVersion)
    root.at("version").fail(fmt::format("this program reads version {}", kVersion));
  Manifest manifest;
  manifest.info.step = root.at("step").integer();
  manifest.info.consumed_samples = root.at("consumed_samples").integer();
  manifest.info.consumed_tokens = root.at("consumed_tokens").integer();
  manifest.info.loss_scale = root.at("loss_scale").number();
  manifest.info.data_order = root.at("data_order").string();
  manifest.info.generator = root.at("generator").json();
  manifest.info.job = root.at("job").json();
  manifest.info.state = root.at("state").json();
  const JsonField files = root.at("files");
  if (!files.json().is_array()) files.fail("expected a list");
  std::set<std::string> names;
  for (const Json& item : files.json()) {
    manifest.files.push_back(read_file_entry(JsonField(item, "files", source)));
    if (!names.insert(manifest.files.back().name).second) files.fail("a name stands twice");
  }
  manifest.tensors = read_tensors(root.at("tensors"), source);
  for (const auto& [name, tensor] : manifest.tensors) {
    const JsonField entry(document, fmt::format("tensor \"{}\"", name), source);
    if (const auto fault = fault_of(tensor, nullptr)) entry.fail(*fault);
    for (const ManifestChunk& chunk : tensor.chunks) {
      if (chunk.file >= manifest.files.size()) entry.fail("a chunk lies in a file that is not listed");
      const ManifestFile& file = manifest.files[chunk.file];
      if (chunk.position < file.header_bytes || chunk.position > file.bytes ||
          chunk_bytes(tensor, chunk) > file.bytes - chunk.position)
        entry.fail(fmt::format("a chunk lies outside of {}", file.name));
    }
  }
  return manifest;
}

const ManifestTensor& Manifest::at(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw UsageError("the checkpoint of step {} holds no tensor {}", info.step, name);
  return found->second;
}

std::uint64_t Manifest::tensor_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors)
    total += static_cast<std::uint64_t>(volume(tensor.shape)) * dtype_size(tensor.dtype);
  return total;
}

std::string chunk_name(const std::string& tensor, const Extents& offset) {
  return fmt::format("{}@{}", tensor, fmt::join(offset, ","));
}

}  // namespace railyard
