// Reads .idx/.bin; the layout is that of megatron/core/datasets/indexed_dataset.py.
#include "runtime/data/indexed_dataset.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/data/digest.hpp"

namespace railyard::data {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::string_view kOldMagic("TNTIDX\0\0", 8);

}  // namespace

std::filesystem::path dataset_prefix(const std::filesystem::path& path) {
  const auto extension = path.extension();
  if (extension != ".bin" && extension != ".idx") return path;
  std::filesystem::path prefix = path;
  return prefix.replace_extension();
}

std::filesystem::path with_suffix(const std::filesystem::path& prefix, const char* suffix) {
  std::filesystem::path path = prefix;
  return path += suffix;
}

IndexedDataset::IndexedDataset(std::filesystem::path prefix)
    : prefix_(dataset_prefix(prefix)), idx_(with_suffix(prefix_, ".idx")), bin_(with_suffix(prefix_, ".bin")) {
  const std::string idx = with_suffix(prefix_, ".idx").string();
  const std::string_view text = idx_.text();
  if (text.starts_with(kOldMagic))
    throw UsageError(
        "{}: made by an old Megatron (\"cached\" or \"lazy\" format), which is no longer read: preprocess the text "
        "again",
        idx);
  if (text.size() < kHeader || !text.starts_with(kMagic))
    throw UsageError("{}: not a Megatron index (it should start with MMIDIDX and have at least {} bytes)", idx,
                     kHeader);
  const auto version = load<std::uint64_t>(9, 0);
  if (version != 1) throw UsageError("{}: version {}, expected 1", idx, version);
  const auto code = load<std::uint8_t>(17, 0);
  if (code < 1 || code > 8) throw UsageError("{}: unknown token type {} (1 to 8 are known)", idx, code);
  type_ = static_cast<TokenType>(code);

  const auto sequences = load<std::uint64_t>(18, 0), bounds = load<std::uint64_t>(26, 0);
  const std::uint64_t most = text.size() / 8;  // keeps the products below from overflowing
  const bool too_many = sequences > most || bounds > most;
  const std::uint64_t expected = too_many ? 0 : kHeader + 12 * sequences + 8 * bounds;
  if (too_many || (expected != text.size() && expected + sequences != text.size()))
    throw UsageError(
        "{}: {} bytes do not fit its {} sequences and {} document bounds: truncated, or not finished when it was "
        "copied",
        idx, text.size(), sequences, bounds);
  if (bounds < 1) throw UsageError("{}: no document bounds", idx);
  multimodal_ = sequences > 0 && expected != text.size();
  sequences_ = static_cast<std::int64_t>(sequences);
  bounds_ = static_cast<std::int64_t>(bounds);
  pointers_ = kHeader + 4 * sequences;
  documents_ = pointers_ + 8 * sequences;
  modes_ = documents_ + 8 * bounds;
  check_contents();
  Digest digest;
  digest.add(idx_.bytes());
  digest.add(sampled_digest(bin_.bytes()));
  digest_ = digest.hex();
  bin_.expect_random();
}

void IndexedDataset::check_contents() {
  const std::string idx = with_suffix(prefix_, ".idx").string();
  const std::int64_t bytes = static_cast<std::int64_t>(bin_.size()),
                     width = static_cast<std::int64_t>(token_size(type_));
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const std::int64_t count = length(i), at = pointer(i);
    if (count < 0) throw UsageError("{}: sequence {} has length {}", idx, i, count);
    if (at < 0 || at > bytes || count * width > bytes - at)
      throw UsageError(
          "{}: sequence {} ends at byte {} of {} in the .bin file: .bin is truncated or belongs to another .idx", idx,
          i, at + count * width, bytes);
    contiguous_ = contiguous_ && at == next;
    next = at + count * width;
    tokens_ += count;
  }
  if (document_bound(0) != 0 || document_bound(bounds_ - 1) != sequences_)
    throw UsageError("{}: document bounds go from {} to {}, expected 0 to {}", idx, document_bound(0),
                     document_bound(bounds_ - 1), sequences_);
  for (std::int64_t i = 1; i < bounds_; ++i)
    if (document_bound(i) < document_bound(i - 1))
      throw UsageError("{}: document bound {} ({}) lies before the one ahead of it ({})", idx, i, document_bound(i),
                       document_bound(i - 1));
}

std::vector<std::int32_t> IndexedDataset::lengths() const {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(sequences_));
  if (!lengths.empty())
    std::memcpy(lengths.data(), idx_.bytes().data() + kHeader, lengths.size() * sizeof(std::int32_t));
  return lengths;
}

std::int64_t IndexedDataset::document_of(std::int64_t sequence) const {
  std::int64_t low = 0, high = documents();
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (document_bound(middle) <= sequence ? low : high) = middle;
  }
  return low;
}

}  // namespace railyard::data
