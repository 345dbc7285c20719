// Merging: by scanning for short pieces, with a heap for long ones.
#include "runtime/data/tokenizer/bpe.hpp"

#include <algorithm>
#include <queue>

#include "runtime/base/error.hpp"
#include "runtime/data/tokenizer/utf8.hpp"

namespace railyard::data {
namespace {

constexpr std::size_t kShort = 64;  // up to here scanning beats the heap

}  // namespace

BpeEncoder::BpeEncoder(std::shared_ptr<const BpeTables> tables) : tables_(std::move(tables)), cache_(kCacheSlots) {}

void BpeEncoder::encode(std::string_view piece, std::vector<std::int32_t>& ids) {
  if (piece.empty()) return;
  if (piece.size() > kCachedBytes) return encode_uncached(piece, ids);
  Cached& slot = cache_[hash_bytes(piece) & (kCacheSlots - 1)];
  if (slot.bytes == piece.size() && std::memcmp(slot.text.data(), piece.data(), piece.size()) == 0) {
    const std::size_t at = ids.size();
    ids.resize(at + slot.ids);
    for (std::size_t i = 0; i < slot.ids; ++i) ids[at + i] = slot.id[i];
    return;
  }
  const std::size_t first = ids.size();
  encode_uncached(piece, ids);
  const std::size_t count = ids.size() - first;
  if (count > kCachedIds) return;
  slot.bytes = static_cast<std::uint8_t>(piece.size());
  slot.ids = static_cast<std::uint8_t>(count);
  std::copy(piece.begin(), piece.end(), slot.text.begin());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), slot.id.begin());
}

void BpeEncoder::encode_uncached(std::string_view piece, std::vector<std::int32_t>& ids) {
  if (tables_->whole_first) {
    if (const std::int32_t id = tables_->ids.find(piece); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  start_symbols(piece);
  if (symbols_.size() <= kShort)
    merge_short(ids);
  else
    merge_long(ids);
}

void BpeEncoder::start_symbols(std::string_view piece) {
  symbols_.clear();
  const BpeTables& tables = *tables_;
  const auto byte = [&](char c) {
    const std::int32_t id = tables.byte_ids[static_cast<unsigned char>(c)];
    if (id < 0) throw UsageError("the vocabulary has no token for the byte 0x{:02x}", static_cast<unsigned char>(c));
    symbols_.push_back(id);
  };
  if (!tables.by_character) {
    for (const char c : piece) byte(c);
    return;
  }
  bool unknown_before = false;
  for (std::size_t at = 0; at < piece.size();) {
    const CodePoint point = code_point_at(piece, at);
    const std::string_view character = piece.substr(at, point.bytes);
    at += point.bytes;
    const std::int32_t id = point.valid() ? tables.ids.find(character) : -1;
    const bool fallback = id < 0 && std::all_of(character.begin(), character.end(), [&](char c) {
                            return tables.byte_ids[static_cast<unsigned char>(c)] >= 0;
                          });
    const bool unknown = id < 0 && !fallback;
    if (id >= 0)
      symbols_.push_back(id);
    else if (fallback)
      for (const char c : character) byte(c);
    else if (tables.unknown < 0)
      throw UsageError("the vocabulary has no token for the character U+{:04X}", point.value);
    else if (!(tables.fuse_unknown && unknown_before))
      symbols_.push_back(tables.unknown);
    unknown_before = unknown;
  }
}

void BpeEncoder::merge_short(std::vector<std::int32_t>& ids) {
  const MergeTable& merges = tables_->merges;
  std::size_t count = symbols_.size();
  ranks_.assign(count, MergeTable::kNone);  // of the pair (i, i + 1)
  merged_.resize(count);                    // what it becomes
  const auto look = [&](std::size_t i) {
    const MergeTable::Entry& entry = merges.find(symbols_[i], symbols_[i + 1]);
    ranks_[i] = entry.rank;
    merged_[i] = entry.id;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    std::size_t best = 0;
    std::uint32_t lowest = ranks_[0];
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (ranks_[i] < lowest) {
        lowest = ranks_[i];
        best = i;
      }
    if (lowest == MergeTable::kNone) break;
    symbols_[best] = merged_[best];
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols_[i] = symbols_[i + 1];
      ranks_[i] = ranks_[i + 1];
      merged_[i] = merged_[i + 1];
    }
    --count;
    if (best + 1 < count)
      look(best);
    else
      ranks_[best] = MergeTable::kNone;
    if (best > 0) look(best - 1);
  }
  ids.insert(ids.end(), symbols_.begin(), symbols_.begin() + static_cast<std::ptrdiff_t>(count));
}

void BpeEncoder::merge_long(std::vector<std::int32_t>& ids) {
  RAILYARD_CHECK(symbols_.size() < static_cast<std::size_t>(INT32_MAX), "a piece of {} symbols", symbols_.size());
  const MergeTable& merges = tables_->merges;
  const auto count = static_cast<std::int32_t>(symbols_.size());
  std::vector<Symbol> chain(symbols_.size());
  for (std::int32_t i = 0; i < count; ++i)
    chain[static_cast<std::size_t>(i)] = {symbols_[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;
    std::int32_t left, right, id;                   // the pair as it was; a changed neighbour makes the candidate stale
    bool operator<(const Candidate& other) const {  // std::priority_queue keeps the largest in front
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  std::priority_queue<Candidate> queue;
  const auto at = [&](std::int32_t i) -> Symbol& { return chain[static_cast<std::size_t>(i)]; };
  const auto consider = [&](std::int32_t i) {
    if (i < 0 || at(i).next < 0) return;
    const std::int32_t left = at(i).id, right = at(at(i).next).id;
    const MergeTable::Entry& entry = merges.find(left, right);
    if (entry.id >= 0) queue.push({entry.rank, i, left, right, entry.id});
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& symbol = at(best.position);
    if (symbol.id != best.left || symbol.next < 0 || at(symbol.next).id != best.right) continue;
    Symbol& gone = at(symbol.next);
    symbol.id = best.id;
    symbol.next = gone.next;
    gone.id = -1;
    if (symbol.next >= 0) at(symbol.next).previous = best.position;
    consider(symbol.previous);
    consider(best.position);
  }
  for (std::int32_t i = 0; i >= 0; i = at(i).next) ids.push_back(at(i).id);
}

}  // namespace railyard::data
