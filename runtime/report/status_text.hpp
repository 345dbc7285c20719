// `railyard status`: a run in a few lines.
#pragma once

#include <optional>
#include <string>

#include "runtime/report/run_view.hpp"

namespace railyard {

struct StatusStyle {
  int columns = 80;  // lines are cut to fit
  bool colour = false;
  bool unicode = false;
};

// State, progress, last values, the last checkpoint and why it ended; lines end with newlines. `row_age`: seconds since
// metrics.jsonl was last written.
std::string status_text(const RunView& run, const StatusStyle& style, std::optional<double> row_age = {});
// The same in one line, for a list of runs.
std::string status_line(const RunView& run, const StatusStyle& style);

}  // namespace railyard
