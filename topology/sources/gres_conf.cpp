// Slurm's gres.conf: GPUs with their device files, near cores and NVLink counts, perhaps of several kinds of nodes.
// Format: gres.conf(5). `Links` is a row of link counts with -1 for the GPU itself; `Cores` counts as Slurm does.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"
#include "topology/sources/key_values.hpp"
#include "topology/sources/pci_tree.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

struct LinksRow {
  std::string place;
  std::optional<std::vector<int>> counts;  // empty optional: no Links, or an invalid row
};

struct Group {
  Node node;
  std::vector<LinksRow> links;
};

// One count per field; nullopt when a field is not a number.
std::optional<std::vector<int>> parse_links(const std::string& text) {
  std::vector<int> counts;
  for (const auto field : split_at(text, ',')) {
    const auto count = parse_number<int>(trimmed(field));
    if (!count || *count < -1) return std::nullopt;
    counts.push_back(*count);
  }
  return counts;
}

void add_devices(Group& group, const KeyValueLine& line) {
  std::vector<std::string> files;
  if (const auto* file = line.find("File"); file != nullptr) files = expand_hostlist(*file, line.place);
  if (const auto* file = line.find("MultipleFiles"); file != nullptr) files = expand_hostlist(*file, line.place);
  if (files.empty()) {
    const auto* count = line.find("Count");
    const auto number = count == nullptr ? std::optional<int>(1) : parse_number<int>(*count);
    if (!number || *number < 0 || *number > static_cast<int>(kMostDevices))
      throw UsageError("{}: Count=\"{}\" is not a number of GPUs", line.place, *count);
    files.resize(static_cast<std::size_t>(*number));
  }
  if (group.node.gpus.size() + files.size() > kMostDevices)
    throw UsageError("{}: more than {} GPUs are beyond any node", line.place, kMostDevices);
  for (const auto& file : files) {
    Gpu gpu;
    gpu.index = static_cast<int>(group.node.gpus.size());
    if (const auto* type = line.find("Type"); type != nullptr) gpu.name = *type;
    const auto* cores = line.find("Cores");
    if (cores == nullptr) cores = line.find("CPUs");
    if (cores != nullptr) {
      gpu.cpus = CpuSet::parse_list(*cores);
      if (!gpu.cpus) throw UsageError("{}: Cores=\"{}\" is not a list of cores", line.place, *cores);
    }
    LinksRow row{line.place, std::nullopt};
    if (const auto* links = line.find("Links"); links != nullptr) {
      row.counts = parse_links(*links);
      if (!row.counts)
        group.node.warnings.push_back(
            fmt::format("{}: Links={} of {} has a field that is not a number; the row is dropped", line.place, *links,
                        file.empty() ? "a GPU" : file));
    }
    group.links.push_back(std::move(row));
    group.node.gpus.push_back(std::move(gpu));
  }
}

void finish(Group& group) {
  Node& node = group.node;
  bool all_zero = true, any = false;
  for (std::size_t g = 0; g < node.gpus.size(); ++g) {
    auto& counts = group.links[g].counts;
    if (!counts) continue;
    const auto self = std::find(counts->begin(), counts->end(), -1);
    if (counts->size() != node.gpus.size() || self == counts->end() ||
        static_cast<std::size_t>(self - counts->begin()) != g) {
      node.warnings.push_back(
          fmt::format("{}: Links has {} fields with -1 at {}, but this is GPU {} of {}; the row is dropped",
                      group.links[g].place, counts->size(),
                      self == counts->end() ? "none" : std::to_string(self - counts->begin()), g, node.gpus.size()));
      continue;
    }
    any = true;
    auto& links = node.gpus[g].nvlink.emplace();
    for (std::size_t peer = 0; peer < counts->size(); ++peer)
      if ((*counts)[peer] > 0) {
        links[static_cast<int>(peer)] = (*counts)[peer];
        all_zero = false;
      }
  }
  if (any && all_zero && node.gpus.size() > 1)
    node.notes.emplace_back(
        "Links says that no GPU has NVLink; hand-written files often do: compare with nvidia-smi topo -m");
  node.paths = PathTable(static_cast<int>(node.gpus.size()));
  normalise_links(node);
}

}  // namespace

Machine read_gres_conf(std::string_view text, const std::string& name) {
  std::map<std::string, Group> groups;  // by NodeName as written; "" for lines that hold for every node
  std::vector<std::string> order;
  bool detects = false, any_gres = false;
  for (const auto& line : read_key_values(text, name)) {
    detects = detects || line.find("AutoDetect") != nullptr;
    const auto* kind = line.find("Name");
    if (kind == nullptr) continue;
    any_gres = true;
    if (!same_word(*kind, "gpu")) continue;
    const auto* nodes = line.find("NodeName");
    const std::string key = nodes == nullptr ? "" : *nodes;
    if (!groups.contains(key)) order.push_back(key);
    add_devices(groups[key], line);
  }
  if (!any_gres && !detects) throw UsageError("{}:1: no generic resource and no AutoDetect", name);
  Machine machine;
  for (const auto& key : order) {
    Group& group = groups[key];
    group.node.source = "gres.conf: " + name;
    if (!key.empty()) group.node.name = key;
    finish(group);
    machine.nodes.push_back(std::move(group.node));
  }
  if (machine.nodes.empty()) {
    machine.nodes.emplace_back();
    machine.nodes.back().source = "gres.conf: " + name;
    machine.nodes.back().notes.emplace_back(detects ? "AutoDetect: Slurm finds the GPUs itself; the file tells none"
                                                    : "the file lists no GPU");
  }
  return machine;
}

}  // namespace railyard::topology
