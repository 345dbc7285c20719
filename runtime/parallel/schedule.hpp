// A pipeline schedule is data: for each stage the rows (operation, microbatch, chunk) in the order in which it runs
// them. The trainer executes it, the planner times it, the report draws it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard {

enum class PipelineOperation { kForward, kBackward, kBackwardInput, kBackwardWeight };
// "forward", "backward", "backward_input", "backward_weight".
const char* operation_name(PipelineOperation operation);

struct ScheduleRow {
  PipelineOperation operation = PipelineOperation::kForward;
  int microbatch = 0;
  int chunk = 0;           // the stage's own chunk, 0..chunks-1
  bool with_next = false;  // runs side by side with the following row (a forward paired with a backward)
  friend bool operator==(const ScheduleRow&, const ScheduleRow&) = default;
};

struct Schedule {
  // One stage's piece of the model; pieces are ordered as the model's layers are ("virtual stages").
  struct Piece {
    int stage = 0, chunk = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  std::string name;
  int stages = 1, chunks = 1, microbatches = 1;
  std::vector<Piece> pieces;                   // [stages * chunks], by virtual stage
  std::vector<std::vector<ScheduleRow>> rows;  // [stages]

  [[nodiscard]] int virtual_stage(int stage, int chunk) const;
  // Microbatches of `chunk` that are between their forward and the end of their backward at once, at most.
  [[nodiscard]] int in_flight(int stage, int chunk) const;
};

// 1F1B (PipeDream-Flush, Narayanan et al. 2021): stage s starts with stages - s - 1 forwards, then alternates.
Schedule schedule_1f1b(int stages, int microbatches);
// Interleaved 1F1B (Narayanan et al. SC 2021): `chunks` pieces a stage; microbatches must be a multiple of stages
// (UsageError).
Schedule schedule_interleaved(int stages, int chunks, int microbatches);
// Forward passes alone, for evaluation.
Schedule schedule_forward_only(int stages, int chunks, int microbatches);

// Empty when the schedule is sound: every (microbatch, chunk) runs forward then backward once, and executing all
// stages' rows in order never waits for ever; else what is wrong.
std::string check_schedule(const Schedule& schedule, bool forward_only = false);

// When each row runs if a forward of piece v takes forward[v] seconds, a backward backward[v] (split evenly when the
// schedule separates input and weight), and handing over to the next piece `transfer` seconds.
struct TimedRow {
  int stage = 0;
  ScheduleRow row;
  double begin = 0.0, end = 0.0;
};
struct Timeline {
  std::vector<TimedRow> rows;
  double length = 0.0;
  double bubble = 0.0;  // share of stages x length in which a stage waits
};
Timeline simulate_schedule(const Schedule& schedule, const std::vector<double>& forward,
                           const std::vector<double>& backward, double transfer);

}  // namespace railyard
