// Number sets as lists and masks.
#include "topology/cpuset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>

namespace railyard::topology {
namespace {

std::optional<int> small_number(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0 || value >= CpuSet::kLimit)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<CpuSet> CpuSet::parse_list(std::string_view text) {
  CpuSet set;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const auto dash = item.find('-');
    const auto first = small_number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : small_number(item.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (int number = *first; number <= *last; ++number) set.add(number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;
  }
  return set;
}

std::optional<CpuSet> CpuSet::parse_mask(std::string_view text) {
  std::vector<std::uint32_t> words;
  while (true) {
    const auto comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    if (word.starts_with("0x") || word.starts_with("0X")) word.remove_prefix(2);
    std::uint32_t value = 0;
    if (!word.empty()) {
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 16);
      if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    }
    words.push_back(value);
    if (words.size() > kLimit / 32) return std::nullopt;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::reverse(words.begin(), words.end());
  CpuSet set;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i % 2 == 0)
      set.words_.push_back(words[i]);
    else
      set.words_.back() |= std::uint64_t{words[i]} << 32;
  }
  set.trim();
  return set;
}

void CpuSet::add(int number) {
  const auto word = static_cast<std::size_t>(number) / 64;
  if (words_.size() <= word) words_.resize(word + 1);
  words_[word] |= std::uint64_t{1} << (number % 64);
}

bool CpuSet::contains(int number) const {
  const auto word = static_cast<std::size_t>(number) / 64;
  return number >= 0 && word < words_.size() && (words_[word] >> (number % 64) & 1) != 0;
}

bool CpuSet::empty() const { return words_.empty(); }

int CpuSet::count() const {
  int total = 0;
  for (const auto word : words_) total += std::popcount(word);
  return total;
}

std::vector<int> CpuSet::members() const {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < words_.size(); ++i)
    for (auto rest = words_[i]; rest != 0; rest &= rest - 1)
      numbers.push_back(static_cast<int>(i * 64) + std::countr_zero(rest));
  return numbers;
}

CpuSet CpuSet::operator&(const CpuSet& other) const {
  CpuSet both;
  for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i)
    both.words_.push_back(words_[i] & other.words_[i]);
  both.trim();
  return both;
}

CpuSet CpuSet::operator|(const CpuSet& other) const {
  CpuSet either = words_.size() >= other.words_.size() ? *this : other;
  const CpuSet& shorter = words_.size() >= other.words_.size() ? other : *this;
  for (std::size_t i = 0; i < shorter.words_.size(); ++i) either.words_[i] |= shorter.words_[i];
  return either;
}

std::string CpuSet::list() const {
  const auto numbers = members();
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (j > i) text += fmt::format("-{}", numbers[j]);
    i = j + 1;
  }
  return text;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace railyard::topology
