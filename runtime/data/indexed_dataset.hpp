// Megatron's data set of two files: PREFIX.bin (tokens back to back) and PREFIX.idx (types, lengths, documents).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/mapped_file.hpp"
#include "runtime/data/token_view.hpp"

namespace railyard::data {

// Reading. Both files are mapped; arrays in .idx are unaligned and loaded by element.
class IndexedDataset {
 public:
  // `prefix` with or without .bin or .idx at its end. Checks magic, version, type, the size of .idx, that every
  // sequence lies inside .bin and that document bounds rise from 0 to the number of sequences. UsageError says what is
  // wrong.
  explicit IndexedDataset(std::filesystem::path prefix);

  [[nodiscard]] std::int64_t sequences() const { return sequences_; }
  [[nodiscard]] std::int64_t documents() const { return bounds_ - 1; }
  [[nodiscard]] TokenType type() const { return type_; }
  [[nodiscard]] bool multimodal() const { return multimodal_; }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] bool contiguous() const {
    return contiguous_;
  }  // sequences lie back to back, as every writer puts them
  [[nodiscard]] const std::filesystem::path& prefix() const { return prefix_; }

  [[nodiscard]] std::int32_t length(std::int64_t sequence) const { return load<std::int32_t>(kHeader, sequence); }
  // Byte offset of a sequence in .bin.
  [[nodiscard]] std::int64_t pointer(std::int64_t sequence) const { return load<std::int64_t>(pointers_, sequence); }
  // First sequence of document `document`; of documents(): the number of sequences.
  [[nodiscard]] std::int64_t document_bound(std::int64_t document) const {
    return load<std::int64_t>(documents_, document);
  }
  [[nodiscard]] std::uint8_t mode(std::int64_t sequence) const { return load<std::uint8_t>(modes_, sequence); }
  // All lengths, aligned.
  [[nodiscard]] std::vector<std::int32_t> lengths() const;

  // out.size() tokens of a sequence from `offset`.
  void read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const {
    load_tokens(type_, raw(sequence).data() + static_cast<std::size_t>(offset) * token_size(type_), out);
  }
  // The bytes of a sequence.
  [[nodiscard]] std::span<const std::byte> raw(std::int64_t sequence) const {
    return bin_.bytes().subspan(static_cast<std::size_t>(pointer(sequence)),
                                static_cast<std::size_t>(length(sequence)) * token_size(type_));
  }
  // The sequence's document.
  [[nodiscard]] std::int64_t document_of(std::int64_t sequence) const;
  // Of the whole .idx and of sampled pages of .bin.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  [[nodiscard]] const MappedFile& bin() const { return bin_; }

 private:
  static constexpr std::size_t kHeader = 34;
  template <class T>
  [[nodiscard]] T load(std::size_t first, std::int64_t i) const {
    T value;
    std::memcpy(&value, idx_.bytes().data() + first + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }
  void check_contents();

  std::filesystem::path prefix_;
  MappedFile idx_, bin_;
  std::string digest_;
  TokenType type_ = TokenType::kUInt16;
  bool multimodal_ = false;
  bool contiguous_ = true;
  std::int64_t sequences_ = 0, bounds_ = 0, tokens_ = 0;
  std::size_t pointers_ = 0, documents_ = 0, modes_ = 0;
};

// PREFIX, PREFIX.bin or PREFIX.idx to PREFIX.
[[nodiscard]] std::filesystem::path dataset_prefix(const std::filesystem::path& path);
[[nodiscard]] std::filesystem::path with_suffix(const std::filesystem::path& prefix, const char* suffix);

}  // namespace railyard::data
