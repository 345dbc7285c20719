// Expands, folds and orders host names.
#include "topology/hostlist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>

#include "runtime/base/error.hpp"

namespace railyard::topology {
namespace {

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// "01-04,7" to its numbers as written; `room` bounds how many.
std::vector<std::string> expand_range(std::string_view text, const std::string& where, std::size_t room) {
  std::vector<std::string> numbers;
  const auto number = [&](std::string_view digits) {
    unsigned long value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
      throw UsageError("{}: \"{}\" is not a number in the host list range [{}]", where, digits, text);
    return value;
  };
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const auto item = trim(rest.substr(0, comma));
    const auto dash = item.find('-');
    const auto first_digits = item.substr(0, dash);
    const auto first = number(first_digits);
    const auto last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (last < first) throw UsageError("{}: host list range [{}] falls", where, item);
    if (last - first >= room || numbers.size() + (last - first) >= room)
      throw UsageError("{}: host list [{}] names more than {} hosts", where, text, kMostHosts);
    for (unsigned long step = 0; step <= last - first; ++step)
      numbers.push_back(fmt::format("{:0{}}", first + step, first_digits.size()));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return numbers;
}

// One item of the list, such as "r[1-2]n[01-18]".
void expand_item(std::string_view item, const std::string& where, std::vector<std::string>& out) {
  std::vector<std::string> names{""};
  while (!item.empty()) {
    const auto open = item.find('[');
    const auto plain = item.substr(0, open);
    if (plain.find(']') != std::string_view::npos) throw UsageError("{}: host list has a ] without its [", where);
    for (auto& name : names) name += plain;
    if (open == std::string_view::npos) break;
    const auto close = item.find(']', open);
    if (close == std::string_view::npos) throw UsageError("{}: host list has a [ without its ]", where);
    const auto numbers = expand_range(item.substr(open + 1, close - open - 1), where, kMostHosts / names.size() + 1);
    if (numbers.size() * names.size() + out.size() > kMostHosts)
      throw UsageError("{}: host list names more than {} hosts", where, kMostHosts);
    std::vector<std::string> longer;
    longer.reserve(names.size() * numbers.size());
    for (const auto& name : names)
      for (const auto& number : numbers) longer.push_back(name + number);
    names = std::move(longer);
    item.remove_prefix(close + 1);
  }
  out.insert(out.end(), names.begin(), names.end());
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text, const std::string& where) {
  std::vector<std::string> names;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (depth < 0 || depth > 1)
      throw UsageError("{}: host list \"{}\" has unbalanced brackets", where, text.substr(0, 80));
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    const auto item = trim(text.substr(begin, i - begin));
    if (!item.empty()) expand_item(item, where, names);
    if (names.size() > kMostHosts) throw UsageError("{}: host list names more than {} hosts", where, kMostHosts);
    begin = i + 1;
  }
  return names;
}

std::string fold_hostlist(const std::vector<std::string>& names) {
  struct Family {
    std::string prefix, suffix;
    std::size_t width;
    std::vector<std::pair<unsigned long, std::string>> numbers;
  };
  std::vector<Family> families;
  std::map<std::tuple<std::string, std::string, std::size_t>, std::size_t> known;
  struct Parts {
    std::string prefix, digits, suffix;
  };
  const auto split = [](const std::string& name) {
    auto end = name.size();
    while (end > 0 && !digit(name[end - 1])) --end;
    auto begin = end;
    while (begin > 0 && digit(name[begin - 1]) && end - begin < 9) --begin;
    return Parts{name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
  };
  std::set<std::tuple<std::string, std::string, std::size_t>> padded;  // "09" makes "10" a padded number too
  for (const auto& name : names)
    if (const auto parts = split(name); parts.digits.size() > 1 && parts.digits[0] == '0')
      padded.insert({parts.prefix, parts.suffix, parts.digits.size()});
  for (const auto& name : names) {
    const auto [prefix, digits, suffix] = split(name);
    const std::size_t width = padded.contains({prefix, suffix, digits.size()}) ? digits.size() : 0;
    const auto [it, fresh] = known.try_emplace({prefix, suffix, width}, families.size());
    if (fresh) families.push_back({prefix, suffix, width, {}});
    families[it->second].numbers.emplace_back(digits.empty() ? 0 : std::stoul(digits), digits);
  }
  std::string text;
  for (auto& family : families) {
    if (!text.empty()) text += ',';
    auto& numbers = family.numbers;
    std::sort(numbers.begin(), numbers.end());
    text += family.prefix;
    if (numbers.size() == 1) {
      text += numbers[0].second + family.suffix;
      continue;
    }
    text += '[';
    for (std::size_t i = 0; i < numbers.size();) {
      std::size_t j = i;
      while (j + 1 < numbers.size() && numbers[j + 1].first == numbers[j].first + 1) ++j;
      if (i > 0) text += ',';
      text += numbers[i].second;
      if (j > i) text += '-' + numbers[j].second;
      i = j + 1;
    }
    text += ']' + family.suffix;
  }
  return text;
}

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      auto first = i, second = j;
      while (i < a.size() && digit(a[i])) ++i;
      while (j < b.size() && digit(b[j])) ++j;
      while (first < i && a[first] == '0') ++first;
      while (second < j && b[second] == '0') ++second;
      if (i - first != j - second) return i - first < j - second;
      const int order = a.substr(first, i - first).compare(b.substr(second, j - second));
      if (order != 0) return order < 0;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // equal as people count ("n01", "n1"): keep the order total
}

}  // namespace railyard::topology
