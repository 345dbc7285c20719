// Zip directory, and the tensor that an archive holds.
#include "runtime/checkpoint/megatron/torch_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;
constexpr std::uint64_t kLargestPickle = std::uint64_t{1} << 30;

template <class T>
T load(std::span<const std::byte> data, std::uint64_t at, const std::string& source) {
  if (at > data.size() || data.size() - at < sizeof(T)) throw UsageError("{}: no valid torch file", source);
  T value;
  std::memcpy(&value, data.data() + at, sizeof value);
  return value;
}

// Reads stretches of the archive with positions from its start.
class Window {
 public:
  Window(const File& file, std::uint64_t position, std::uint64_t bytes)
      : file_(file), position_(position), bytes_(bytes) {}
  [[noreturn]] void fail(const char* what) const {
    throw UsageError("{}: no valid torch file at byte {}: {}", file_.path().string(), position_, what);
  }
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t at, std::uint64_t count) const {
    if (at > bytes_ || count > bytes_ - at) fail("it leaves its bounds");
    std::vector<std::byte> out(count);
    file_.read_at(out, position_ + at);
    return out;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  const File& file_;
  std::uint64_t position_, bytes_;
};

struct Directory {
  std::uint64_t entries = 0, bytes = 0, at = 0;
};

Directory find_directory(const Window& window, const std::string& source) {
  if (window.bytes() < kEndBytes) window.fail("too short for a zip archive");
  // torch writes no comment: the end record is the last thing.
  const auto end = window.read(window.bytes() - kEndBytes, kEndBytes);
  if (load<std::uint32_t>(end, 0, source) != 0x06054b50U) window.fail("no zip archive (or one with a comment)");
  Directory directory{load<std::uint16_t>(end, 10, source), load<std::uint32_t>(end, 12, source),
                      load<std::uint32_t>(end, 16, source)};
  if (window.bytes() < kEndBytes + kLocatorBytes) return directory;
  const auto locator = window.read(window.bytes() - kEndBytes - kLocatorBytes, kLocatorBytes);
  if (load<std::uint32_t>(locator, 0, source) != 0x07064b50U) return directory;
  const auto end64 = window.read(load<std::uint64_t>(locator, 8, source), kEnd64Bytes);
  if (load<std::uint32_t>(end64, 0, source) != 0x06064b50U) window.fail("a damaged zip64 record");
  return {load<std::uint64_t>(end64, 32, source), load<std::uint64_t>(end64, 40, source),
          load<std::uint64_t>(end64, 48, source)};
}

// Sizes and offset beyond 32 bits stand in the zip64 field, in this order, each only if its short form is all ones.
void read_zip64(std::span<const std::byte> extra, std::array<std::uint64_t*, 3> values, const std::string& source) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::size_t size = load<std::uint16_t>(extra, at + 2, source);
    if (load<std::uint16_t>(extra, at, source) == 1) {
      const auto field = extra.subspan(at + 4, std::min(size, extra.size() - at - 4));
      std::size_t next = 0;
      for (std::uint64_t* value : values) {
        if (*value != 0xffffffffU) continue;
        *value = load<std::uint64_t>(field, next, source);
        next += 8;
      }
      return;
    }
    at += 4 + size;
  }
}

const std::vector<std::pair<std::string_view, DType>>& type_names() {
  static const std::vector<std::pair<std::string_view, DType>> kNames = {{"torch float32", DType::kFloat32},
                                                                         {"torch FloatStorage", DType::kFloat32},
                                                                         {"torch bfloat16", DType::kBFloat16},
                                                                         {"torch BFloat16Storage", DType::kBFloat16},
                                                                         {"torch float16", DType::kFloat16},
                                                                         {"torch HalfStorage", DType::kFloat16},
                                                                         {"torch float64", DType::kFloat64},
                                                                         {"torch DoubleStorage", DType::kFloat64},
                                                                         {"torch int64", DType::kInt64},
                                                                         {"torch LongStorage", DType::kInt64},
                                                                         {"torch int32", DType::kInt32},
                                                                         {"torch IntStorage", DType::kInt32},
                                                                         {"torch int16", DType::kInt16},
                                                                         {"torch ShortStorage", DType::kInt16},
                                                                         {"torch int8", DType::kInt8},
                                                                         {"torch CharStorage", DType::kInt8},
                                                                         {"torch uint8", DType::kUInt8},
                                                                         {"torch ByteStorage", DType::kUInt8},
                                                                         {"torch bool", DType::kBool},
                                                                         {"torch BoolStorage", DType::kBool},
                                                                         {"torch float8_e4m3fn", DType::kFloat8E4M3},
                                                                         {"torch float8_e5m2", DType::kFloat8E5M2}};
  return kNames;
}

}  // namespace

bool torch_allows(std::string_view global) {
  static constexpr std::array<std::string_view, 18> kOthers = {
      "torch Size",
      "torch.serialization _get_layout",
      "torch._utils _rebuild_tensor_v2",
      "torch._utils _rebuild_parameter",
      "collections OrderedDict",
      "pathlib PosixPath",
      "pathlib._local PosixPath",
      "torch.distributed.checkpoint.metadata Metadata",
      "torch.distributed.checkpoint.metadata MetadataIndex",
      "torch.distributed.checkpoint.metadata TensorStorageMetadata",
      "torch.distributed.checkpoint.metadata BytesStorageMetadata",
      "torch.distributed.checkpoint.metadata ChunkStorageMetadata",
      "torch.distributed.checkpoint.metadata TensorProperties",
      "torch.distributed.checkpoint.metadata StorageMeta",
      "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING",
      "torch.distributed.checkpoint.filesystem _StorageInfo",
      "torch.distributed.checkpoint.filesystem _StoragePrefix",
      "argparse Namespace",
  };
  return std::any_of(type_names().begin(), type_names().end(), [&](const auto& p) { return p.first == global; }) ||
         std::find(kOthers.begin(), kOthers.end(), global) != kOthers.end();
}

DType torch_dtype(const PickleNode& node, const std::string& what) {
  if (node.kind == PickleNode::Kind::kGlobal)
    for (const auto& [name, type] : type_names())
      if (node.text == name) return type;
  throw UsageError("{}: an element type that is not built yet", what);
}

TorchArchive::TorchArchive(const File& file, std::uint64_t position, std::uint64_t bytes) : file_(file) {
  const std::uint64_t size = file.size();
  const std::string source = file.path().string();
  if (position > size || bytes > size - position)
    throw UsageError("{}: ends at byte {}, but an archive reaches beyond; was it cut short?", source, size);
  const Window window(file, position, bytes);
  const Directory directory = find_directory(window, source);
  const auto entries = window.read(directory.at, directory.bytes);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (load<std::uint32_t>(entries, at, source) != 0x02014b50U) window.fail("a damaged directory");
    const auto name_bytes = load<std::uint16_t>(entries, at + 28, source);
    const auto extra_bytes = load<std::uint16_t>(entries, at + 30, source);
    const auto comment_bytes = load<std::uint16_t>(entries, at + 32, source);
    std::uint64_t packed = load<std::uint32_t>(entries, at + 20, source);
    std::uint64_t unpacked = load<std::uint32_t>(entries, at + 24, source);
    std::uint64_t local = load<std::uint32_t>(entries, at + 42, source);
    if (entries.size() - at < kEntryBytes + name_bytes + extra_bytes) window.fail("a damaged directory");
    std::string name(reinterpret_cast<const char*>(entries.data()) + at + kEntryBytes, name_bytes);
    read_zip64(std::span(entries).subspan(at + kEntryBytes + name_bytes, extra_bytes), {&unpacked, &packed, &local},
               source);
    if (load<std::uint16_t>(entries, at + 10, source) != 0 || packed != unpacked) window.fail("it is compressed");
    const auto header = window.read(local, kLocalBytes);
    const std::uint64_t first =
        local + kLocalBytes + load<std::uint16_t>(header, 26, source) + load<std::uint16_t>(header, 28, source);
    if (first > bytes || unpacked > bytes - first) window.fail("a member leaves its bounds");
    if (const auto slash = name.find('/'); slash != std::string::npos) name.erase(0, slash + 1);
    members_[name] = {position + first, unpacked};
    at += kEntryBytes + name_bytes + extra_bytes + comment_bytes;
  }
}

const TorchArchive::Member& TorchArchive::at(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) throw UsageError("{}: no valid torch file: lacks {}", file_.path().string(), name);
  return found->second;
}

Pickle TorchArchive::pickle(Pickle::Unknown unknown) const {
  const Member& member = at("data.pkl");
  if (member.bytes > kLargestPickle) throw UsageError("{}: a pickle of {} bytes", file_.path().string(), member.bytes);
  std::vector<std::byte> data(member.bytes);
  file_.read_at(data, member.position);
  return {data, file_.path().string(), torch_allows, unknown};
}

TorchTensor read_torch_tensor(const File& file, std::uint64_t position, std::uint64_t bytes) {
  const TorchArchive archive(file, position, bytes);
  const Pickle pickle = archive.pickle(Pickle::Unknown::kRefuse);
  const std::string what = fmt::format("{}: tensor at byte {}", file.path().string(), position);
  const PickleNode* node = &pickle.root();
  if (node->is_call("torch._utils _rebuild_parameter") && !node->items[1]->items.empty())
    node = node->items[1]->items[0];
  if (!node->is_call("torch._utils _rebuild_tensor_v2") || node->items[1]->items.size() < 4)
    throw UsageError("{}: holds no plain tensor", what);
  const auto& arguments = node->items[1]->items;
  const PickleNode& persistent = *arguments[0];
  if (persistent.kind != PickleNode::Kind::kPersistent || persistent.items[0]->items.size() < 3)
    throw UsageError("{}: holds no storage", what);
  TorchTensor tensor;
  tensor.dtype = torch_dtype(*persistent.items[0]->items[1], what);
  tensor.shape = arguments[2]->to_integers(what);
  const Extents strides = arguments[3]->to_integers(what);
  const auto count = checked_volume(tensor.shape);
  if (!count || *count > INT64_MAX / 8 || strides.size() != tensor.shape.size())
    throw UsageError("{}: an impossible shape", what);
  std::int64_t expected = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0; expected *= tensor.shape[axis])
    if (tensor.shape[axis] > 1 && *count > 0 && strides[axis] != expected)
      throw UsageError("{}: is not contiguous: not built yet", what);
  const auto& storage = archive.at("data/" + persistent.items[0]->items[2]->to_string(what));
  const std::int64_t offset = arguments[1]->to_integer(what);
  const std::uint64_t element = dtype_size(tensor.dtype), available = storage.bytes / element;
  if (offset < 0 || static_cast<std::uint64_t>(offset) > available ||
      static_cast<std::uint64_t>(*count) > available - static_cast<std::uint64_t>(offset))
    throw UsageError("{}: its storage is too small", what);
  tensor.position = storage.position + static_cast<std::uint64_t>(offset) * element;
  return tensor;
}

}  // namespace railyard
