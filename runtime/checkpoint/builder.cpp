// Streams parts into files, with checksums on the way, and publishes them.
#include "runtime/checkpoint/builder.hpp"

#include <algorithm>
#include <map>
#include <system_error>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/checkpoint/store.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPiece = 8 << 20;
constexpr std::size_t kAlignment = 4096;

// Writes one part at the file's end and returns its checksum.
std::uint32_t write_part(File& file, const BuildPart& part, const BuildSource& source, std::vector<std::byte>& buffer,
                         const std::function<void(std::uint64_t)>& progress) {
  const std::int64_t rows = part.where.shape.empty() ? 1 : part.where.shape[0];
  const std::int64_t row_bytes = volume(part.where.shape) / rows * static_cast<std::int64_t>(dtype_size(part.dtype));
  const std::int64_t step = std::max<std::int64_t>(1, kPiece / row_bytes);
  std::uint32_t crc = 0;
  for (std::int64_t first = 0; first < rows; first += step) {
    Rectangle piece = part.where;
    const std::int64_t count = std::min(step, rows - first);
    if (!piece.shape.empty()) {
      piece.offset[0] += first;
      piece.shape[0] = count;
    }
    buffer.resize(static_cast<std::size_t>(count * row_bytes));
    source(part, piece, buffer);
    crc = crc32c(buffer, crc);
    file.write(buffer);
    if (progress) progress(buffer.size());
  }
  return crc;
}

ManifestPart write_file(const fs::path& path, const std::vector<BuildPart>& parts, const BuildSource& source,
                        const std::function<void(std::uint64_t)>& progress) {
  ManifestPart out;
  std::vector<TensorEntry> entries;
  std::map<std::string, const BuildPart*> by_name;
  for (const BuildPart& part : parts) {
    out.tensors.try_emplace(part.tensor, ManifestTensor{part.dtype, part.global_shape, {}});
    if (volume(part.where.shape) == 0) continue;
    const std::string name = chunk_name(part.tensor, part.where.offset);
    entries.push_back({name, std::string(dtype_safetensors_name(part.dtype)), part.where.shape});
    by_name[name] = &part;
  }
  if (entries.empty()) return out;
  const std::string start = layout_safetensors(entries, {{"format", "railyard"}}, kAlignment);
  File file = File::create(path);
  file.write(std::as_bytes(std::span(start)));
  std::vector<std::byte> buffer;
  for (const TensorEntry& entry : entries) {
    const BuildPart& part = *by_name.at(entry.name);
    const std::uint32_t crc = write_part(file, part, source, buffer, progress);
    out.tensors.at(part.tensor).chunks.push_back({0, part.where, start.size() + entry.begin, crc});
  }
  file.sync();
  file.close();
  out.file = ManifestFile{path.filename().string(), start.size() + entries.back().end, start.size(),
                          crc32c(std::as_bytes(std::span(start)))};
  return out;
}

}  // namespace

void build_checkpoint(const fs::path& dir, const CheckpointInfo& info, const std::vector<std::vector<BuildPart>>& files,
                      const BuildSource& source, const std::function<void(std::uint64_t)>& progress) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) throw RunError("{}: cannot make the folder: {}", dir.string(), error.message());
  const fs::path temporary = make_temporary_folder(dir, info.step);
  try {
    std::vector<ManifestPart> parts;
    for (std::size_t i = 0; i < files.size(); ++i)
      parts.push_back(write_file(temporary / fmt::format("rank-{:05}.safetensors", i), files[i], source, progress));
    publish_folder(dir, temporary, Manifest::join(info, std::move(parts)));
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
}

}  // namespace railyard
