// Groups and edges of a layout.
#include "launch/place/flows.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace railyard::launch {
namespace {

constexpr std::array<Axis, 7> kAxes{Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp, Axis::kEtp, Axis::kEp, Axis::kEdp};

bool expert_axis(Axis axis) { return axis == Axis::kEtp || axis == Axis::kEp || axis == Axis::kEdp; }

// Ranks that differ in `axis` only, in its order.
std::vector<std::vector<int>> groups_of(const std::vector<Coordinate>& coordinates, Axis axis) {
  constexpr std::array<Axis, 4> attention{Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp},
      expert{Axis::kEtp, Axis::kEp, Axis::kEdp, Axis::kPp};
  std::map<std::array<int, 4>, std::vector<std::pair<int, int>>> found;
  for (std::size_t rank = 0; rank < coordinates.size(); ++rank) {
    std::array<int, 4> key{};
    const auto& axes = expert_axis(axis) ? expert : attention;
    for (std::size_t i = 0; i < axes.size(); ++i) key[i] = axes[i] == axis ? 0 : coordinates[rank].at(axes[i]);
    found[key].emplace_back(coordinates[rank].at(axis), static_cast<int>(rank));
  }
  std::vector<std::vector<int>> groups;
  for (auto& [key, members] : found) {
    std::sort(members.begin(), members.end());
    auto& group = groups.emplace_back();
    for (const auto& [index, rank] : members) group.push_back(rank);
  }
  return groups;
}

void add_flows(AxisFlows& axis, double bytes, bool interleaved) {
  for (const auto& group : axis.groups) {
    const std::size_t n = group.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (axis.axis == Axis::kEp) {
        for (std::size_t j = 0; j < n; ++j)
          if (i != j) axis.flows.push_back({group[i], group[j], bytes / static_cast<double>(n - 1)});
      } else if (axis.axis == Axis::kPp) {
        const bool around = i + 1 == n;
        if (around && (!interleaved || n == 2)) continue;
        axis.flows.push_back({group[i], group[(i + 1) % n], bytes});
        axis.flows.push_back({group[(i + 1) % n], group[i], bytes});
      } else {
        axis.flows.push_back({group[i], group[(i + 1) % n], bytes});
      }
    }
  }
}

}  // namespace

std::vector<Coordinate> all_coordinates(const Layout& layout) {
  std::vector<Coordinate> coordinates;
  coordinates.reserve(static_cast<std::size_t>(layout.ranks()));
  for (int rank = 0; rank < layout.ranks(); ++rank) coordinates.push_back(layout.coordinate(rank));
  return coordinates;
}

std::vector<AxisFlows> make_flows(const Layout& layout, const Traffic& traffic) {
  const auto coordinates = all_coordinates(layout);
  std::vector<AxisFlows> all;
  for (const Axis axis : kAxes) {
    const auto sent = traffic.find(axis);
    if (layout.degree(axis) < 2 || sent == traffic.end() || sent->second <= 0) continue;
    AxisFlows flows{axis, {}, groups_of(coordinates, axis)};
    add_flows(flows, sent->second, layout.vpp > 1);
    all.push_back(std::move(flows));
  }
  return all;
}

}  // namespace railyard::launch
