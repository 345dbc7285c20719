// Merges what ranks see of a host, and matches ranks with GPUs (augmenting paths, Kuhn 1955).
#include "launch/bootstrap/gpu_matching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "runtime/base/error.hpp"
#include "topology/json.hpp"
#include "topology/merge.hpp"

namespace railyard::launch {
namespace {

bool restricted(const RankFacts& rank) { return rank.devices.openable < rank.devices.on_node; }

bool is(const topology::Gpu& gpu, const SeenGpu& seen) {
  if (gpu.uuid && !seen.uuid.empty()) return *gpu.uuid == seen.uuid;
  return !seen.mig && !gpu.partition && gpu.pci && gpu.pci->text() == seen.pci;
}

// Positions of the GPUs in the order in which they should be given out.
std::vector<std::size_t> giving_order(const topology::Node& node, std::size_t ranks) {
  const auto domains = topology::nvlink_domains(node).value_or(std::vector<std::vector<int>>{});
  const auto domain_of = [&](int index) -> const std::vector<int>* {
    for (const auto& domain : domains)
      if (std::find(domain.begin(), domain.end(), index) != domain.end()) return &domain;
    return nullptr;
  };
  // The smallest domain that holds all ranks first; else the largest ones.
  const auto worth = [&](const topology::Gpu& gpu) {
    const auto* domain = domain_of(gpu.index);
    const std::size_t size = domain != nullptr ? domain->size() : 1;
    return std::pair(size < ranks ? 1 : 0, size < ranks ? -static_cast<long>(size) : static_cast<long>(size));
  };
  std::set<std::string> taken;
  std::vector<bool> own_rail(node.gpus.size());
  for (std::size_t g = 0; g < node.gpus.size(); ++g)
    own_rail[g] = node.gpus[g].nic && taken.insert(*node.gpus[g].nic).second;
  const auto key = [&](std::size_t g) {
    const auto* domain = domain_of(node.gpus[g].index);
    return std::tuple(worth(node.gpus[g]), domain != nullptr ? domain->front() : node.gpus[g].index, !own_rail[g], g);
  };
  std::vector<std::size_t> order(node.gpus.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

class Matching {
 public:
  Matching(std::size_t ranks, std::size_t gpus) : of_gpu_(gpus, -1), of_rank_(ranks, -1) {}

  // Tries to give rank `rank` one of its GPUs, moving others where they have a choice.
  bool extend(std::size_t rank, const std::vector<std::vector<std::size_t>>& choices) {
    std::vector<bool> asked(of_gpu_.size());
    const auto take = [&](std::size_t who, std::size_t gpu) {
      of_gpu_[gpu] = static_cast<int>(who);
      of_rank_[who] = static_cast<int>(gpu);
      return true;
    };
    const std::function<bool(std::size_t)> give = [&](std::size_t who) {
      for (const std::size_t gpu : choices[who])  // a free one moves nobody
        if (!asked[gpu] && of_gpu_[gpu] < 0) return take(who, gpu);
      for (const std::size_t gpu : choices[who]) {
        if (asked[gpu]) continue;
        asked[gpu] = true;
        if (give(static_cast<std::size_t>(of_gpu_[gpu]))) return take(who, gpu);
      }
      return false;
    };
    return of_rank_[rank] >= 0 || give(rank);
  }
  [[nodiscard]] const std::vector<int>& of_rank() const { return of_rank_; }

 private:
  std::vector<int> of_gpu_, of_rank_;
};

}  // namespace

std::optional<topology::Node> node_of_host(const std::vector<const RankFacts*>& ranks) {
  std::optional<topology::Node> node;
  bool hidden = false;
  for (const RankFacts* rank : ranks) {
    if (rank->node.is_null()) continue;
    const Json document{{"schema", 1}, {"nodes", {rank->node}}};
    auto machine = topology::machine_from_json(document, fmt::format("what {} tells of itself", rank->host));
    if (node)
      topology::merge_node(*node, machine.nodes.front());
    else
      node = std::move(machine.nodes.front());
    hidden = hidden || restricted(*rank);
  }
  if (!node) return std::nullopt;
  topology::sort_by_pci(*node);
  if (hidden)
    for (topology::Gpu& gpu : node->gpus) gpu.nvlink.reset();
  for (const RankFacts* rank : ranks)
    for (const SeenGpu& seen : rank->gpus)
      if (std::none_of(node->gpus.begin(), node->gpus.end(), [&](const topology::Gpu& gpu) { return is(gpu, seen); }))
        return std::nullopt;
  return node;
}

std::vector<int> match_gpus(const topology::Node& node, const std::vector<const RankFacts*>& ranks) {
  const auto order = giving_order(node, ranks.size());
  std::vector<std::vector<std::size_t>> near(ranks.size()), all(ranks.size());
  std::set<std::size_t> seen_by_any;
  bool mig = false;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto own = topology::CpuSet::parse_list(ranks[r]->cpus);
    for (const std::size_t g : order) {
      const topology::Gpu& gpu = node.gpus[g];
      const auto seen =
          std::find_if(ranks[r]->gpus.begin(), ranks[r]->gpus.end(), [&](const SeenGpu& one) { return is(gpu, one); });
      if (seen == ranks[r]->gpus.end()) continue;
      mig = mig || seen->mig;
      seen_by_any.insert(g);
      all[r].push_back(g);
      if (own && gpu.cpus && !(*own & *gpu.cpus).empty()) near[r].push_back(g);
    }
  }
  Matching matching(ranks.size(), node.gpus.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) (void)matching.extend(r, near);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (!matching.extend(r, all))
      throw UsageError(
          "{}: {} ranks on this node see {} {} between them{}: each rank needs one of its own{}. Start fewer ranks a "
          "node, ask for more devices, or, to try a layout, share them with run.communicator = \"mpi\"",
          ranks[r]->host, ranks.size(), seen_by_any.size(), mig ? "MIG device(s)" : "GPU(s)",
          ranks[r]->devices.masked
              ? fmt::format(" (local rank {}: CUDA_VISIBLE_DEVICES={})", ranks[r]->local_rank, ranks[r]->devices.mask)
              : "",
          mig ? " (a MIG device takes one rank)" : "");
  std::vector<int> indices;
  for (const int g : matching.of_rank()) indices.push_back(node.gpus[static_cast<std::size_t>(g)].index);
  return indices;
}

DeviceView device_view(const topology::Node& node, const RankFacts& rank, int own, const std::vector<int>& used) {
  const auto& mine = node.gpus[static_cast<std::size_t>(*node.position_of(own))];
  if (mine.partition) return {mine.uuid.value_or(""), 0};
  DeviceView view;
  int count = 0;
  for (const topology::Gpu& gpu : node.gpus) {
    if (std::find(used.begin(), used.end(), gpu.index) == used.end() || !gpu.uuid || gpu.partition) continue;
    // Behind a device cgroup only what the process showed itself can be opened.
    const bool openable = !restricted(rank) || std::any_of(rank.gpus.begin(), rank.gpus.end(),
                                                           [&](const SeenGpu& seen) { return is(gpu, seen); });
    if (!openable) continue;
    if (gpu.index == own) view.ordinal = count;
    view.visible += (count++ > 0 ? "," : "") + *gpu.uuid;
  }
  return view;
}

}  // namespace railyard::launch
