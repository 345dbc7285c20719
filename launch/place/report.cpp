// Tables of a placement.
#include "launch/place/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace railyard::launch {
namespace {

std::string cpus_text(const RankPlace& place) { return place.cpus ? place.cpus->list() : "?"; }

double share(const AxisCost& axis, std::initializer_list<LinkClass> classes) {
  const double total = std::accumulate(axis.bytes.begin(), axis.bytes.end(), 0.0);
  double sum = 0;
  for (const LinkClass link : classes) sum += axis.bytes[static_cast<std::size_t>(link)];
  return total > 0 ? 100 * sum / total : 0;
}

void add_rows(std::string& out, std::string_view order, const PlacementCost& cost) {
  for (const AxisCost& axis : cost.axes) {
    const std::string spread =
        axis.most_leaves == 0 ? "?" : fmt::format("{} ({})", axis.most_leaves, axis.most_crossings);
    out += fmt::format(
        "{:<14} {:<5} {:>7.1f} {:>7.1f} {:>7.1f} {:>8.1f} {:>7.1f} {:>7.1f} {:>7.1f}  {:>11} {:>11.4g}\n", order,
        axis_name(axis.axis), share(axis, {LinkClass::kNvlink}), share(axis, {LinkClass::kPcie, LinkClass::kHost}),
        share(axis, {LinkClass::kRail}), share(axis, {LinkClass::kCrossRail}), share(axis, {LinkClass::kLeaf}),
        share(axis, {LinkClass::kSpine}), share(axis, {LinkClass::kUnknown}), spread, axis.seconds);
  }
  out += fmt::format("{:<14} {:<5} {:>73} {:>11.4g}\n", order, "all", "", cost.seconds);
}

}  // namespace

std::string rank_table(const Layout& layout, const Allocation& allocation, const Placement& placement) {
  std::size_t node_width = 4, nic_width = 3, cpu_width = 4;
  for (const auto& place : placement.ranks) {
    node_width = std::max(node_width, allocation.nodes[static_cast<std::size_t>(place.node)].name.size());
    nic_width = std::max(nic_width, place.nic.value_or("").size());
    cpu_width = std::max(cpu_width, cpus_text(place).size());
  }
  const bool experts = layout.ep > 1 || layout.etp != layout.tp;
  std::string out =
      fmt::format("{:>6}  {:<{}}  {:>3}  {:<{}}  {:<{}}  {:>3} {:>3} {:>4} {:>3}{}\n", "rank", "node", node_width,
                  "gpu", "nic", nic_width, "cpus", cpu_width, "tp", "cp", "dp", "pp", experts ? "  etp  ep  edp" : "");
  for (std::size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const RankPlace& place = placement.ranks[rank];
    const Coordinate at = layout.coordinate(static_cast<int>(rank));
    out += fmt::format("{:>6}  {:<{}}  {:>3}  {:<{}}  {:<{}}  {:>3} {:>3} {:>4} {:>3}{}\n", rank,
                       allocation.nodes[static_cast<std::size_t>(place.node)].name, node_width, place.gpu,
                       place.nic.value_or("?"), nic_width, cpus_text(place), cpu_width, at.tp, at.cp, at.dp, at.pp,
                       experts ? fmt::format("  {:>3} {:>3} {:>4}", at.etp, at.ep, at.edp) : "");
  }
  return out;
}

std::string placement_summary(const Layout& layout, const Allocation& allocation, const Traffic& traffic,
                              const Placement& placement, const LinkRates& rates) {
  std::string out =
      fmt::format("{:<14} {:<5} {:>7} {:>7} {:>7} {:>8} {:>7} {:>7} {:>7}  {:>11} {:>11}\n", "order", "axis", "NVLink%",
                  "host%", "rail%", "offrail%", "leaf%", "spine%", "?%", "leaves(x)", "s/step");
  add_rows(out, "railyard", placement.cost);
  for (const RankOrder order : {RankOrder::kSlurmBlock, RankOrder::kSlurmCyclic, RankOrder::kAlphabetical})
    add_rows(out, rank_order_name(order), place_in_order(layout, allocation, traffic, order, rates).cost);
  out += "leaves(x): leaves that the most spread group touches, and how often its ring passes between leaves\n";
  for (const auto& note : placement.notes) out += "note: " + note + "\n";
  return out;
}

Json placement_map_json(const Layout& layout, const Allocation& allocation, const Placement& placement) {
  Json map = Json::array();
  for (std::size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const RankPlace& place = placement.ranks[rank];
    const Coordinate at = layout.coordinate(static_cast<int>(rank));
    map.push_back({{"rank", rank},
                   {"node", allocation.nodes[static_cast<std::size_t>(place.node)].name},
                   {"gpu", place.gpu},
                   {"nic", place.nic ? Json(*place.nic) : Json(nullptr)},
                   {"cpus", place.cpus ? Json(place.cpus->list()) : Json(nullptr)},
                   {"tp", at.tp},
                   {"cp", at.cp},
                   {"dp", at.dp},
                   {"pp", at.pp},
                   {"etp", at.etp},
                   {"ep", at.ep},
                   {"edp", at.edp}});
  }
  return map;
}

Json placement_links_json(const Placement& placement) {
  Json links = Json::array();
  constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
  for (const AxisCost& axis : placement.cost.axes)
    for (int link = 1; link < kLinkClasses; ++link)
      if (const double bytes = axis.bytes[static_cast<std::size_t>(link)]; bytes > 0)
        links.push_back({{"axis", axis_name(axis.axis)},
                         {"class", link_class_name(static_cast<LinkClass>(link))},
                         {"gib_per_step", bytes / kGibibyte}});
  return links;
}

}  // namespace railyard::launch
