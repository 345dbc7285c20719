// Measures when each row of one step ran on every stage: what the report draws as the pipeline timeline.
#pragma once

#include <chrono>
#include <optional>

#include "runtime/parallel/groups.hpp"
#include "runtime/parallel/schedule.hpp"
#include "runtime/report/timeline.hpp"

namespace railyard {

class Backend;

// Of one rank, for one step. The device is waited for around each row, so the step is a little slower than others.
class RowClock {
 public:
  // Collective: all ranks begin together, so that their times are comparable also between machines.
  RowClock(const ParallelGroups& groups, Backend& backend);

  void row_begins();
  void row_ends(const ScheduleRow& row);

  // Collective, once the update is over: rows of the first replica of every stage, the last row of each being what
  // came after its rows ("update": gradient sums and optimizer). Empty on ranks other than 0.
  std::optional<PipelineTimeline> gather(std::int64_t step);

 private:
  using Clock = std::chrono::steady_clock;
  double now();

  const ParallelGroups& groups_;
  Backend& backend_;
  Clock::time_point start_;
  double begin_ = 0.0;
  std::vector<PipelineTimeline::Row> rows_;
};

}  // namespace railyard
