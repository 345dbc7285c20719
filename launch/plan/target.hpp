// What a job is planned for: from the command line, its #SBATCH lines, the allocation around and the site.
#pragma once

#include <optional>
#include <string>

#include "launch/plan/cluster.hpp"
#include "lua/job.hpp"
#include "lua/site.hpp"

namespace railyard::launch {

struct PlanTarget {
  Cluster cluster;
  int ranks = 0;      // that the job would have there
  int threads = 1;    // cores of a rank that computes on a CPU
  std::string cache;  // the site's paths.cache
};

// Nodes: `nodes` (0: the #SBATCH lines' --nodes; else, inside an allocation, those; else, with a site that tells a
// node's GPUs, as many as the layout needs, else this machine). GPUs of a node: the site's, no more than the #SBATCH
// lines ask for. run.device = "cpu" leaves GPUs out. UsageError when the layout needs more ranks than that.
[[nodiscard]] PlanTarget plan_target(const lua::EvaluatedJob& job, const lua::SiteFile& site, int nodes);

}  // namespace railyard::launch
