// Times of one step's rows, gathered over the stages.
#include "runtime/train/row_clock.hpp"

#include "runtime/compute/backend.hpp"

namespace railyard {

RowClock::RowClock(const ParallelGroups& groups, Backend& backend) : groups_(groups), backend_(backend) {
  backend_.synchronize();
  groups_.communicator->barrier();
  start_ = Clock::now();
}

double RowClock::now() {
  backend_.synchronize();
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void RowClock::row_begins() { begin_ = now(); }

void RowClock::row_ends(const ScheduleRow& row) {
  rows_.push_back({groups_.at.pp, operation_name(row.operation), row.microbatch, row.chunk, begin_, now()});
}

std::optional<PipelineTimeline> RowClock::gather(std::int64_t step) {
  if (!rows_.empty()) rows_.push_back({groups_.at.pp, "update", 0, 0, rows_.back().end, now()});
  Json mine = Json::array();
  if (groups_.at.tp == 0 && groups_.at.cp == 0 && groups_.at.dp == 0)
    for (const PipelineTimeline::Row& row : rows_)
      mine.push_back(Json::array({row.stage, row.operation, row.microbatch, row.chunk, row.begin, row.end}));
  const auto all = groups_.communicator->gather(mine.dump(), 0);
  if (all.empty()) return std::nullopt;
  PipelineTimeline timeline;
  timeline.step = step;
  timeline.stages = groups_.layout.pp;
  for (const std::string& text : all)
    for (const Json& row : Json::parse(text)) timeline.rows.push_back({row[0], row[1], row[2], row[3], row[4], row[5]});
  return timeline;
}

}  // namespace railyard
