// Chooses nodes and ranks of a plan.
#include "launch/plan/target.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "launch/prepare.hpp"
#include "launch/slurm/collect_nodes.hpp"
#include "launch/slurm/submission.hpp"
#include "runtime/base/error.hpp"
#include "topology/sources/source.hpp"

namespace railyard::launch {
namespace {

constexpr double kCollectTimeout = 60;  // seconds for all nodes of an allocation to answer

int at_least(std::int64_t work, std::int64_t per) {
  return static_cast<int>((work + per - 1) / std::max<std::int64_t>(1, per));
}

// The site as it holds in the partition that the job asks for.
Json settings(const lua::EvaluatedJob& job, const lua::SiteFile& site) {
  std::string partition = sbatch_option(job, "partition").value_or("");
  if (partition.empty() && site.resolved().at("slurm").at("partition").is_string())
    partition = site.resolved().at("slurm").at("partition").get<std::string>();
  return site.for_partition(partition);
}

// The GPUs of a node that the job's own lines ask for.
std::optional<int> asked_gpus(const lua::EvaluatedJob& job) {
  if (const auto gpus = sbatch_number(job, "gpus-per-node")) return gpus;
  return sbatch_number(job, "gres");
}

void keep_first_gpus(Cluster& cluster, int most) {
  for (auto& node : cluster.allocation.nodes)
    if (static_cast<int>(node.gpus.size()) > most) node.gpus.resize(static_cast<std::size_t>(most));
}

}  // namespace

PlanTarget plan_target(const lua::EvaluatedJob& job, const lua::SiteFile& site, int nodes) {
  Json facts = settings(job, site);
  const ParallelSpec& parallel = job.spec.parallel;
  const bool cpu = job.spec.run.device == "cpu";
  const auto asked = cpu ? std::nullopt : asked_gpus(job);
  if (cpu) facts["node"]["gpus"] = 0;
  const bool tells_gpus = facts["node"]["gpus"].is_number() && facts["node"]["gpus"] > 0;
  if (!cpu && !tells_gpus && asked) facts["node"]["gpus"] = *asked;
  const int site_gpus = facts["node"]["gpus"].is_number() ? facts["node"]["gpus"].get<int>() : 0;
  const int gpus = asked && site_gpus > 0 ? std::min(*asked, site_gpus) : site_gpus;

  const int wanted = natural_ranks(parallel, 0);  // once through the model where dp = "fill"
  const auto lines = sbatch_number(job, "nodes");
  const bool allocation = nodes == 0 && inside_allocation();
  const bool live = allocation || (nodes == 0 && !lines && site_gpus == 0);
  const int given = nodes > 0 ? nodes : lines.value_or(0);

  PlanTarget target;
  target.cache = facts.at("paths").at("cache").is_string() ? facts.at("paths").at("cache").get<std::string>() : "";
  const int cpu_ranks = [&] {
    if (const auto ranks = requested_ranks(job); ranks && gpus == 0) return at_least(*ranks, lines.value_or(1));
    return at_least(wanted, std::max(1, given));
  }();
  if (live) {
    topology::Machine machine =
        allocation ? collect_nodes(kCollectTimeout) : topology::Machine{{topology::read_live_node()}, {}};
    if (cpu)
      for (auto& node : machine.nodes) node.gpus.clear();
    const int count = static_cast<int>(machine.nodes.size());
    target.cluster = live_cluster(facts, std::move(machine), {}, at_least(wanted, count));
  } else {
    target.cluster = synthetic_cluster(facts, given > 0 ? given : at_least(wanted, gpus), cpu_ranks);
  }
  if (gpus > 0) keep_first_gpus(target.cluster, gpus);
  if (live && !allocation && !target.cluster.node_memory_gib)
    target.cluster.node_memory_gib = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                                     static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / (1024.0 * 1024.0 * 1024.0);
  if (job.spec.run.device == "cuda" && !target.cluster.has_gpus)
    throw UsageError(
        "run.device: \"cuda\", but neither the site ({}) nor this machine tells of GPUs; name the cluster's site file "
        "with "
        "--site, or its GPUs with node.gpus and node.gpu there",
        site.file());

  const int slots = target.cluster.slots(), per_node = std::max(1, target.cluster.slots_per_node());
  const bool fill = parallel.dp == 0 || parallel.automatic;
  target.ranks = fill ? slots : wanted;
  if (target.ranks > slots || wanted > slots)
    throw UsageError("parallel: the layout has {} ranks, and {} ha{} {} {}; plan with --nodes {}", wanted,
                     target.cluster.nodes() == 1 ? "1 node" : fmt::format("{} nodes", target.cluster.nodes()),
                     target.cluster.nodes() == 1 ? "s" : "ve", slots, target.cluster.has_gpus ? "GPUs" : "ranks",
                     at_least(wanted, per_node));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  target.threads = job.spec.run.threads > 0 ? static_cast<int>(job.spec.run.threads) : std::max(1, cores / per_node);
  return target;
}

}  // namespace railyard::launch
