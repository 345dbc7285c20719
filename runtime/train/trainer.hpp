// Trains one job on one rank: the loop { batch -> schedule -> gradient sync -> optimizer -> metrics -> checkpoint }.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "runtime/base/activity.hpp"
#include "runtime/base/layout.hpp"
#include "runtime/comm/group.hpp"
#include "runtime/compute/backend.hpp"
#include "runtime/report/metrics.hpp"
#include "runtime/report/timeline.hpp"
#include "runtime/tensor/arena.hpp"

namespace railyard {

// What the launcher hands over. Callbacks may be empty.
struct TrainEnvironment {
  Communicator* communicator = nullptr;
  Backend* backend = nullptr;
  std::filesystem::path run_dir;    // exists and is ours (locked)
  std::filesystem::path data_root;  // relative data paths start here
  bool save = true;                 // false: nothing is written at the end (measurements)
  // Polled on every rank at each step boundary; if it is true on any, all ranks checkpoint and stop.
  std::function<bool()> stop_requested;
  // On rank 0.
  std::function<void(const StepRecord&)> on_step;
  std::function<void(const EvaluationRecord&)> on_evaluation;
  std::function<void(const PipelineTimeline&)> on_timeline;        // of one early step of each start
  std::function<void(const std::string&)> say;                     // one line for people
  std::function<void(std::int64_t step, double seconds)> on_save;  // once it is complete; from its first byte on
  // Told what this rank is in; null: nobody. Must outlive the call.
  ActivityBoard* activity = nullptr;
  // How messages name a rank: "rank 12 node7 gpu4"; empty: by its number.
  std::function<std::string(int)> rank_name;
};

enum class TrainEnd {
  kDone,     // all iterations
  kStopped,  // asked to stop, or exit_interval / exit_duration; a checkpoint is written
};

struct TrainResult {
  TrainEnd end = TrainEnd::kDone;
  std::int64_t step = 0;  // completed updates
};

// Collective over the communicator's ranks; `layout` fits their number. Errors are thrown on all ranks with the same
// text where the cause is known to all; UsageError before the first step, RunError after it.
TrainResult train(JobSpec job, const Layout& layout, const TrainEnvironment& environment);

// What a rank would allocate, without allocating: the planner's memory figures. `job.model.vocab` must be known.
struct MemoryTarget;
ArenaPlan plan_memory(const JobSpec& job, const Layout& layout, const Coordinate& at, const MemoryTarget& target);

// The dtype that a precision computes in. UsageError for what is not built.
DType compute_dtype(const std::string& precision);

// The training schedule of a job: microbatches follow from the batch sizes. UsageError names the keys that do not fit.
[[nodiscard]] std::int64_t microbatches_of(const JobSpec& job, const Layout& layout);
struct Schedule;
Schedule make_schedule(const JobSpec& job, const Layout& layout);

}  // namespace railyard
