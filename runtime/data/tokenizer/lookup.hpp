// The two hash tables of byte-pair encoding: bytes -> id, and pair of ids -> merge. Open addressing, built once.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::data {

[[nodiscard]] inline std::uint64_t mix_bits(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 32);
}

// A quick hash of short strings.
[[nodiscard]] inline std::uint64_t hash_bytes(std::string_view text) {
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t hash = left * 0xD6E8FEB86659FD93ULL, word = 0;
  for (; left >= 8; at += 8, left -= 8) {
    std::memcpy(&word, at, 8);
    hash = mix_bits(hash ^ word);
  }
  if (left >= 4) {
    std::uint32_t first = 0, last = 0;
    std::memcpy(&first, at, 4);
    std::memcpy(&last, at + left - 4, 4);
    word = (std::uint64_t{last} << 32) | first;
  } else if (left > 0) {
    word = static_cast<unsigned char>(at[0]) | (std::uint64_t{static_cast<unsigned char>(at[left / 2])} << 8) |
           (std::uint64_t{static_cast<unsigned char>(at[left - 1])} << 16);
  } else {
    word = 0;
  }
  return mix_bits(mix_bits(hash ^ word) + 1);
}

// Token bytes to id. Refers to the strings of `tokens`, which must stay where they are.
class TokenMap {
 public:
  TokenMap() = default;
  // Every non-empty token; of equal ones the first counts.
  explicit TokenMap(const std::vector<std::string>& tokens) : tokens_(&tokens) {
    std::size_t capacity = 16;
    while (capacity < 2 * tokens.size()) capacity *= 2;
    slots_.assign(capacity, -1);
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id].empty()) continue;
      std::int32_t& slot = slots_[slot_of(tokens[id])];
      if (slot < 0) slot = static_cast<std::int32_t>(id);
    }
  }
  // The id, or -1.
  [[nodiscard]] std::int32_t find(std::string_view bytes) const { return slots_.empty() ? -1 : slots_[slot_of(bytes)]; }

 private:
  [[nodiscard]] std::size_t slot_of(std::string_view bytes) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash_bytes(bytes) & mask;
    while (slots_[slot] >= 0 && (*tokens_)[static_cast<std::size_t>(slots_[slot])] != bytes) slot = (slot + 1) & mask;
    return slot;
  }
  const std::vector<std::string>* tokens_ = nullptr;
  std::vector<std::int32_t> slots_;
};

// Pair of neighbouring tokens to what they merge into; a lower rank merges first.
class MergeTable {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Entry {
    std::uint64_t pair = ~std::uint64_t{0};
    std::uint32_t rank = kNone;
    std::int32_t id = -1;
  };

  void reserve(std::size_t count) {
    std::size_t capacity = 16;
    while (capacity < 2 * count) capacity *= 2;
    slots_.assign(capacity, {});
    used_ = 0;
  }
  // The first of equal pairs counts.
  void add(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t id) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Entry& entry = slots_[slot_of(key(left, right))];
    if (entry.id >= 0) return;
    entry = {key(left, right), rank, id};
    ++used_;
  }
  // An entry of rank kNone where the pair does not merge.
  [[nodiscard]] const Entry& find(std::int32_t left, std::int32_t right) const {
    return slots_[slot_of(key(left, right))];
  }
  [[nodiscard]] std::size_t size() const { return used_; }

 private:
  [[nodiscard]] static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = mix_bits(pair ^ (pair >> 29)) & mask;
    while (slots_[slot].id >= 0 && slots_[slot].pair != pair) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    std::vector<Entry> old = std::move(slots_);
    slots_.assign(old.empty() ? 16 : 2 * old.size(), {});
    for (const Entry& entry : old)
      if (entry.id >= 0) slots_[slot_of(entry.pair)] = entry;
  }
  std::vector<Entry> slots_ = std::vector<Entry>(16);
  std::size_t used_ = 0;
};

}  // namespace railyard::data
