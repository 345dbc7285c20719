// Finds the line of a finding.
#include "lua/schema/places.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lua/schema/suggestion.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

constexpr std::size_t kMostFindings = 20;
constexpr std::size_t kLongestPath = 120;

}  // namespace

Places::Places(const std::vector<SourceText>& sources, const std::string& constructor, int call_line,
               std::vector<Setting> settings)
    : call_line_(call_line), settings_(std::move(settings)) {
  for (const SourceText& source : sources) {
    names_.push_back(source.name);
    maps_.emplace_back(maps_.empty() ? split_preamble(source.text).lua : source.text, constructor);
  }
}

Places::Found Places::find(const std::string& path) const {
  const auto place = maps_.front().find(path);
  if (place && (place->exact || place->table_known)) return {0, place->line};
  const auto parts = path_parts(path);
  if (!parts.empty()) {
    // The table was made elsewhere, perhaps in the only place that has a key of this name.
    for (std::size_t i = 0; i < maps_.size(); ++i)
      if (const auto line = maps_[i].only_line_of(parts.back())) return {i, *line};
  }
  return {0, place ? place->line : call_line_};
}

const Setting* Places::setting_of(const std::string& path) const {
  const auto parts = path_parts(path);
  const Setting* found = nullptr;
  for (const Setting& setting : settings_)
    if (setting.path.size() <= parts.size() && std::equal(setting.path.begin(), setting.path.end(), parts.begin()))
      found = &setting;
  return found;
}

std::string Places::of(const std::string& path) const {
  if (const Setting* setting = setting_of(path)) return "--set " + printable(setting->text);
  const Found found = find(path);
  return fmt::format("{}:{}", names_[found.source], std::max(found.line, 1));
}

std::string Places::word(const Finding& finding) const {
  if (finding.path.empty()) return fmt::format("{}: {}", of(finding.path), finding.message);
  return fmt::format("{}: {}: {}", of(finding.path), printable(finding.path, kLongestPath), finding.message);
}

std::vector<std::string> Places::repeated_keys() const {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < maps_.size(); ++i)
    for (const std::string& repeated : maps_[i].repeated_keys())
      result.push_back(fmt::format("{}:{}", names_[i], repeated));
  return result;
}

void Places::refuse(const std::vector<Finding>& findings) const {
  if (findings.empty()) return;
  std::vector<const Finding*> ordered;
  for (const Finding& finding : findings) ordered.push_back(&finding);
  std::stable_sort(ordered.begin(), ordered.end(), [&](const Finding* a, const Finding* b) {
    const Found first = find(a->path), second = find(b->path);
    return std::pair(first.source, first.line) < std::pair(second.source, second.line);
  });
  std::string message;
  for (std::size_t i = 0; i < std::min(ordered.size(), kMostFindings); ++i) {
    if (i > 0) message += '\n';
    message += word(*ordered[i]);
  }
  if (ordered.size() > kMostFindings) message += fmt::format("\nand {} more", ordered.size() - kMostFindings);
  throw UsageError(message);
}

}  // namespace railyard::lua
