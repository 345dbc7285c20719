// Where the vocabularies' own libraries know another Unicode than ours: so that the same text gives the same tokens.
#pragma once

#include <cstdint>
#include <span>

namespace railyard::data {

struct PointRange {
  std::uint32_t first, last;
};
struct CategoryRange {
  const char* category;  // a general category, "Lu"
  std::uint32_t first, last;
};

// Characters that got their category after Unicode 14, which is what PCRE2 10.42 knows.
[[nodiscard]] std::span<const CategoryRange> later_categories();

// Characters with a combining class, or with which others compose, that Hugging Face's NFC, of an older Unicode, takes
// for ordinary ones.
[[nodiscard]] std::span<const PointRange> nfc_ordinary();

}  // namespace railyard::data
