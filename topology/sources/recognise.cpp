// Tells the kind of a text by its content and reads it.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"
#include "topology/json.hpp"
#include "topology/rails.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

// What the first element of an XML text is called.
std::string_view root_element(std::string_view text) {
  while (true) {
    const auto open = text.find('<');
    if (open == std::string_view::npos || open + 1 >= text.size()) return {};
    text.remove_prefix(open);
    if (text.starts_with("<!--")) {
      const auto end = text.find("-->");
      if (end == std::string_view::npos) return {};
      text.remove_prefix(end + 3);
    } else if (text[1] == '?' || text[1] == '!') {
      text.remove_prefix(2);
    } else {
      return text.substr(1, text.find_first_of(" \t\r\n/>", 1) - 1);
    }
  }
}

bool has_key(std::string_view line, std::string_view key) {
  return line.size() > key.size() && same_word(line.substr(0, key.size()), key) && line[key.size()] == '=';
}

}  // namespace

std::optional<SourceKind> recognise(std::string_view text) {
  std::string_view body = text;
  if (body.starts_with("\xef\xbb\xbf")) body.remove_prefix(3);
  body = trimmed(body);
  if (body.starts_with('<')) {
    const auto root = root_element(body);
    if (root == "topology" || root == "root") return SourceKind::kHwlocXml;
    if (root == "system") return SourceKind::kNcclXml;
    return std::nullopt;
  }
  if (body.starts_with('{')) return SourceKind::kRailyardJson;
  bool gres = false, yaml_model = false;
  for (const auto raw : split_lines(body)) {
    if (raw.find("NCCL INFO ") != std::string_view::npos) return SourceKind::kNcclLog;
    const auto line = trimmed(raw.substr(0, raw.find('#')));
    if (line.empty()) continue;
    if (has_key(line, "SwitchName") || has_key(line, "BlockName") || has_key(line, "BlockSizes") ||
        has_key(line, "AggregatedBlock"))
      return SourceKind::kSlurmConf;
    for (const auto word : split_words(line))
      gres =
          gres || ((has_key(word, "Name") || has_key(word, "AutoDetect")) && line.find(':') == std::string_view::npos);
    if (line.starts_with("- topology:") || (line.starts_with("-") && trimmed(line.substr(1)).starts_with("topology:")))
      return SourceKind::kSlurmYaml;
    if (line == "switches:" || line == "blocks:" || line == "capacity_blocks:") yaml_model = true;
    const auto plain = without_ansi(raw);
    const auto words = split_words(plain);
    if (!words.empty() && words[0].starts_with("GPU") && parse_number<int>(words[0].substr(3)))
      return SourceKind::kNvidiaSmi;
  }
  if (yaml_model) return SourceKind::kTopograph;
  if (gres) return SourceKind::kGresConf;
  return std::nullopt;
}

std::string_view kind_name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kHwlocXml:
      return "hwloc XML";
    case SourceKind::kNcclXml:
      return "NCCL XML";
    case SourceKind::kNcclLog:
      return "NCCL log";
    case SourceKind::kNvidiaSmi:
      return "nvidia-smi topo -m";
    case SourceKind::kSlurmConf:
      return "Slurm topology";
    case SourceKind::kGresConf:
      return "gres.conf";
    case SourceKind::kSlurmYaml:
      return "Slurm topology.yaml";
    case SourceKind::kTopograph:
      return "topograph model";
    case SourceKind::kRailyardJson:
      return "railyard topo --json";
  }
  return "";
}

Machine read_source(std::string_view text, const std::string& name) {
  if (text.size() > kLargestInput)
    throw UsageError("{}:1: larger than {} MiB; this is no topology file", name, kLargestInput >> 20);
  const auto kind = recognise(text);
  if (!kind)
    throw UsageError(
        "{}:1: not a topology file of a known kind (hwloc XML, NCCL XML or INFO log, nvidia-smi topo -m, Slurm "
        "topology.conf or .yaml, scontrol show topology, gres.conf, topograph model, railyard topo --json)",
        name);
  Machine machine;
  switch (*kind) {
    case SourceKind::kHwlocXml:
      machine = read_hwloc_xml(text, name);
      break;
    case SourceKind::kNcclXml:
      machine = read_nccl_xml(text, name);
      break;
    case SourceKind::kNcclLog:
      machine = read_nccl_log(text, name);
      break;
    case SourceKind::kNvidiaSmi:
      machine = read_nvidia_smi(text, name);
      break;
    case SourceKind::kSlurmConf:
      machine = read_slurm_conf(text, name);
      break;
    case SourceKind::kGresConf:
      machine = read_gres_conf(text, name);
      break;
    case SourceKind::kSlurmYaml:
      machine = read_slurm_yaml(text, name);
      break;
    case SourceKind::kTopograph:
      machine = read_topograph(text, name);
      break;
    case SourceKind::kRailyardJson:
      return machine_from_json(parse_json(text, name), name);
  }
  for (Node& node : machine.nodes) assign_rails(node);
  return machine;
}

}  // namespace railyard::topology
