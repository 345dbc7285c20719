// safetensors files: u64 header length, a JSON header, the tensors back to back. The reader is strict: it accepts only
// files whose every byte is accounted for, as the format's README and its reference implementation define.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/dtype.hpp"
#include "runtime/checkpoint/file.hpp"
#include "runtime/checkpoint/rectangle.hpp"

namespace railyard {

// One tensor of a file. `dtype` is the header's spelling; there are types that a file may hold and that have no host
// type here (F4, F8_E8M0, ...): they can be listed and copied, not converted.
struct TensorEntry {
  std::string name;
  std::string dtype;
  Extents shape;
  std::uint64_t begin = 0;  // bytes, from the start of the data section
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
  // The host type; UsageError naming the tensor when there is none.
  [[nodiscard]] DType type() const;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// A parsed and validated header.
class SafetensorsHeader {
 public:
  static constexpr std::uint64_t kMaximumBytes = 100'000'000;

  // `json` is the header without its length, `data_bytes` what the file holds after it. UsageError, beginning with
  // `source`, says which rule is broken. Memory stays proportional to the header.
  static SafetensorsHeader parse(std::string_view json, std::uint64_t data_bytes, const std::string& source);

  // In order of their bytes.
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const { return tensors_; }
  [[nodiscard]] const TensorEntry* find(const std::string& name) const;
  [[nodiscard]] const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  SafetensorsMetadata metadata_;
};

// An open file. Reads with pread, so that a file cut short while it is open is an error and not a signal.
class SafetensorsReader {
 public:
  // UsageError when the file cannot be read or breaks a rule.
  explicit SafetensorsReader(const std::filesystem::path& path);

  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const { return header_.tensors(); }
  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  // Position in the file of the first byte of the data section.
  [[nodiscard]] std::uint64_t data_position() const { return data_position_; }
  // The tensor of that name; UsageError when there is none.
  [[nodiscard]] const TensorEntry& at(const std::string& name) const;
  // Reads bytes of a tensor's packed row-major content, `first` bytes into it.
  void read(const TensorEntry& tensor, std::uint64_t first, std::span<std::byte> out) const;

 private:
  File file_;
  std::uint64_t data_position_ = 0;
  SafetensorsHeader header_;
};

// Orders the entries as the reference writer does (wider types first, then by name), sets their begin and end, and
// returns the file's first bytes: the length and the header, padded with spaces to a multiple of `alignment` (a
// multiple of 8). UsageError for an unknown type, a shape that overflows, a doubled name, or a header that is too long.
std::string layout_safetensors(std::vector<TensorEntry>& entries, const SafetensorsMetadata& metadata,
                               std::size_t alignment = 8);

// Writes a file piece by piece, in any order, so that no whole tensor need be in memory.
class SafetensorsWriter {
 public:
  // Entries need name, dtype and shape. RunError when the file cannot be made.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                    const SafetensorsMetadata& metadata);

  // In file order, with begin and end.
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const { return entries_; }
  // Writes bytes of a tensor's packed row-major content, `first` bytes into it; each byte once.
  void write(const TensorEntry& tensor, std::uint64_t first, std::span<const std::byte> data);
  // Syncs and closes; it is an error of the program if bytes are missing.
  void finish();

 private:
  File file_;
  std::vector<TensorEntry> entries_;
  std::uint64_t data_position_ = 0;
  std::uint64_t expected_ = 0, written_ = 0;
};

}  // namespace railyard
