// Byte-pair encoding of one piece of text (Sennrich, Haddow, Birch, "Neural machine translation of rare words with
// subword units", ACL 2016): merge the pair of lowest rank, the leftmost of equals, until none is left.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer/lookup.hpp"

namespace railyard::data {

// A vocabulary and its merges; immutable once finished, shared by all encoders.
struct BpeTables {
  std::vector<std::string> tokens;  // bytes by id; empty where an id is not in use
  TokenMap ids;                     // of `tokens`, made by finish()
  MergeTable merges;
  bool by_character = false;               // merging starts from characters found in `tokens`, else from bytes
  std::array<std::int32_t, 256> byte_ids;  // the token that a byte starts as, or (by character) falls back to; -1: none
  std::int32_t unknown = -1;               // for characters that have no token and no fallback; -1: they are an error
  bool fuse_unknown = false;               // one for a run of such characters
  bool whole_first = false;                // a piece that is a token is not merged ("ignore_merges", tiktoken)

  BpeTables() { byte_ids.fill(-1); }
  BpeTables(const BpeTables&) = delete;
  BpeTables& operator=(const BpeTables&) = delete;
  void finish() { ids = TokenMap(tokens); }
};

// The encoder of one thread: the tables with a cache of short pieces.
class BpeEncoder {
 public:
  explicit BpeEncoder(std::shared_ptr<const BpeTables> tables);

  // Appends the ids of `piece`. Time n log n in its length at worst. UsageError when a byte or character has no token.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids);

 private:
  static constexpr std::size_t kCachedBytes = 30, kCachedIds = 8, kCacheSlots = 1 << 15;
  struct Cached {
    std::uint8_t bytes = 0;  // 0: free
    std::uint8_t ids = 0;
    std::array<char, kCachedBytes> text;
    std::array<std::int32_t, kCachedIds> id;
  };
  struct Symbol {
    std::int32_t id;
    std::int32_t previous, next;  // neighbours, -1 at the ends; dead symbols have id -1
  };

  void encode_uncached(std::string_view piece, std::vector<std::int32_t>& ids);
  void start_symbols(std::string_view piece);
  void merge_short(std::vector<std::int32_t>& ids);
  void merge_long(std::vector<std::int32_t>& ids);

  std::shared_ptr<const BpeTables> tables_;
  std::vector<Cached> cache_;
  std::vector<std::int32_t> symbols_;  // of the piece at hand, before merging
  std::vector<std::uint32_t> ranks_;
  std::vector<std::int32_t> merged_;
};

}  // namespace railyard::data
