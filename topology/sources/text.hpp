// Small text helpers of the parsers.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::topology {

[[nodiscard]] std::string_view trimmed(std::string_view text);
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text);  // without line ends, CR included
[[nodiscard]] std::vector<std::string_view> split_words(std::string_view text);  // at white space
[[nodiscard]] std::vector<std::string_view> split_at(std::string_view text, char separator);  // keeps empty fields
[[nodiscard]] bool same_word(std::string_view a, std::string_view b);                         // ASCII, any case
[[nodiscard]] std::string without_ansi(std::string_view text);                                // drops ESC [ ... letter
[[nodiscard]] int line_of(std::string_view text, std::size_t offset);                         // from 1

// The whole of `text` as a number, or nullopt.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[nodiscard]] std::optional<double> parse_real(std::string_view text);

}  // namespace railyard::topology
