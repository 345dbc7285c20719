// Plans as text for people and as plan --json.
#pragma once

#include <optional>
#include <string>

#include "launch/plan/search.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

struct PlanReport {
  const Planner& planner;
  const Planner::Plan& plan;
  const Placement* placement = nullptr;  // where the ranks are put; null: unknown
  std::vector<std::string> warnings;     // plan_warnings(), then the guesses and the placement's notes
};

struct TextStyle {
  bool colour = false;
  int columns = 100;
};

// Layout, memory bar, time split, what each axis sends and across what, warnings with their remedies.
[[nodiscard]] std::string plan_text(const PlanReport& report, const TextStyle& style);

// The table of a search, best first, then why the others are not in it.
[[nodiscard]] std::string search_text(const SearchResult& result, const TextStyle& style);

// The document of `railyard plan --json`.
[[nodiscard]] Json plan_json(const PlanReport& report);
// The same where a search found no layout.
[[nodiscard]] Json empty_plan_json(const std::vector<std::string>& warnings);
// Its rows for a search: "search": [{"layout", "micro_batch", "total_gib", "step_s", "tflops_per_gpu", "mfu"}], and
// "left_out": [{"why", "count", "example"}].
[[nodiscard]] Json search_json(const SearchResult& result);

}  // namespace railyard::launch
