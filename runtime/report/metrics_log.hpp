// metrics.jsonl: one JSON object a line, one line a step or an evaluation; written while training, read by `railyard
// report` and `railyard status`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/base/json.hpp"
#include "runtime/report/append_file.hpp"
#include "runtime/report/metrics.hpp"

namespace railyard {

// The row of a step, keys in the contract's order: step, loss, lr, grad_norm, tokens, tokens_per_s,
// tokens_per_s_per_gpu, tflops_per_gpu, mfu, mem_gib, step_s, then the members of `more` (an object, such as a
// mixture's aux_loss). What is unknown or not finite is null.
Json metrics_row(const StepRecord& record, const Json& more = Json::object());
// The row of an evaluation: step, valid_loss, valid_s.
Json metrics_row(const EvaluationRecord& record);

// Appends rows; one process of a run holds it. Rows are in the system's hands when append returns: they survive the
// death of the process, and sync() makes them survive the node's.
class MetricsLog {
 public:
  // Opens or creates the file. A torn last line, left by a killed run, is closed first. RunError when that fails.
  explicit MetricsLog(const std::filesystem::path& path);

  // RunError when the row cannot be written whole; none of it is then in the file.
  void append(const StepRecord& record, const Json& more = Json::object());
  void append(const EvaluationRecord& record);
  void sync();

 private:
  void append_line(const Json& row);

  AppendFile file_;
};

// What a metrics file says. Numbers that are null, or missing, are NaN (0 for `tokens`), mfu and mem_gib empty.
struct MetricsHistory {
  std::vector<StepRecord> steps;              // ascending, one a step: its last row
  std::vector<EvaluationRecord> evaluations;  // the same
  std::vector<std::int64_t> resumes;  // steps that follow a return to an earlier checkpoint, in the file's order
  std::int64_t skipped_lines = 0;     // torn or not a row
};

// Reads the whole file, a line at a time. A file that does not exist (yet) is an empty history; UsageError when it
// cannot be read.
MetricsHistory read_metrics(const std::filesystem::path& path);
// Reads the last `bytes` of it only, from the first line that begins there: for a look at a live run.
MetricsHistory read_metrics_tail(const std::filesystem::path& path, std::int64_t bytes);

}  // namespace railyard
