// Content digests by libxxhash.
#include "runtime/data/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <new>

namespace railyard::data {

void Digest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Digest::Digest() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Digest::add(std::span<const std::byte> bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }

void Digest::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

std::string Digest::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of(std::string_view text) {
  Digest digest;
  digest.add(text);
  return digest.hex();
}

std::string sampled_digest(std::span<const std::byte> bytes) {
  constexpr std::size_t kPage = 4096, kPages = 256;
  Digest digest;
  digest.add(std::to_string(bytes.size()));
  if (bytes.size() <= kPage * kPages) {
    digest.add(bytes);
  } else {
    for (std::size_t i = 0; i < kPages; ++i) {
      const std::size_t first =
          static_cast<std::size_t>(static_cast<double>(bytes.size() - kPage) * static_cast<double>(i) / (kPages - 1));
      digest.add(bytes.subspan(std::min(first, bytes.size() - kPage), kPage));
    }
  }
  return digest.hex();
}

}  // namespace railyard::data
