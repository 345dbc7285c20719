// Searches the layout that trains a job fastest on a cluster.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launch/plan/plan.hpp"

namespace railyard::launch {

struct SearchResult {
  std::vector<Planner::Plan> ranked;  // that fit, by predicted step time
  // Why others are not in the list: how many, and one of them.
  struct LeftOut {
    std::string why, example;
    int count = 0;
  };
  std::vector<LeftOut> left_out;
  int considered = 0;  // layouts that the model, the batch and the number of ranks allow
};

// Every layout of `ranks` ranks: tp (within an NVLink domain), pp, vpp, sequence parallelism, micro_batch, recomputing
// where it is built; dp takes the rest. What the job says beside these stays. The best `most` are exact: layouts are
// taken in the order of a lower bound of their time until no other can be better, and each is timed by its schedule and
// its memory planned. UsageError when the rates of the device are unknown.
[[nodiscard]] SearchResult search_layouts(const Planner& planner, const JobSpec& job, int ranks, std::size_t most);

// "tp 8 pp 4 vpp 2 dp 32 sp, micro_batch 1".
[[nodiscard]] std::string layout_text(const JobSpec& job, const Layout& layout);

}  // namespace railyard::launch
