// Ranks of hand-made machines for tests of what rank 0 settles: read from scenario text.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "launch/bootstrap/rank_facts.hpp"
#include "tests/launch/place/machines.hpp"
#include "topology/json.hpp"

namespace railyard::launch::testing_machines {

// A node of a kind by name, its GPUs with UUIDs "GPU-NODE-INDEX".
inline topology::Node described_node(const std::string& name, const std::string& kind) {
  topology::Node node;
  if (kind == "h100") node = switched_node(8);
  if (kind == "h100x4") node = switched_node(4);
  if (kind == "pcie") node = switched_node(8, 0, "NVIDIA L40S");
  if (kind == "cube-mesh") node = cube_mesh_node();
  if (kind == "mig") {
    node = switched_node(2, 0);
    for (auto& gpu : node.gpus) gpu.partition = "3g.40gb";
  }
  node.name = name;
  for (auto& gpu : node.gpus) {
    if (kind == "mig") gpu.pci = node.gpus.front().pci;
    gpu.uuid = fmt::format("{}-{}-{}", kind == "mig" ? "MIG" : "GPU", name, gpu.index);
  }
  return node;
}

// What a process on `node` would tell: `cgroup` lists the GPUs that it may open (empty: all), `mask` is its
// CUDA_VISIBLE_DEVICES ("-": not set), `cpus` what it may use.
inline RankFacts facts_on(const topology::Node& node, int local_rank, const std::string& mask,
                          const std::vector<int>& cgroup, const std::string& cpus) {
  RankFacts facts;
  facts.host = *node.name;
  facts.local_rank = local_rank;
  facts.cuda_part = true;
  const auto allowed = topology::CpuSet::parse_list(cpus.empty() ? "0-63" : cpus);
  facts.cpus = allowed->list();
  // Cores of two threads, CPU n and n + 32.
  std::vector<Core> cores;
  for (int cpu = 0; cpu < 32; ++cpu) {
    Core core;
    for (const int thread : {cpu, cpu + 32})
      if (allowed->contains(thread)) core.cpus.push_back(thread);
    if (!core.cpus.empty()) cores.push_back(core);
  }
  facts.cores = static_cast<int>(cores.size());
  if (local_rank == 0 || !cpus.empty()) facts.core_cpus = core_text(cores);
  topology::Node view = node;
  std::vector<SeenGpu> openable;
  for (auto& gpu : view.gpus) {
    const bool opens = cgroup.empty() || std::find(cgroup.begin(), cgroup.end(), gpu.index) != cgroup.end();
    if (opens) openable.push_back({gpu.uuid.value_or(""), gpu.pci ? gpu.pci->text() : "", gpu.partition.has_value()});
    // hwloc lists every GPU; NVML, which knows UUIDs and links, those that can be opened.
    if (!opens) {
      gpu.uuid.reset();
      gpu.nvlink.reset();
    }
  }
  facts.devices.on_node = static_cast<int>(node.gpus.size());
  facts.devices.openable = static_cast<int>(openable.size());
  facts.devices.masked = mask != "-";
  if (facts.devices.masked) facts.devices.mask = mask;
  facts.gpus = facts.devices.masked ? shown_by_mask(openable, mask) : openable;
  facts.devices.count = static_cast<int>(facts.gpus.size());
  if (!node.gpus.empty() && (local_rank == 0 || !cgroup.empty())) facts.node = topology::node_to_json(view);
  return facts;
}

}  // namespace railyard::launch::testing_machines
