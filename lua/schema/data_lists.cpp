// Flat lists of weights and prefixes, and the file that holds three of them.
#include "lua/schema/data_lists.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

constexpr const char* kSplits[] = {"train", "valid", "test"};

std::optional<double> number_in(const Json& item) {
  if (item.is_number()) return item.get<double>();
  if (!item.is_string()) return std::nullopt;
  const auto& text = item.get_ref<const std::string&>();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

// The list as tables; nothing when it is no flat list.
std::optional<Json> spelt_out(const Json& list, const std::string& path, std::vector<Finding>& findings) {
  if (!list.is_array()) return std::nullopt;
  bool weighted = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string() && !list[i].is_number()) return std::nullopt;
    weighted = weighted || (list.size() % 2 == 0 && i % 2 == 0 && number_in(list[i]));
  }
  Json tables = Json::array();
  for (std::size_t i = 0; i < list.size(); i += weighted ? 2 : 1) {
    const Json& prefix = list[weighted ? i + 1 : i];
    const auto weight = weighted ? number_in(list[i]) : std::nullopt;
    if (!prefix.is_string() || (weighted && !weight)) {
      findings.push_back({path, fmt::format("expected weights and prefixes in turn, got {}",
                                            told(weighted && !weight ? list[i] : prefix))});
      return Json::array();
    }
    Json entry{{"path", prefix}};
    if (weight) entry["weight"] = *weight;
    tables.push_back(std::move(entry));
  }
  return tables;
}

void read_per_split(Json& data, std::vector<Finding>& findings) {
  const std::string path = "data.per_split";
  const Json given = data["per_split"];
  data.erase("per_split");
  if (!given.is_string()) {
    findings.push_back({path, fmt::format("expected the name of a JSON file, got {}", told(given))});
    return;
  }
  Json file;
  try {
    file = read_json_file(given.get<std::string>());
  } catch (const UsageError& error) {
    findings.push_back({path, error.what()});
    return;
  }
  if (!file.is_object()) findings.push_back({path, fmt::format("{}: expected an object", given.get<std::string>())});
  if (!file.is_object()) return;
  for (const auto& [name, list] : file.items()) {
    const std::string place = fmt::format("{}: {}", given.get<std::string>(), name);
    const bool known = name == kSplits[0] || name == kSplits[1] || name == kSplits[2];
    if (!known) {
      findings.push_back({path, place + ": is none of train, valid and test"});
    } else if (data.contains(name)) {
      findings.push_back({path, fmt::format("lists {} too; give data.{} or data.per_split", name, name)});
    } else if (!list.is_null()) {
      std::vector<Finding> inside;
      const auto tables = spelt_out(list, path, inside);
      if (!tables) inside.push_back({path, fmt::format("expected a list of weights and prefixes, got {}", told(list))});
      for (const Finding& finding : inside) findings.push_back({path, place + ": " + finding.message});
      if (tables && !tables->empty()) data[name] = *tables;
    }
  }
}

}  // namespace

void spell_out_data_lists(Json& job, std::vector<Finding>& findings) {
  if (!job.is_object() || !job.contains("data") || !job["data"].is_object()) return;
  Json& data = job["data"];
  for (const char* split : kSplits)
    if (data.contains(split))
      if (auto tables = spelt_out(data[split], std::string("data.") + split, findings))
        if (!tables->empty()) data[split] = *std::move(tables);
  if (data.contains("per_split")) read_per_split(data, findings);
}

}  // namespace railyard::lua
