// Writes, reads back and sums up a placement.
#include "launch/bootstrap/placement_record.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "launch/place/report.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// "tp: 100% nvlink", "dp: 88% rail, 12% leaf, over 2 leaves".
std::string axis_text(const AxisCost& axis) {
  const double total = std::accumulate(axis.bytes.begin(), axis.bytes.end(), 0.0);
  std::vector<std::string> shares;
  for (int link = 1; link < kLinkClasses && total > 0; ++link) {
    const double percent = 100 * axis.bytes[static_cast<std::size_t>(link)] / total;
    if (percent >= 0.05)
      shares.push_back(fmt::format("{:.3g}% {}", percent, link_class_name(static_cast<LinkClass>(link))));
  }
  std::string text = fmt::format("{}: {}", axis_name(axis.axis), fmt::join(shares, ", "));
  if (axis.most_leaves > 0)
    text += fmt::format(", over {} {}", axis.most_leaves, axis.most_leaves == 1 ? "leaf" : "leaves");
  return text;
}

}  // namespace

Json placement_map(const Layout& layout, const Allocation& allocation, const Placement& placement,
                   const std::vector<int>& started_as, bool on_cpus) {
  Json map = placement_map_json(layout, allocation, placement);
  for (std::size_t rank = 0; rank < map.size(); ++rank) {
    map[rank]["started_as"] = started_as[rank];
    if (on_cpus) map[rank]["gpu"] = nullptr;
  }
  return map;
}

std::vector<int> slots_of_map(const Json& document, const Allocation& allocation, const std::string& name,
                              bool on_cpus) {
  const auto ranks = static_cast<std::size_t>(allocation.slots());
  if (!document.contains("map") || !document.at("map").is_array() || document.at("map").size() != ranks)
    throw UsageError("{}: \"map\" must list all {} ranks", name, ranks);
  std::map<std::pair<std::string, int>, int> slot_at;
  std::map<std::string, int> next_place;
  int slot = 0;
  for (const AllocatedNode& node : allocation.nodes)
    for (const int gpu : node.gpus) slot_at[{node.name, gpu}] = slot++;
  std::vector<int> slot_of(ranks, -1);
  for (const Json& entry : document.at("map")) {
    const bool sound = entry.is_object() && entry.contains("rank") && entry["rank"].is_number_integer() &&
                       entry.contains("node") && entry["node"].is_string() && entry.contains("cpus") &&
                       entry.contains("nic") && entry.contains("gpu") && (on_cpus || entry["gpu"].is_number_integer());
    if (!sound) throw UsageError("{}: each entry of \"map\" needs rank, node, gpu, nic and cpus", name);
    const auto rank = entry["rank"].get<long>();
    const auto node = entry["node"].get<std::string>();
    if (rank < 0 || rank >= static_cast<long>(ranks) || slot_of[static_cast<std::size_t>(rank)] >= 0)
      throw UsageError("{}: rank {} is not one of {}, or is there twice", name, rank, ranks);
    const int gpu = on_cpus ? next_place[node]++ : entry["gpu"].get<int>();
    const auto found = slot_at.find({node, gpu});
    if (found == slot_at.end())
      throw UsageError("{}: rank {}: {} is no free place of this run: it has one rank on each GPU given to it", name,
                       rank, on_cpus ? fmt::format("node \"{}\"", node) : fmt::format("GPU {} of \"{}\"", gpu, node));
    slot_of[static_cast<std::size_t>(rank)] = found->second;
    slot_at.erase(found);
  }
  return slot_of;
}

void describe(const AssignmentInput& input, const Allocation& allocation, const Traffic& traffic,
              const LinkRates& rates, const Placement& placement, Json map, const std::vector<std::string>& notes,
              Assignment& result) {
  Json seconds{{"railyard", placement.cost.seconds}};
  std::vector<std::string> others;
  for (const RankOrder order : {RankOrder::kSlurmBlock, RankOrder::kSlurmCyclic, RankOrder::kAlphabetical}) {
    const double other = place_in_order(input.layout, allocation, traffic, order, rates).cost.seconds;
    seconds[std::string(rank_order_name(order))] = other;
    others.push_back(fmt::format("{} {:.3g}", rank_order_name(order), other));
  }
  result.record = Json{{"layout", input.layout.to_json()},
                       {"device", input.device},
                       {"map", std::move(map)},
                       {"links", placement_links_json(placement)},
                       {"traffic_seconds", std::move(seconds)},
                       {"notes", notes}};
  if (input.facts.size() < 2) return;
  result.table = rank_table(input.layout, allocation, placement) + "\n" +
                 placement_summary(input.layout, allocation, traffic, placement, rates);
  for (const std::string& note : notes)
    if (result.table.find(note) == std::string::npos) result.table += "note: " + note + "\n";
  // On one node's CPUs there is nothing to choose, and nothing to say.
  if (input.device != "cuda" && allocation.nodes.size() == 1) return;
  std::vector<std::string> axes;
  for (const AxisCost& axis : placement.cost.axes) axes.push_back(axis_text(axis));
  std::string head = fmt::format("placement: {} ranks on {} node{}", input.facts.size(), allocation.nodes.size(),
                                 allocation.nodes.size() == 1 ? "" : "s");
  if (!axes.empty())
    head += fmt::format("; {}; {:.3g} s of traffic a step by model (in the order of {})", fmt::join(axes, "; "),
                        placement.cost.seconds, fmt::join(others, ", "));
  result.summary.push_back(std::move(head));
  result.summary.insert(result.summary.end(), notes.begin(), notes.end());
}

}  // namespace railyard::launch
