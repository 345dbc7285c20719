// Finds the chunks of a wanted rectangle.
#include "runtime/checkpoint/reader.hpp"

#include <algorithm>
#include <vector>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

// Many ranks' files may take part; this many stay open.
constexpr std::size_t kOpenFiles = 64;

std::string read_manifest(const File& file) {
  std::string text(file.size(), '\0');
  file.read_at(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

}  // namespace

CheckpointReader::CheckpointReader(const std::filesystem::path& folder)
    : folder_(folder),
      lock_(File::open(folder / kManifestName)),
      manifest_(Manifest::parse(read_manifest(lock_), (folder / kManifestName).string())) {
  lock_.lock_shared();
}

const File& CheckpointReader::file(std::size_t index) {
  const auto found = files_.find(index);
  if (found != files_.end()) return found->second;
  if (files_.size() >= kOpenFiles) files_.clear();
  return files_.emplace(index, File::open(folder_ / manifest_.files[index].name)).first->second;
}

void CheckpointReader::read(const std::string& name, const Rectangle& where, const HostView& out) {
  const ManifestTensor& tensor = manifest_.at(name);
  if (!lies_inside(where, tensor.shape))
    throw UsageError("{}: tensor {} has shape {} in this checkpoint; the part at {} of shape {} is not in it",
                     folder_.string(), name, shape_text(tensor.shape), shape_text(where.offset),
                     shape_text(where.shape));
  if (tensor.dtype != out.dtype && (!dtype_is_float(tensor.dtype) || !dtype_is_float(out.dtype)))
    throw UsageError("{}: tensor {} is {} and cannot be read as {}", folder_.string(), name, dtype_name(tensor.dtype),
                     dtype_name(out.dtype));
  std::vector<std::byte> window;
  for (const ManifestChunk& chunk : tensor.chunks) {
    if (volume(chunk.where.shape) == 0 || !intersect(chunk.where, where)) continue;
    bytes_read_ += read_chunk(file(chunk.file), {chunk.where, tensor.dtype, chunk.position}, where, out, window);
  }
}

}  // namespace railyard
