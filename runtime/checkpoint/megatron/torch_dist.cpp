// Reading DCP's .metadata and the tensors it lists.
#include "runtime/checkpoint/megatron/torch_dist.hpp"

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/megatron/pickle.hpp"
#include "runtime/checkpoint/megatron/torch_file.hpp"

namespace railyard {
namespace {

constexpr std::uint64_t kLargestMetadata = std::uint64_t{1} << 31;
constexpr std::size_t kOpenFiles = 64;

Pickle read_metadata(const std::filesystem::path& path) {
  const File file = File::open(path);
  const std::uint64_t size = file.size();
  if (size > kLargestMetadata) throw UsageError("{}: {} bytes of metadata", path.string(), size);
  std::vector<std::byte> data(size);
  file.read_at(data, 0);
  return {data, path.string(), torch_allows, Pickle::Unknown::kRefuse};
}

const PickleNode& child(const PickleNode& node, const char* key, const std::string& source) {
  const PickleNode* found = node.find(key);
  if (found == nullptr) throw UsageError("{}: lacks {}", source, key);
  return *found;
}

const PickleNode& dict(const PickleNode& node, const char* key, const std::string& source) {
  const PickleNode& found = child(node, key, source);
  if (found.kind != PickleNode::Kind::kDict) throw UsageError("{}: {} is no table", source, key);
  return found;
}

TorchDistReader::Tensor read_tensor(const PickleNode& node, const std::string& what) {
  TorchDistReader::Tensor tensor;
  // TensorProperties keeps its state as a tuple that begins with the type.
  const PickleNode& properties = child(node, "properties", what);
  const PickleNode* type = properties.find("dtype");
  if (type == nullptr && properties.state != nullptr && !properties.state->items.empty())
    type = properties.state->items[0];
  if (type == nullptr) throw UsageError("{}: has no type", what);
  tensor.dtype = torch_dtype(*type, what);
  tensor.shape = child(node, "size", what).to_integers(what);
  const auto count = checked_volume(tensor.shape);
  if (!count || *count > INT64_MAX / 8) throw UsageError("{}: an impossible shape", what);
  for (const PickleNode* chunk : child(node, "chunks", what).items)
    tensor.chunks.push_back(
        {{child(*chunk, "offsets", what).to_integers(what), child(*chunk, "sizes", what).to_integers(what)}, "", 0, 0});
  std::vector<Rectangle> rectangles;
  for (const auto& chunk : tensor.chunks) rectangles.push_back(chunk.where);
  if (const auto fault = coverage_fault(tensor.shape, rectangles)) throw UsageError("{}: {}", what, *fault);
  return tensor;
}

}  // namespace

TorchDistReader::TorchDistReader(const std::filesystem::path& folder) : folder_(folder) {
  const std::string source = (folder / ".metadata").string();
  const Pickle pickle = read_metadata(source);
  const PickleNode& entries = dict(pickle.root(), "state_dict_metadata", source);
  for (std::size_t i = 0; i + 1 < entries.items.size(); i += 2) {
    if (!entries.items[i + 1]->is_call("torch.distributed.checkpoint.metadata TensorStorageMetadata")) continue;
    const std::string& name = entries.items[i]->to_string(source);
    tensors_[name] = read_tensor(*entries.items[i + 1], fmt::format("{}: tensor {}", source, name));
  }
  // The places, keyed by name and offset.
  const PickleNode& places = dict(pickle.root(), "storage_data", source);
  for (std::size_t i = 0; i + 1 < places.items.size(); i += 2) {
    const PickleNode &index = *places.items[i], &place = *places.items[i + 1];
    const auto found = tensors_.find(child(index, "fqn", source).to_string(source));
    const PickleNode& offset = child(index, "offset", source);
    if (found == tensors_.end() || offset.kind == PickleNode::Kind::kNone) continue;
    const Extents at = offset.to_integers(source);
    for (Chunk& chunk : found->second.chunks) {
      if (chunk.where.offset != at) continue;
      chunk.file = child(place, "relative_path", source).to_string(source);
      const std::int64_t position = child(place, "offset", source).to_integer(source);
      const std::int64_t bytes = child(place, "length", source).to_integer(source);
      if (chunk.file.empty() || chunk.file.front() == '.' || chunk.file.find('/') != std::string::npos ||
          position < 0 || bytes < 0)
        throw UsageError("{}: tensor {} lies at an impossible place", source, found->first);
      chunk.position = static_cast<std::uint64_t>(position);
      chunk.bytes = static_cast<std::uint64_t>(bytes);
    }
  }
  for (const auto& [name, tensor] : tensors_)
    for (const Chunk& chunk : tensor.chunks)
      if (chunk.file.empty()) throw UsageError("{}: tensor {} has no place", source, name);
}

const TorchDistReader::Tensor& TorchDistReader::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw UsageError("{}: holds no tensor {}", folder_.string(), name);
  return found->second;
}

void TorchDistReader::read(const std::string& name, const Rectangle& where, const HostView& out) {
  const Tensor& tensor = at(name);
  RAILYARD_CHECK(lies_inside(where, tensor.shape), "{}", name);
  for (const Chunk& chunk : tensor.chunks) {
    if (volume(chunk.where.shape) == 0 || !intersect(chunk.where, where)) continue;
    auto file = files_.find(chunk.file);
    if (file == files_.end()) {
      if (files_.size() >= kOpenFiles) files_.clear();
      file = files_.emplace(chunk.file, File::open(folder_ / chunk.file)).first;
    }
    const auto key = std::pair(chunk.file, chunk.position);
    auto opened = opened_.find(key);
    if (opened == opened_.end()) {
      const TorchTensor saved = read_torch_tensor(file->second, chunk.position, chunk.bytes);
      if (saved.dtype != tensor.dtype || saved.shape != chunk.where.shape)
        throw UsageError("{}: tensor {} is not what .metadata says", (folder_ / chunk.file).string(), name);
      opened = opened_.emplace(key, SavedChunk{chunk.where, saved.dtype, saved.position}).first;
    }
    read_chunk(file->second, opened->second, where, out, window_);
  }
}

}  // namespace railyard
