// Paths of axes and the time of messages along them.
#include "launch/plan/axis_path.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "launch/place/flows.hpp"

namespace railyard::launch {
namespace {

// Shares of nominal rates that collectives reach where nothing was measured (8 H100: 361 of 450 GB/s; a 400 Gb/s NIC:
// 41 to 46 of 50), and the time of a hop: NCCL's ring over NVLink, a step across the network (5 us fits rings of 16 to
// 1,024 GPUs).
constexpr double kNvlinkShare = 0.8, kNicShare = 0.87, kTcpShare = 0.6;
constexpr double kInsideLatency = 2e-6, kAcrossLatency = 5e-6;
constexpr double kCall = 8e-6;                    // of one collective, whatever its size
constexpr double kCpuInside = 4, kCpuAcross = 1;  // GB/s between ranks on CPUs: shared memory; a 10 Gb/s network

int largest_divisor(int of, int most) {
  for (int divisor = std::max(1, std::min(of, most)); divisor > 1; --divisor)
    if (of % divisor == 0) return divisor;
  return 1;
}

// Rate and latency of measured collectives of a class: the largest rate, and what the smallest message took beyond it
// per hop.
struct Fitted {
  double gb_s = 0, latency = 0;
};
std::optional<Fitted> fit(const Calibration& calibration, bool across) {
  Fitted fitted;
  std::optional<CommRate> smallest;
  for (const CommRate& rate : calibration.comm) {
    const bool crosses = rate.link_class == "rail" || rate.link_class == "cross_rail" || rate.link_class == "leaf" ||
                         rate.link_class == "spine";
    if (crosses != across || rate.ranks < 2 || rate.link_class == "self") continue;
    fitted.gb_s = std::max(fitted.gb_s, rate.gb_s);
    if (!smallest || rate.bytes < smallest->bytes) smallest = rate;
  }
  if (fitted.gb_s <= 0) return std::nullopt;
  const double sent = smallest->bytes * (smallest->ranks - 1) / smallest->ranks;
  fitted.latency = std::max(0.0, sent / (smallest->gb_s * 1e9) - sent / (fitted.gb_s * 1e9)) / (smallest->ranks - 1);
  return fitted;
}

}  // namespace

double collective_seconds(const AxisPath& path, double bytes, int calls) {
  if (path.ranks < 2 || bytes <= 0) return 0;
  const double latency = path.inside >= path.ranks ? path.inside_latency : path.across_latency;
  double seconds = path.inside > 1 ? bytes / (path.inside_gb_s * 1e9) : 0;
  if (path.inside < path.ranks) seconds = std::max(seconds, bytes / (path.across_gb_s * path.inside * 1e9));
  return seconds + calls * (kCall + (path.ranks - 1) * latency);
}

double message_seconds(const AxisPath& path, double bytes) {
  if (path.ranks < 2 || bytes <= 0) return 0;
  const bool inside = path.inside >= path.ranks;
  return bytes / ((inside ? path.inside_gb_s : path.across_gb_s) * 1e9) + kCall +
         (inside ? path.inside_latency : path.across_latency);
}

LinkModel::LinkModel(const Cluster& cluster, const std::optional<Calibration>& calibration) {
  node_ = std::max(1, cluster.slots_per_node());
  one_node_ = cluster.nodes() == 1;
  nvlink_ = cluster.has_gpus && cluster.nvlink_domain.value_or(1) > 1;
  domain_ = nvlink_ ? *cluster.nvlink_domain : node_;
  inside_latency_ = kInsideLatency;
  across_latency_ = kAcrossLatency;
  if (!cluster.has_gpus) {
    inside_gb_s_ = kCpuInside;
    across_gb_s_ = kCpuAcross;
  } else {
    const double nvlink =
        cluster.spec && cluster.spec->nvlinks > 0 ? cluster.spec->nvlink_gb_s : cluster.rates.nvlink_unknown;
    inside_gb_s_ = nvlink_ ? nvlink * kNvlinkShare : cluster.rates.pcie * kNicShare;
    // A rank's share of its node's NICs.
    const auto& first = cluster.allocation.nodes.front();
    double nics = 0;
    std::set<std::string> counted;
    for (const auto& gpu : first.facts.gpus)
      if (gpu.nic && counted.insert(*gpu.nic).second) {
        const auto* nic = first.facts.find_nic(*gpu.nic);
        nics += nic != nullptr && nic->rate_gbps ? *nic->rate_gbps / 8 : cluster.rates.nic;
      }
    if (nics == 0) nics = cluster.rates.nic;
    across_gb_s_ = one_node_ ? std::min(cluster.rates.host, inside_gb_s_)
                             : nics / node_ * (cluster.fabric_kind == "tcp" ? kTcpShare : kNicShare);
  }
  if (!calibration) return;
  if (const auto inside = fit(*calibration, false)) {
    inside_gb_s_ = inside->gb_s;
    inside_latency_ = inside->latency;
    measured_inside_ = true;
  }
  if (const auto across = fit(*calibration, true)) {
    across_gb_s_ = across->gb_s;
    across_latency_ = across->latency;
    measured_across_ = true;
  }
}

AxisPath LinkModel::path(int ranks, int inside) const {
  return {ranks, std::min(ranks, inside), inside_gb_s_, across_gb_s_, inside_latency_, across_latency_, nvlink_};
}

AxisPaths LinkModel::nested(const Layout& layout, bool pipeline_inside) const {
  int left = domain_;
  const auto take = [&](int degree) {
    const int inside = largest_divisor(degree, left);
    left = std::max(1, left / inside);
    return inside;
  };
  AxisPaths paths;
  const int tp = take(layout.tp), cp = take(layout.cp);
  const int pp_first = pipeline_inside ? take(layout.pp) : 0;
  const int dp = take(layout.dp);
  const int pp = pipeline_inside ? pp_first : take(layout.pp);
  paths.tp = path(layout.tp, tp);
  paths.cp = path(layout.cp, cp);
  paths.dp = path(layout.dp * layout.cp, dp * cp);
  paths.pp = path(layout.pp, pp);
  return paths;
}

AxisPaths LinkModel::placed(const Layout& layout, const Allocation& allocation, const Placement& placement) const {
  // The domain of each rank: its rack, its part of the node, or the node.
  std::map<std::string, int> racks;
  if (allocation.fabric && allocation.blocks_are_nvlink)
    for (std::size_t b = 0; b < allocation.fabric->blocks.size(); ++b)
      for (const auto& name : allocation.fabric->blocks[b].nodes) racks.emplace(name, static_cast<int>(b));
  std::vector<std::pair<int, int>> domain_of;
  for (const RankPlace& at : placement.ranks) {
    const auto& node = allocation.nodes[static_cast<std::size_t>(at.node)];
    if (const auto rack = racks.find(node.name); rack != racks.end())
      domain_of.emplace_back(-1 - rack->second, 0);
    else
      domain_of.emplace_back(at.node, nvlink_ && domain_ < node_ ? at.gpu / domain_ : 0);
  }
  Traffic all;
  for (const Axis axis : {Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp}) all[axis] = 1;
  std::map<Axis, int> inside;
  for (const AxisFlows& flows : make_flows(layout, all))
    for (const auto& group : flows.groups) {
      std::map<std::pair<int, int>, int> members;
      for (const int rank : group) ++members[domain_of[static_cast<std::size_t>(rank)]];
      int fewest = static_cast<int>(group.size());
      for (const auto& [domain, count] : members) fewest = std::min(fewest, count);
      const auto [it, fresh] = inside.try_emplace(flows.axis, fewest);
      if (!fresh) it->second = std::min(it->second, fewest);
    }
  const auto of = [&](Axis axis, int degree) {
    const auto it = inside.find(axis);
    return it == inside.end() ? degree : it->second;
  };
  AxisPaths paths;
  paths.tp = path(layout.tp, of(Axis::kTp, layout.tp));
  paths.cp = path(layout.cp, of(Axis::kCp, layout.cp));
  paths.dp = path(layout.dp * layout.cp, of(Axis::kDp, layout.dp) * of(Axis::kCp, layout.cp));
  paths.pp = path(layout.pp, of(Axis::kPp, layout.pp));
  return paths;
}

}  // namespace railyard::launch
