// The measured timeline of a pipeline step as JSON.
#include "runtime/report/timeline.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

constexpr int kMostStages = 4096;

}  // namespace

double PipelineTimeline::length() const {
  double end = 0.0;
  for (const Row& row : rows) end = std::max(end, row.end);
  return end;
}

double PipelineTimeline::idle_share() const {
  const double total = length() * stages;
  if (total <= 0.0) return 0.0;
  std::vector<std::vector<std::pair<double, double>>> spans(static_cast<std::size_t>(stages));
  for (const Row& row : rows) spans[static_cast<std::size_t>(row.stage)].emplace_back(row.begin, row.end);
  double busy = 0.0;
  for (auto& stage : spans) {
    std::sort(stage.begin(), stage.end());
    double until = 0.0;
    for (const auto& [begin, end] : stage) {
      busy += std::max(0.0, end - std::max(begin, until));
      until = std::max(until, end);
    }
  }
  return std::clamp(1.0 - busy / total, 0.0, 1.0);
}

Json PipelineTimeline::to_json() const {
  Json document = {{"schema", 1}, {"step", step}, {"stages", stages}, {"rows", Json::array()}};
  for (const Row& row : rows)
    document["rows"].push_back({{"stage", row.stage},
                                {"operation", row.operation},
                                {"microbatch", row.microbatch},
                                {"chunk", row.chunk},
                                {"begin", row.begin},
                                {"end", row.end}});
  return document;
}

PipelineTimeline PipelineTimeline::from_json(const Json& document, const std::string& source) {
  PipelineTimeline timeline;
  try {
    timeline.step = document.value("step", std::int64_t{0});
    timeline.stages = document.at("stages").get<int>();
    for (const Json& row : document.at("rows"))
      timeline.rows.push_back({row.at("stage").get<int>(), row.at("operation").get<std::string>(),
                               row.at("microbatch").get<int>(), row.value("chunk", 0), row.at("begin").get<double>(),
                               row.at("end").get<double>()});
  } catch (const nlohmann::json::exception& error) {
    throw UsageError("{}: no timeline: {}", source, error.what());
  }
  if (timeline.stages < 1 || timeline.stages > kMostStages)
    throw UsageError("{}: stages: {} is not in 1..{}", source, timeline.stages, kMostStages);
  for (const Row& row : timeline.rows)
    if (row.stage < 0 || row.stage >= timeline.stages || !(row.begin >= 0.0 && row.end >= row.begin && row.end < 1e9))
      throw UsageError("{}: a row of stage {} from {} s to {} s cannot be", source, row.stage, row.begin, row.end);
  return timeline;
}

}  // namespace railyard
