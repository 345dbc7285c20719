// Asks nodes how they are and draws conclusions.
#include "launch/slurm/step_nodes.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "launch/slurm/check_nodes.hpp"
#include "launch/slurm/control.hpp"
#include "launch/supervisor.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// Seconds for all nodes to answer, srun's own launch included: a large step takes its time the first time.
constexpr double kFirstCheck = 60.0, kLaterCheck = 20.0;

}  // namespace

StepNodes::StepNodes(const SlurmAllocation& allocation, int needed, NodeCheckOptions options, Environment inherited)
    : job_id_(allocation.job_id),
      pool_(allocation.nodes, needed),
      options_(std::move(options)),
      inherited_(std::move(inherited)) {}

void StepNodes::check_first() {
  for (const NodeReport& report : check_nodes(pool_.usable(), options_, inherited_, kFirstCheck)) {
    bool fatal = false;
    for (const Finding& finding : report.findings) {
      std::fprintf(stderr, "railyard: %s: %s [%s]\n", report.node.c_str(), finding.text.c_str(), finding.word.c_str());
      fatal = fatal || finding.fatal;
    }
    const Json speed = report.facts.value("gflops_per_core", Json());
    if (speed.is_number()) fastest_core_ = std::max(fastest_core_, speed.get<double>() * 1e9);
    (void)out_of_memory(report);  // what was before us
    if (!fatal) continue;
    (void)pool_.lose(report.node);
    if (pool_.choose())
      std::fprintf(stderr, "railyard: %s is left out, a spare node takes its place\n", report.node.c_str());
  }
  options_.speed = false;
  if (!pool_.choose())
    throw UsageError(
        "only {} of the {} nodes that this run needs are fit for it (the lines above say why); ask for others with "
        "--exclude, or keep spares: run.spare_nodes with --no-kill",
        pool_.usable().size(), pool_.needed());
}

void StepNodes::inspect(Ending& ending) {
  std::vector<RankSight> ranks;
  const auto live = live_nodes(job_id_);
  for (const std::string& node : pool_.usable())
    if (!live.empty() && std::find(live.begin(), live.end(), node) == live.end()) lose(node, ending);
  for (const NodeReport& report : check_nodes(pool_.usable(), options_, inherited_, kLaterCheck)) {
    ranks.insert(ranks.end(), report.ranks.begin(), report.ranks.end());
    if (!report.answered) {
      lose(report.node, ending);
      continue;
    }
    if (out_of_memory(report) && ending.reason == Reason::kRankKilled) {
      ending.reason = Reason::kOutOfMemory;
      ending.failed_nodes = {report.node};
      ending.detail += fmt::format(": the kernel killed it on {} for want of memory; ask for more --mem", report.node);
    }
    for (const Finding& finding : report.findings) {
      if (!finding.fatal) continue;
      if (finding.word.starts_with("gpu")) ending.reason = Reason::kDeviceFault;
      ending.failed_nodes = {report.node};
      ending.detail += fmt::format("; {}: {}", report.node, finding.text);
    }
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const RankSight& a, const RankSight& b) { return a.activity.owner.rank < b.activity.owner.rank; });
  note_ranks(ending, ranks);
  if (ending.lost_nodes.empty()) return;
  ending.reason = Reason::kNodeLost;
  ending.failed_nodes = ending.lost_nodes;
  ending.detail = fmt::format("node {} of job {} is lost: Slurm has given it up, or it does not answer",
                              fmt::join(ending.lost_nodes, ", "), job_id_);
}

bool StepNodes::may_restart(const Ending& ending) {
  if (ending.lost_nodes.empty())
    for (const std::string& node : ending.failed_nodes)
      if (pool_.fail(node))
        std::fprintf(stderr, "railyard: %s has failed twice: a spare node takes its place\n", node.c_str());
  if (pool_.choose()) return true;
  std::fprintf(stderr,
               "railyard: %zu of the %d nodes that this run needs are left; to go on in the same job keep spares: "
               "run.spare_nodes with --no-kill\n",
               pool_.usable().size(), pool_.needed());
  return false;
}

void StepNodes::lose(const std::string& node, Ending& ending) {
  if (pool_.lose(node)) ending.lost_nodes.push_back(node);
}

bool StepNodes::out_of_memory(const NodeReport& report) {
  if (!report.facts.contains("oom_kills")) return false;
  const long now = report.facts["oom_kills"].get<long>();
  const auto [at, fresh] = oom_kills_.try_emplace(report.node, now);
  const bool more = !fresh && now > at->second;
  at->second = now;
  return more;
}

}  // namespace railyard::launch
