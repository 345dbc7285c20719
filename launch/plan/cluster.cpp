// Clusters from sites and from live topology.
#include "launch/plan/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"
#include "topology/rails.hpp"
#include "topology/sources/source.hpp"

namespace railyard::launch {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
constexpr int kMostNodes = 1 << 16;

template <class T>
std::optional<T> known(const Json& table, const char* key) {
  const auto found = table.find(key);
  if (found == table.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

// What a site says of its machines; a number that is not given is unknown.
struct SiteFacts {
  std::string name, fabric_kind, topology;
  std::optional<int> gpus, nvlink_domain, rails, leaf_nodes;
  std::string gpu;
  std::optional<double> nic_gbps, memory_gib;
  std::vector<std::string> nic_exclude;
};

SiteFacts facts_of(const Json& site) {
  const Json &node = site.at("node"), &fabric = site.at("fabric");
  SiteFacts facts;
  facts.name = site.at("name").get<std::string>();
  facts.gpus = known<int>(node, "gpus");
  facts.gpu = known<std::string>(node, "gpu").value_or("");
  facts.nvlink_domain = known<int>(node, "nvlink_domain");
  if (const auto bytes = known<double>(node, "memory"); bytes && *bytes > 0) facts.memory_gib = *bytes / kGibibyte;
  facts.fabric_kind = known<std::string>(fabric, "kind").value_or("");
  facts.topology = known<std::string>(fabric, "topology").value_or("");
  facts.rails = known<int>(fabric, "rails");
  facts.nic_gbps = known<double>(fabric, "nic_gbps");
  facts.leaf_nodes = known<int>(fabric, "leaf_nodes");
  facts.nic_exclude = known<std::vector<std::string>>(fabric, "nic_exclude").value_or(std::vector<std::string>{});
  return facts;
}

// The fabric of a file that fabric.topology names ("slurm" is a live source and no file).
std::optional<topology::Fabric> fabric_of_file(const SiteFacts& facts) {
  if (facts.topology.empty() || facts.topology == "slurm") return std::nullopt;
  auto fabric = topology::read_source(read_file(facts.topology), facts.topology).fabric;
  if (!fabric) throw UsageError("fabric.topology: {} describes no switches", facts.topology);
  return fabric;
}

std::vector<std::string> nodes_of(const topology::Fabric& fabric) {
  std::vector<std::string> names;
  for (const auto& sw : fabric.switches) names.insert(names.end(), sw.nodes.begin(), sw.nodes.end());
  for (const auto& block : fabric.blocks) names.insert(names.end(), block.nodes.begin(), block.nodes.end());
  std::sort(names.begin(), names.end(), topology::natural_less);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// A node as the site describes it.
topology::Node node_of(const SiteFacts& facts, int gpus, int domain, int links) {
  topology::Node node;
  node.source = "site " + facts.name;
  const int rails = facts.rails.value_or(0);
  for (int r = 0; r < rails; ++r) {
    topology::Nic nic;
    nic.name = fmt::format("rail{}", r);
    nic.role = topology::NicRole::kRail;
    nic.rate_gbps = facts.nic_gbps;
    node.nics.push_back(std::move(nic));
  }
  for (int g = 0; g < gpus; ++g) {
    topology::Gpu gpu;
    gpu.index = g;
    if (!facts.gpu.empty()) gpu.name = facts.gpu;
    if (domain > 0) {
      gpu.nvlink.emplace();
      const int first = g / domain * domain;
      for (int peer = first; peer < std::min(first + domain, gpus); ++peer)
        if (peer != g) (*gpu.nvlink)[peer] = links > 0 ? std::optional(links) : std::nullopt;
    }
    if (rails > 0) {
      const int rail = rails >= gpus ? g * (rails / gpus) : g * rails / gpus;
      gpu.nic = node.nics[static_cast<std::size_t>(rail)].name;
      gpu.near_nics = std::vector<std::string>{*gpu.nic};
      gpu.rail = rail;
    }
    node.gpus.push_back(std::move(gpu));
  }
  node.paths = topology::PathTable(gpus + rails);
  return node;
}

// What holds for both kinds of cluster.
void describe(Cluster& cluster, const SiteFacts& facts, std::optional<int> domain) {
  if (!cluster.gpu.empty()) cluster.spec = find_gpu(cluster.gpu);
  cluster.fabric_kind = facts.fabric_kind;
  cluster.node_memory_gib = facts.memory_gib;
  cluster.nvlink_domain = domain;
  if (!cluster.nvlink_domain && cluster.has_gpus && cluster.spec) {
    cluster.nvlink_domain = cluster.spec->nvlinks > 0 ? cluster.slots_per_node() : 1;
    cluster.guesses.push_back(fmt::format("node.nvlink_domain is not given: {} joins {}", cluster.spec->name,
                                          cluster.spec->nvlinks > 0 ? "all GPUs of a node by NVLink" : "none"));
  }
  if (cluster.spec && cluster.spec->nvlinks > 0) cluster.rates.nvlink_unknown = cluster.spec->nvlink_gb_s;
  if (cluster.spec) cluster.rates.pcie = cluster.spec->pcie_gb_s;
  if (facts.nic_gbps) cluster.rates.nic = *facts.nic_gbps / 8 * 0.97;
  // A run that was given some of a node's GPUs does not make the node's domain a rack.
  int whole = std::max(cluster.slots_per_node(), facts.gpus.value_or(0));
  for (const auto& node : cluster.allocation.nodes) whole = std::max(whole, static_cast<int>(node.facts.gpus.size()));
  cluster.allocation.blocks_are_nvlink = cluster.nvlink_domain.value_or(0) > whole;
}

}  // namespace

int Cluster::slots_per_node() const {
  int most = 0;
  for (const auto& node : allocation.nodes) most = std::max(most, static_cast<int>(node.gpus.size()));
  return most;
}

// The largest NVLink domain that the nodes themselves show; 1: they have none.
std::optional<int> found_domain(const Allocation& allocation) {
  std::optional<int> largest;
  for (const auto& node : allocation.nodes)
    if (const auto domains = topology::nvlink_domains(node.facts)) {
      largest = std::max(largest.value_or(1), 1);
      for (const auto& domain : *domains) largest = std::max(*largest, static_cast<int>(domain.size()));
    }
  return largest;
}

void exclude_nics(topology::Node& node, const std::vector<std::string>& excluded) {
  const int gpus = static_cast<int>(node.gpus.size());
  std::vector<int> kept(static_cast<std::size_t>(gpus));
  std::iota(kept.begin(), kept.end(), 0);
  std::vector<topology::Nic> nics;
  for (std::size_t i = 0; i < node.nics.size(); ++i) {
    if (std::find(excluded.begin(), excluded.end(), node.nics[i].name) != excluded.end()) continue;
    nics.push_back(node.nics[i]);
    kept.push_back(gpus + static_cast<int>(i));
  }
  if (nics.size() == node.nics.size()) return;
  topology::PathTable paths(static_cast<int>(kept.size()));
  for (std::size_t a = 0; a < kept.size(); ++a)
    for (std::size_t b = a + 1; b < kept.size(); ++b)
      paths.set(static_cast<int>(a), static_cast<int>(b), node.paths.at(kept[a], kept[b]),
                node.paths.hops(kept[a], kept[b]));
  node.nics = std::move(nics);
  node.paths = std::move(paths);
  topology::assign_rails(node);
}

std::vector<int> numbered(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string count_of(int count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

Cluster synthetic_cluster(const Json& site, int nodes, int cpu_ranks) {
  if (nodes < 1 || nodes > kMostNodes) throw UsageError("--nodes {}: between 1 and {} are possible", nodes, kMostNodes);
  const SiteFacts facts = facts_of(site);
  Cluster cluster;
  const int gpus = facts.gpus.value_or(0);
  cluster.has_gpus = gpus > 0;
  if (cluster.has_gpus) cluster.gpu = facts.gpu;
  const auto spec = find_gpu(facts.gpu);
  int domain = facts.nvlink_domain.value_or(spec && spec->nvlinks > 0 ? gpus : spec ? 1 : 0);
  const bool racks = domain > gpus && gpus > 0;
  std::vector<std::string> names;
  if (auto fabric = fabric_of_file(facts)) {
    names = nodes_of(*fabric);
    if (static_cast<int>(names.size()) < nodes)
      throw UsageError("fabric.topology: {} knows {} nodes, but {} are asked for", facts.topology, names.size(), nodes);
    names.resize(static_cast<std::size_t>(nodes));
    cluster.allocation.fabric = std::move(fabric);
  } else if (racks) {
    const int per_rack = std::max(1, domain / gpus);
    cluster.allocation.fabric = topology::make_nvlink_racks((nodes + per_rack - 1) / per_rack, per_rack);
    for (const auto& block : cluster.allocation.fabric->blocks)
      names.insert(names.end(), block.nodes.begin(), block.nodes.end());
    names.resize(static_cast<std::size_t>(nodes));
    cluster.guesses.push_back(
        fmt::format("racks of {} are taken to be full and below one spine", count_of(per_rack, "node")));
  } else if (facts.leaf_nodes) {
    cluster.allocation.fabric = topology::make_fat_tree({.nodes = nodes, .nodes_per_leaf = *facts.leaf_nodes});
    cluster.guesses.emplace_back("nodes are taken to fill leaf after leaf below one spine");
  }
  if (names.empty())
    for (int n = 0; n < nodes; ++n) names.push_back(fmt::format("node{}", n + 1));
  const topology::Node node = node_of(facts, gpus, std::min(domain, gpus), spec ? spec->nvlinks : 0);
  for (const auto& name : names)
    cluster.allocation.nodes.push_back({name, node, numbered(cluster.has_gpus ? gpus : cpu_ranks)});
  cluster.allocation.rail_optimised = facts.rails.value_or(0) > 1;
  describe(cluster, facts, facts.nvlink_domain);
  cluster.origin = cluster.has_gpus
                       ? fmt::format("site {}, {} of {}", facts.name, count_of(nodes, "node"),
                                     count_of(gpus, facts.gpu.empty() ? "GPU" : (facts.gpu + " GPU").c_str()))
                       : fmt::format("site {}, {} without GPUs", facts.name, count_of(nodes, "node"));
  return cluster;
}

Cluster live_cluster(const Json& site, topology::Machine machine, const std::vector<std::vector<int>>& granted,
                     int cpu_ranks) {
  const SiteFacts facts = facts_of(site);
  RAILYARD_CHECK(granted.empty() || granted.size() == machine.nodes.size());
  Cluster cluster;
  cluster.has_gpus = std::any_of(machine.nodes.begin(), machine.nodes.end(),
                                 [](const topology::Node& node) { return !node.gpus.empty(); });
  for (std::size_t n = 0; n < machine.nodes.size(); ++n) {
    AllocatedNode node;
    node.facts = std::move(machine.nodes[n]);
    node.name = node.facts.name.value_or(fmt::format("node{}", n + 1));
    if (!facts.nic_exclude.empty()) exclude_nics(node.facts, facts.nic_exclude);
    if (!granted.empty())
      node.gpus = granted[n];
    else
      for (const auto& gpu : node.facts.gpus) node.gpus.push_back(gpu.index);
    for (auto& gpu : node.facts.gpus) {
      if (!gpu.name && !facts.gpu.empty()) gpu.name = facts.gpu;
      if (cluster.gpu.empty()) cluster.gpu = gpu.name.value_or("");
    }
    for (auto& nic : node.facts.nics)
      if (!nic.rate_gbps && nic.role == topology::NicRole::kRail) nic.rate_gbps = facts.nic_gbps;
    if (!cluster.has_gpus && node.gpus.empty()) node.gpus = numbered(cpu_ranks);
    if (cluster.has_gpus && node.facts.gpus.empty())
      cluster.guesses.push_back(fmt::format("{} shows no GPU and takes no rank", node.name));
    cluster.allocation.nodes.push_back(std::move(node));
  }
  cluster.allocation.fabric = fabric_of_file(facts);
  if (!cluster.allocation.fabric) cluster.allocation.fabric = std::move(machine.fabric);
  describe(cluster, facts, facts.nvlink_domain ? facts.nvlink_domain : found_domain(cluster.allocation));
  cluster.origin = fmt::format("{} found{}", count_of(cluster.nodes(), "node"),
                               cluster.gpu.empty() ? "" : fmt::format(", {} x {}", cluster.slots(), cluster.gpu));
  return cluster;
}

}  // namespace railyard::launch
