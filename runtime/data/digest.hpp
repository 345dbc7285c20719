// Content digests (XXH3, 128 bits): they name caches and find changed data; they are no protection against malice.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace railyard::data {

class Digest {
 public:
  Digest();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  // 32 hexadecimal digits of all bytes added so far.
  [[nodiscard]] std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

[[nodiscard]] std::string digest_of(std::string_view text);

// Digest of a large file's size and of evenly spread pages of it (all of it up to 1 MiB): cheap at any size, and finds
// a file that was made again; `verify` is what reads everything.
[[nodiscard]] std::string sampled_digest(std::span<const std::byte> bytes);

}  // namespace railyard::data
