// Reading and writing safetensors.
#include "runtime/checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"

namespace railyard {
namespace {

static_assert(std::endian::native == std::endian::little, "the files' byte order");

// Bits of each type, in the reference implementation's order (which is also the order of alignment).
struct TypeEntry {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array<TypeEntry, 22> kTypes = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

std::optional<std::size_t> type_index(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == name) return i;
  return std::nullopt;
}

// The bytes of a tensor; nothing when the product overflows or is no whole number of bytes.
std::optional<std::uint64_t> byte_count(const TensorEntry& entry) {
  const auto type = type_index(entry.dtype);
  const auto elements = checked_volume(entry.shape);
  std::uint64_t bits = 0;
  if (!type || !elements || __builtin_mul_overflow(static_cast<std::uint64_t>(*elements), kTypes[*type].bits, &bits) ||
      bits % 8 != 0)
    return std::nullopt;
  return bits / 8;
}

// Takes the header's events one by one, so that no nesting, no length and no repetition costs more than its text.
class HeaderSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderSax(std::uint64_t data_bytes, const std::string& source) : data_bytes_(data_bytes), source_(source) {}

  std::vector<TensorEntry> tensors;
  std::unordered_map<std::string, std::size_t> index;
  SafetensorsMetadata metadata;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected("the number " + text); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail("{}: the extent {} is too large", entry_name(), value);
      tensors.back().shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::kOffsets) {
      if (offsets_seen_ == 2) fail("{}: data_offsets has more than two numbers", entry_name());
      (offsets_seen_++ == 0 ? tensors.back().begin : tensors.back().end) = value;
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      if (!metadata.emplace(key_, std::move(value)).second) fail("__metadata__: the key \"{}\" stands twice", key_);
    } else if (state_ == State::kTensor && key_ == "dtype") {
      if (!type_index(value)) fail("{}: unknown dtype \"{}\"", entry_name(), value);
      tensors.back().dtype = std::move(value);
    } else {
      return unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop && key_ == "__metadata__") {
      if (metadata_seen_) fail("__metadata__ stands twice");
      metadata_seen_ = true;
      state_ = State::kMetadata;
    } else if (state_ == State::kTop) {
      if (!index.emplace(key_, tensors.size()).second) fail("the tensor \"{}\" stands twice", key_);
      tensors.emplace_back().name = key_;
      seen_ = 0;
      state_ = State::kTensor;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    if (state_ == State::kTensor) {
      const unsigned bit = key_ == "dtype" ? 1U : key_ == "shape" ? 2U : key_ == "data_offsets" ? 4U : 0U;
      if (bit == 0) fail("{}: unknown key \"{}\"", entry_name(), key_);
      if ((seen_ & bit) != 0) fail("{}: the key \"{}\" stands twice", entry_name(), key_);
      seen_ |= bit;
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) {
      finish_tensor();
      state_ = State::kTop;
    } else {
      state_ = state_ == State::kMetadata ? State::kTop : State::kEnd;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::kTensor || key_ == "dtype") return unexpected("a list");
    state_ = key_ == "shape" ? State::kShape : State::kOffsets;
    offsets_seen_ = 0;
    return true;
  }

  bool end_array() override {
    if (state_ == State::kOffsets && offsets_seen_ != 2) fail("{}: data_offsets needs two numbers", entry_name());
    state_ = State::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    fail("the header is no valid JSON at its byte {} ({})", position, error.what());
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw UsageError("{}: no valid safetensors file: {}", source_, fmt::format(format, std::forward<Args>(args)...));
  }

  bool unexpected(const std::string& what) const {
    if (state_ == State::kStart) fail("the header is {}, not an object", what);
    if (state_ == State::kMetadata) fail("__metadata__: \"{}\" is {}, but only strings are allowed", key_, what);
    if (state_ == State::kTop) fail("\"{}\" is {}, not an object", key_, what);
    fail("{}: {} is {}", entry_name(), key_, what);
  }

  [[nodiscard]] std::string entry_name() const { return fmt::format("tensor \"{}\"", tensors.back().name); }

  void finish_tensor() {
    const TensorEntry& entry = tensors.back();
    if (seen_ != 7U) fail("{}: needs dtype, shape and data_offsets", entry_name());
    if (entry.end < entry.begin || entry.end > data_bytes_)
      fail("{}: data_offsets [{}, {}] do not lie in the {} bytes of data", entry_name(), entry.begin, entry.end,
           data_bytes_);
    const auto bytes = byte_count(entry);
    if (!bytes) fail("{}: shape {} of {} is no possible size", entry_name(), shape_text(entry.shape), entry.dtype);
    if (*bytes != entry.bytes())
      fail("{}: shape {} of {} needs {} bytes, but data_offsets hold {}", entry_name(), shape_text(entry.shape),
           entry.dtype, *bytes, entry.bytes());
    // Tensors that share bytes are found here already, before millions of them fill the memory.
    total_ += *bytes;
    if (total_ > data_bytes_) fail("{}: the tensors need more than the {} bytes of data", entry_name(), data_bytes_);
  }

  std::uint64_t data_bytes_;
  const std::string& source_;
  State state_ = State::kStart;
  std::string key_;
  unsigned seen_ = 0;
  int offsets_seen_ = 0;
  bool metadata_seen_ = false;
  std::uint64_t total_ = 0;
};

constexpr std::string_view kWhitespace = " \t\r\n";

std::string read_header(const File& file) {
  const std::uint64_t size = file.size();
  if (size < 8) throw UsageError("{}: no valid safetensors file: it has only {} bytes", file.path().string(), size);
  std::uint64_t length = 0;
  file.read_at(std::as_writable_bytes(std::span(&length, 1)), 0);
  if (length > SafetensorsHeader::kMaximumBytes)
    throw UsageError("{}: no valid safetensors file: a header of {} bytes, at most {} are allowed",
                     file.path().string(), length, SafetensorsHeader::kMaximumBytes);
  if (length > size - 8)
    throw UsageError("{}: no valid safetensors file: a header of {} bytes in a file of {}; was it cut short?",
                     file.path().string(), length, size);
  std::string header(length, '\0');
  file.read_at(std::as_writable_bytes(std::span(header)), 8);
  return header;
}

}  // namespace

DType TensorEntry::type() const {
  const auto found = dtype_from_safetensors_name(dtype);
  if (!found) throw UsageError("tensor \"{}\": elements of type {} cannot be converted", name, dtype);
  return *found;
}

SafetensorsHeader SafetensorsHeader::parse(std::string_view json, std::uint64_t data_bytes, const std::string& source) {
  // The JSON parser would skip a byte order mark and take NUL for the end of its input.
  const std::size_t first = json.find_first_not_of(kWhitespace);
  if (json.size() > kMaximumBytes) throw UsageError("{}: no valid safetensors file: the header is too long", source);
  if (first == std::string_view::npos || json[first] != '{')
    throw UsageError("{}: no valid safetensors file: the header does not begin with {{", source);
  if (json.find('\0') != std::string_view::npos)
    throw UsageError("{}: no valid safetensors file: a zero byte in the header (padding must be spaces)", source);
  HeaderSax sax(data_bytes, source);
  nlohmann::json::sax_parse(json.begin(), json.end(), &sax);
  SafetensorsHeader header;
  header.tensors_ = std::move(sax.tensors);
  header.metadata_ = std::move(sax.metadata);
  std::sort(header.tensors_.begin(), header.tensors_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t end = 0;
  for (const TensorEntry& tensor : header.tensors_) {
    if (tensor.begin != end)
      throw UsageError("{}: no valid safetensors file: tensor \"{}\" begins at byte {}, but the one before ends at {}",
                       source, tensor.name, tensor.begin, end);
    end = tensor.end;
  }
  if (end != data_bytes)
    throw UsageError("{}: no valid safetensors file: the tensors end at byte {}, but there are {} bytes of data",
                     source, end, data_bytes);
  header.index_ = std::move(sax.index);
  for (std::size_t i = 0; i < header.tensors_.size(); ++i) header.index_[header.tensors_[i].name] = i;
  return header;
}

const TensorEntry* SafetensorsHeader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(File::open(path)) {
  const std::string json = read_header(file_);
  data_position_ = 8 + json.size();
  header_ = SafetensorsHeader::parse(json, file_.size() - data_position_, path.string());
}

const TensorEntry& SafetensorsReader::at(const std::string& name) const {
  const TensorEntry* found = header_.find(name);
  if (found == nullptr) throw UsageError("{}: holds no tensor \"{}\"", path().string(), name);
  return *found;
}

void SafetensorsReader::read(const TensorEntry& tensor, std::uint64_t first, std::span<std::byte> out) const {
  RAILYARD_CHECK(first <= tensor.bytes() && out.size() <= tensor.bytes() - first, "{}", tensor.name);
  file_.read_at(out, data_position_ + tensor.begin + first);
}

std::string layout_safetensors(std::vector<TensorEntry>& entries, const SafetensorsMetadata& metadata,
                               std::size_t alignment) {
  for (const TensorEntry& entry : entries)
    if (!byte_count(entry))
      throw UsageError("tensor \"{}\": shape {} of {} cannot be written", entry.name, shape_text(entry.shape),
                       entry.dtype);
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    const auto left = type_index(a.dtype), right = type_index(b.dtype);
    return left != right ? *left > *right : a.name < b.name;
  });
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + Json(metadata).dump() + ",";
  std::uint64_t position = 0;
  std::unordered_map<std::string_view, int> names;
  for (TensorEntry& entry : entries) {
    if (entry.name == "__metadata__" || ++names[entry.name] > 1)
      throw UsageError("tensor \"{}\": the name cannot be written or stands twice", entry.name);
    entry.begin = position;
    if (__builtin_add_overflow(position, *byte_count(entry), &position))
      throw UsageError("tensor \"{}\": the file would be too long", entry.name);
    entry.end = position;
    text += Json(entry.name).dump();
    text += fmt::format(":{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}},", entry.dtype,
                        Json(entry.shape).dump(), entry.begin, entry.end);
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.append((alignment - (8 + text.size()) % alignment) % alignment, ' ');
  if (text.size() > SafetensorsHeader::kMaximumBytes)
    throw UsageError("too many tensors for one safetensors file: a header of {} bytes, at most {} are allowed",
                     text.size(), SafetensorsHeader::kMaximumBytes);
  const std::uint64_t length = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + text;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                                     const SafetensorsMetadata& metadata)
    : file_(File::create(path)), entries_(std::move(entries)) {
  const std::string start = layout_safetensors(entries_, metadata);
  file_.write_at(std::as_bytes(std::span(start)), 0);
  data_position_ = start.size();
  expected_ = entries_.empty() ? 0 : entries_.back().end;
}

void SafetensorsWriter::write(const TensorEntry& tensor, std::uint64_t first, std::span<const std::byte> data) {
  RAILYARD_CHECK(first <= tensor.bytes() && data.size() <= tensor.bytes() - first, "{}", tensor.name);
  file_.write_at(data, data_position_ + tensor.begin + first);
  written_ += data.size();
}

void SafetensorsWriter::finish() {
  RAILYARD_CHECK(written_ == expected_, "{}: wrote {} of {} bytes", file_.path().string(), written_, expected_);
  file_.sync();
  file_.close();
}

}  // namespace railyard
