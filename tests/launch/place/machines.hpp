// Machines for placement tests and the benchmark: nodes, fragmented allocations of a fat tree under load.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/place/allocation.hpp"
#include "topology/hostlist.hpp"
#include "topology/rails.hpp"

namespace railyard::launch::testing_machines {

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): draws that are the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  int below(int bound) { return static_cast<int>(next() % static_cast<std::uint64_t>(bound)); }

 private:
  std::uint64_t state_;
};

// A node of GPUs joined all to all through an NVSwitch, each with its own 400 Gb/s rail NIC.
inline topology::Node switched_node(int gpus, int links = 18, const std::string& model = "NVIDIA H100 80GB HBM3") {
  topology::Node node;
  for (int g = 0; g < gpus; ++g) {
    topology::Gpu gpu;
    gpu.index = g;
    gpu.name = model;
    gpu.pci = topology::PciAddress{0, static_cast<std::uint32_t>(16 * g + 1), 0, 0};
    gpu.numa = g < (gpus + 1) / 2 ? 0 : 1;
    gpu.cpus = topology::CpuSet::parse_list(g < (gpus + 1) / 2 ? "0-15,32-47" : "16-31,48-63");
    gpu.nvlink.emplace();
    for (int peer = 0; peer < gpus; ++peer)
      if (peer != g && links > 0) (*gpu.nvlink)[peer] = links;
    node.gpus.push_back(std::move(gpu));
    topology::Nic nic;
    nic.name = fmt::format("mlx5_{}", g);
    nic.pci = topology::PciAddress{0, static_cast<std::uint32_t>(16 * g + 2), 0, 0};
    nic.active = true;
    nic.rate_gbps = 400;
    nic.link_layer = "InfiniBand";
    node.nics.push_back(std::move(nic));
  }
  node.paths = topology::PathTable(2 * gpus);
  for (int a = 0; a < gpus; ++a)
    for (int b = 0; b < gpus; ++b) {
      const auto far =
          (a < (gpus + 1) / 2) == (b < (gpus + 1) / 2) ? topology::PathClass::kNode : topology::PathClass::kSys;
      if (a != b) node.paths.set(a, b, far);
      node.paths.set(a, gpus + b, a == b ? topology::PathClass::kPix : far);
    }
  topology::assign_rails(node);
  return node;
}

// Two quads of V100s with cross links: the hybrid cube mesh of an 8-GPU SXM2 board.
inline topology::Node cube_mesh_node() {
  topology::Node node = switched_node(8, 0, "Tesla V100-SXM2-32GB");
  const std::vector<std::vector<int>> edges{{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 2},
                                            {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
                                            {0, 4, 2}, {1, 5, 2}, {2, 6, 1}, {3, 7, 1}};
  for (const auto& edge : edges) {
    (*node.gpus[static_cast<std::size_t>(edge[0])].nvlink)[edge[1]] = edge[2];
    (*node.gpus[static_cast<std::size_t>(edge[1])].nvlink)[edge[0]] = edge[2];
  }
  return node;
}

inline std::vector<int> first_gpus(int count) {
  std::vector<int> gpus;
  for (int g = 0; g < count; ++g) gpus.push_back(g);
  return gpus;
}

// `nodes` nodes of 8 GPUs out of a three-level fat tree with 32-node leaves and 16 leaves a spine, names dealt
// round-robin over leaves, at 85 % load; the allocation is drawn from what is free, in Slurm's order of names.
enum class Load {
  kBestFit,    // jobs of 1 to 64 nodes come and go, each put on the leaf that fits it best
  kScattered,  // any node is busy with the same chance, as after long use without a topology plugin
};

inline Allocation fragmented_allocation(int nodes, std::uint64_t seed, const topology::Node& node,
                                        Load load = Load::kBestFit) {
  Random random(seed);
  constexpr int kLeaf = 32;
  const int total = ((nodes * 100 / 15) / kLeaf + 2) * kLeaf;
  Allocation allocation;
  allocation.fabric = topology::make_fat_tree(
      {.nodes = total, .nodes_per_leaf = kLeaf, .leaves_per_spine = 16, .node_width = 0, .round_robin = true});
  const int leaves = total / kLeaf;
  std::vector<std::vector<int>> free(static_cast<std::size_t>(leaves));
  for (int n = 0; n < total; ++n) free[static_cast<std::size_t>(n % leaves)].push_back(n);
  int idle = total;
  std::vector<std::vector<int>> jobs;
  const auto start = [&](int size) {
    std::vector<int> job;
    while (size > 0) {
      // The leaf with the fewest free nodes that holds the job; where none does, the emptiest one first.
      int chosen = -1;
      for (int leaf = 0; leaf < leaves; ++leaf) {
        const int have = static_cast<int>(free[static_cast<std::size_t>(leaf)].size());
        if (have == 0) continue;
        const int best = chosen < 0 ? -1 : static_cast<int>(free[static_cast<std::size_t>(chosen)].size());
        const bool fits = have >= size, best_fits = best >= size;
        if (chosen < 0 || (fits != best_fits ? fits : fits ? have < best : have > best)) chosen = leaf;
      }
      auto& nodes_here = free[static_cast<std::size_t>(chosen)];
      while (size > 0 && !nodes_here.empty()) {
        job.push_back(nodes_here.back());
        nodes_here.pop_back();
        --size;
        --idle;
      }
    }
    jobs.push_back(std::move(job));
  };
  const auto stop = [&] {
    const auto j = static_cast<std::size_t>(random.below(static_cast<int>(jobs.size())));
    for (const int n : jobs[j]) free[static_cast<std::size_t>(n % leaves)].push_back(n);
    idle += static_cast<int>(jobs[j].size());
    jobs[j] = std::move(jobs.back());
    jobs.pop_back();
  };
  constexpr int kSizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64};
  const int wanted = total * 15 / 100;
  if (load == Load::kScattered) {
    for (; idle > wanted; --idle) {
      auto& leaf = free[static_cast<std::size_t>(random.below(leaves))];
      if (leaf.empty()) {
        ++idle;
        continue;
      }
      std::swap(leaf[static_cast<std::size_t>(random.below(static_cast<int>(leaf.size())))], leaf.back());
      leaf.pop_back();
    }
  }
  for (int event = 0; load == Load::kBestFit && (event < 4 * total / 5 || idle > wanted); ++event) {
    const int size = kSizes[random.below(12)];
    if (idle - size >= wanted)
      start(size);
    else if (event < 4 * total / 5)
      stop();
    else
      start(std::min(size, idle - wanted));
  }
  std::vector<int> left;
  for (const auto& leaf : free) left.insert(left.end(), leaf.begin(), leaf.end());
  while (static_cast<int>(left.size()) > nodes) {
    std::swap(left[static_cast<std::size_t>(random.below(static_cast<int>(left.size())))], left.back());
    left.pop_back();
  }
  std::sort(left.begin(), left.end());
  for (const int n : left)
    allocation.nodes.push_back({fmt::format("node{}", n + 1), node, first_gpus(static_cast<int>(node.gpus.size()))});
  return allocation;
}

inline Layout make_layout(int tp, int cp, int dp, int pp, int ep = 1, int vpp = 1) {
  ParallelSpec spec;
  spec.tp = tp;
  spec.cp = cp;
  spec.dp = dp;
  spec.pp = pp;
  spec.ep = ep;
  spec.vpp = vpp;
  spec.etp = ep > 1 ? 1 : 0;
  return Layout::resolve(spec, 0);
}

// Bytes a rank sends per step when 70 billion parameters are trained with tp 8 and pp 8 on sequences of 8192 in 64
// microbatches: 10 layers x 8 gathers and scatters of 117 MB a microbatch (tp), gradients in fp32 and parameters in
// bf16 of 1.1 billion parameters (dp), 16.8 MB a microbatch (pp).
inline Traffic usual_traffic() {
  return {{Axis::kTp, 600e9}, {Axis::kCp, 60e9}, {Axis::kDp, 6.6e9}, {Axis::kPp, 1.07e9},
          {Axis::kEp, 40e9},  {Axis::kEdp, 4e9}, {Axis::kEtp, 60e9}};
}

}  // namespace railyard::launch::testing_machines
