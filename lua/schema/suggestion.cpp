// Distances between names, and texts fit to be printed.
#include "lua/schema/suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace railyard::lua {
namespace {

constexpr std::size_t kLongestCompared = 64;

std::string normal(std::string_view name) {
  std::string result;
  for (const char c : name) result += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Damerau-Levenshtein distance (optimal string alignment).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t differs = a[i - 1] == b[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + differs});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

// The length of the well-formed UTF-8 sequence that starts at `at`, or 0.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xC0U) != 0x80U) return 0;
  const unsigned second = byte(at + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return overlong || outside ? 0 : length;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongestCompared) return std::nullopt;
  const std::string wanted = normal(name);
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongestCompared) continue;
    const std::size_t found = distance(wanted, normal(candidate));
    if (best == nullptr || found < best_distance) {
      best = &candidate;
      best_distance = found;
    }
  }
  if (best == nullptr || best_distance > std::max<std::size_t>(1, std::max(wanted.size(), best->size()) / 3))
    return std::nullopt;
  return *best;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (result.size() >= most) return result + "...";
    const std::size_t length = sequence_length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0 || c < 0x20 || c == 0x7F) {
      result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : fmt::format("\\x{:02x}", c);
      ++i;
    } else {
      result += text.substr(i, length);
      i += length;
    }
  }
  return result;
}

bool is_plain_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text, i);
    if (length == 0 || text[i] == '\0') return false;
    i += length;
  }
  return true;
}

}  // namespace railyard::lua
