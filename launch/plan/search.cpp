// Best-first search over layouts.
#include "launch/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lua/schema/job_schema.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

constexpr int kMostChunks = 16;  // of a pipeline rank
constexpr std::int64_t kMostMicroBatch = 64;

bool is_built(std::string_view path) {
  for (const lua::Key& key : lua::job_schema().keys())
    if (key.path == path) return key.built == lua::Built::kYes;
  return false;
}

std::vector<int> divisors(int of) {
  std::vector<int> found;
  for (int d = 1; d <= of; ++d)
    if (of % d == 0) found.push_back(d);
  return found;
}

struct Candidate {
  JobSpec job;
  Layout layout;
  double bound = 0;  // seconds that a step takes at least
};

class Search {
 public:
  Search(const Planner& planner, const JobSpec& job, int ranks, std::size_t most)
      : planner_(planner), job_(job), ranks_(ranks), most_(most), recompute_(is_built("train.recompute")) {}

  SearchResult run() {
    for (const int tp : divisors(ranks_)) {
      if (tp > planner_.domain() && tp > 1) {
        leave_out(
            fmt::format("tp above the {} ranks of a domain crosses the network in every layer", planner_.domain()),
            fmt::format("tp {}", tp));
        continue;
      }
      for (const int pp : divisors(ranks_ / tp)) add_batches(tp, pp);
    }
    choose();
    for (auto& [why, entry] : left_out_) result_.left_out.push_back(std::move(entry));
    std::stable_sort(result_.left_out.begin(), result_.left_out.end(),
                     [](const auto& a, const auto& b) { return a.count > b.count; });
    return std::move(result_);
  }

 private:
  void leave_out(const std::string& why, const std::string& example) {
    auto& entry = left_out_[why];
    if (entry.count++ == 0) {
      entry.why = why;
      entry.example = example;
    }
  }

  void add_batches(int tp, int pp) {
    const std::int64_t layers = job_.model.layers, dp = ranks_ / (tp * pp);
    if (pp > layers) return leave_out("more stages than layers", fmt::format("pp {}", pp));
    if (job_.train.global_batch % dp != 0)
      return leave_out(fmt::format("dp does not divide train.global_batch = {}", job_.train.global_batch),
                       fmt::format("dp {}", dp));
    for (std::int64_t micro = 1; micro <= std::min(kMostMicroBatch, job_.train.global_batch / dp); micro *= 2) {
      if (job_.train.global_batch % (micro * dp) != 0) break;
      const std::int64_t microbatches = job_.train.global_batch / (micro * dp);
      for (int vpp = 1; vpp <= kMostChunks; ++vpp) {
        if (vpp > 1 && (pp == 1 || layers % (pp * vpp) != 0 || microbatches % pp != 0)) continue;
        for (const bool sequence : {true, false}) {
          if (sequence && tp == 1) continue;
          for (const char* recompute : {"none", "full"})
            if (recompute_ || recompute == std::string_view("none")) add(tp, pp, vpp, micro, sequence, recompute);
        }
      }
    }
  }

  void add(int tp, int pp, int vpp, std::int64_t micro, bool sequence, const char* recompute) {
    Candidate candidate{job_, {}, 0};
    ParallelSpec& parallel = candidate.job.parallel;
    parallel.automatic = false;
    parallel.tp = tp;
    parallel.pp = pp;
    parallel.vpp = vpp;
    parallel.dp = 0;
    parallel.cp = 1;
    parallel.sequence_parallel = sequence;
    candidate.job.train.micro_batch = micro;
    candidate.job.train.recompute.granularity = recompute;
    candidate.job.train.recompute.layers = recompute == std::string_view("full") ? 1 : 0;
    try {
      candidate.layout = Layout::resolve(parallel, ranks_);
      candidate.bound = planner_.least_time(candidate.job, candidate.layout);
    } catch (const UsageError& error) {
      return leave_out(error.what(), layout_text(candidate.job, candidate.layout));
    }
    ++result_.considered;
    candidates_.push_back(std::move(candidate));
  }

  void choose() {
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    std::size_t next = 0;
    for (; next < candidates_.size(); ++next) {
      const Candidate& candidate = candidates_[next];
      if (result_.ranked.size() >= most_ && candidate.bound > result_.ranked.back().time->step_s) break;
      const std::string name = layout_text(candidate.job, candidate.layout);
      if (planner_.surely_too_large(candidate.job, candidate.layout)) {
        leave_out("weights, gradients and optimizer state alone do not fit", name);
        continue;
      }
      const auto time = planner_.time(candidate.job, candidate.layout);
      if (result_.ranked.size() >= most_ && time->step_s > result_.ranked.back().time->step_s) {
        leave_out("slower than those listed", name);
        continue;
      }
      Planner::Plan plan = planner_.plan(candidate.job, candidate.layout, time);
      if (plan.memory.fits() == false) {
        leave_out("does not fit with its activations", name);
        continue;
      }
      const auto place = std::upper_bound(
          result_.ranked.begin(), result_.ranked.end(), plan,
          [](const Planner::Plan& a, const Planner::Plan& b) { return a.time->step_s < b.time->step_s; });
      result_.ranked.insert(place, std::move(plan));
      if (result_.ranked.size() > most_) {
        leave_out("slower than those listed", layout_text(result_.ranked.back().job, result_.ranked.back().layout));
        result_.ranked.pop_back();
      }
    }
    for (; next < candidates_.size(); ++next)
      leave_out("slower than those listed", layout_text(candidates_[next].job, candidates_[next].layout));
  }

  const Planner& planner_;
  const JobSpec& job_;
  int ranks_;
  std::size_t most_;
  bool recompute_;
  std::vector<Candidate> candidates_;
  std::map<std::string, SearchResult::LeftOut> left_out_;
  SearchResult result_;
};

}  // namespace

std::string layout_text(const JobSpec& job, const Layout& layout) {
  std::string text = fmt::format("tp {}", layout.tp);
  if (layout.cp > 1) text += fmt::format(" cp {}", layout.cp);
  text += fmt::format(" pp {}", layout.pp);
  if (layout.vpp > 1) text += fmt::format(" vpp {}", layout.vpp);
  text += fmt::format(" dp {}", layout.dp);
  if (layout.ep > 1) text += fmt::format(" ep {}", layout.ep);
  if (layout.sequence_parallel) text += " sp";
  text += fmt::format(", micro_batch {}", job.train.micro_batch);
  if (job.train.recompute.granularity != "none" && !job.train.recompute.granularity.empty())
    text += fmt::format(", {} recompute", job.train.recompute.granularity);
  return text;
}

SearchResult search_layouts(const Planner& planner, const JobSpec& job, int ranks, std::size_t most) {
  if (!planner.has_rates())
    throw UsageError(
        "--search: the speed of {} is not known; name the GPU in the site's node.gpu, or measure it with `railyard "
        "bench`",
        planner.cluster().gpu.empty() ? "the site's GPUs" : planner.cluster().gpu);
  return Search(planner, job, ranks, most).run();
}

}  // namespace railyard::launch
