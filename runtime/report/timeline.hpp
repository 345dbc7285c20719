// When each part of a pipeline step ran: log/timeline.json of a run directory, written by the trainer from measured
// times and drawn by `railyard report`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard {

struct PipelineTimeline {
  struct Row {
    int stage = 0;
    // "forward", "backward", "backward_input", "backward_weight", or "update": what follows once in a step. Others are
    // drawn as such.
    std::string operation;
    int microbatch = 0;
    int chunk = 0;
    double begin = 0.0, end = 0.0;  // seconds since the step began
  };
  std::int64_t step = 0;  // the step that was measured; 0: none, the times are simulated
  int stages = 1;
  std::vector<Row> rows;

  [[nodiscard]] double length() const;
  // Share of stages x length in which a stage runs nothing; rows of a stage may overlap.
  [[nodiscard]] double idle_share() const;

  // {"schema": 1, "step", "stages", "rows": [{"stage", "operation", "microbatch", "chunk", "begin", "end"}]}
  [[nodiscard]] Json to_json() const;
  // UsageError, naming `source`, when the document is none or its values make no sense.
  static PipelineTimeline from_json(const Json& document, const std::string& source);
};

}  // namespace railyard
