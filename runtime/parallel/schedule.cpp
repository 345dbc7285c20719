// Makers of pipeline schedules, their check and their simulation.
#include "runtime/parallel/schedule.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

Schedule empty_schedule(std::string name, int stages, int chunks, int microbatches) {
  RAILYARD_CHECK(stages >= 1 && chunks >= 1 && microbatches >= 1);
  Schedule schedule{.name = std::move(name), .stages = stages, .chunks = chunks, .microbatches = microbatches};
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int stage = 0; stage < stages; ++stage) schedule.pieces.push_back({stage, chunk});
  schedule.rows.resize(static_cast<size_t>(stages));
  return schedule;
}

// What a row needs before it may run: pairs of (kind, virtual stage, microbatch).
struct Event {
  PipelineOperation operation;
  int piece, microbatch;
  friend auto operator<=>(const Event&, const Event&) = default;
};

std::vector<Event> needs_of(const Schedule& schedule, int piece, const ScheduleRow& row) {
  const int last = static_cast<int>(schedule.pieces.size()) - 1;
  std::vector<Event> needs;
  switch (row.operation) {
    case PipelineOperation::kForward:
      if (piece > 0) needs.push_back({PipelineOperation::kForward, piece - 1, row.microbatch});
      break;
    case PipelineOperation::kBackward:
    case PipelineOperation::kBackwardInput:
      needs.push_back({PipelineOperation::kForward, piece, row.microbatch});
      if (piece < last) needs.push_back({PipelineOperation::kBackwardInput, piece + 1, row.microbatch});
      break;
    case PipelineOperation::kBackwardWeight:
      needs.push_back({PipelineOperation::kBackwardInput, piece, row.microbatch});
      break;
  }
  return needs;
}

// A whole backward also provides the gradient of its input.
Event provided_by(int piece, const ScheduleRow& row) {
  const auto operation =
      row.operation == PipelineOperation::kBackward ? PipelineOperation::kBackwardInput : row.operation;
  return {operation, piece, row.microbatch};
}

// Runs all stages until none can go on; `visit(stage, row, needs)` sees each row once, in an order that respects needs.
template <class Visit>
bool execute(const Schedule& schedule, const Visit& visit) {
  std::set<Event> done;
  std::vector<size_t> next(schedule.rows.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < schedule.rows.size(); ++stage) {
      while (next[stage] < schedule.rows[stage].size()) {
        const ScheduleRow& row = schedule.rows[stage][next[stage]];
        const int piece = schedule.virtual_stage(static_cast<int>(stage), row.chunk);
        const auto needs = needs_of(schedule, piece, row);
        if (!std::all_of(needs.begin(), needs.end(), [&](const Event& need) { return done.contains(need); })) break;
        visit(static_cast<int>(stage), piece, row, needs);
        done.insert(provided_by(piece, row));
        ++next[stage];
        moved = true;
      }
    }
  }
  for (size_t stage = 0; stage < schedule.rows.size(); ++stage)
    if (next[stage] < schedule.rows[stage].size()) return false;
  return true;
}

}  // namespace

const char* operation_name(PipelineOperation operation) {
  switch (operation) {
    case PipelineOperation::kForward:
      return "forward";
    case PipelineOperation::kBackward:
      return "backward";
    case PipelineOperation::kBackwardInput:
      return "backward_input";
    case PipelineOperation::kBackwardWeight:
      return "backward_weight";
  }
  return "";
}

int Schedule::virtual_stage(int stage, int chunk) const {
  const auto found = std::find(pieces.begin(), pieces.end(), Piece{stage, chunk});
  RAILYARD_CHECK(found != pieces.end(), "stage {} chunk {}", stage, chunk);
  return static_cast<int>(found - pieces.begin());
}

int Schedule::in_flight(int stage, int chunk) const {
  int now = 0, most = 0;
  for (const ScheduleRow& row : rows[static_cast<size_t>(stage)]) {
    if (row.chunk != chunk) continue;
    if (row.operation == PipelineOperation::kForward) most = std::max(most, ++now);
    if (row.operation == PipelineOperation::kBackward || row.operation == PipelineOperation::kBackwardWeight) --now;
  }
  return most;
}

Schedule schedule_1f1b(int stages, int microbatches) {
  Schedule schedule = empty_schedule("1f1b", stages, 1, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    auto& rows = schedule.rows[static_cast<size_t>(stage)];
    const int warmup = std::min(stages - stage - 1, microbatches);
    int forward = 0, backward = 0;
    while (forward < warmup) rows.push_back({PipelineOperation::kForward, forward++, 0});
    while (forward < microbatches) {
      rows.push_back({PipelineOperation::kForward, forward++, 0});
      rows.push_back({PipelineOperation::kBackward, backward++, 0});
    }
    while (backward < microbatches) rows.push_back({PipelineOperation::kBackward, backward++, 0});
  }
  return schedule;
}

Schedule schedule_interleaved(int stages, int chunks, int microbatches) {
  if (chunks == 1) return schedule_1f1b(stages, microbatches);
  if (microbatches % stages != 0)
    throw UsageError("parallel.vpp: {} microbatches are not a multiple of pp {}; interleaving needs that", microbatches,
                     stages);
  Schedule schedule = empty_schedule("interleaved 1f1b", stages, chunks, microbatches);
  const int total = microbatches * chunks;
  // The k-th forward of every stage: groups of `stages` microbatches go through all chunks in turn.
  const auto unit = [&](int k, bool forward) {
    const int group = k / (stages * chunks), within = k % (stages * chunks);
    const int chunk = within / stages;
    return ScheduleRow{forward ? PipelineOperation::kForward : PipelineOperation::kBackward,
                       group * stages + within % stages, forward ? chunk : chunks - 1 - chunk};
  };
  for (int stage = 0; stage < stages; ++stage) {
    auto& rows = schedule.rows[static_cast<size_t>(stage)];
    const int warmup = std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, total);
    int forward = 0, backward = 0;
    while (forward < warmup) rows.push_back(unit(forward++, true));
    while (forward < total) {
      rows.push_back(unit(forward++, true));
      rows.push_back(unit(backward++, false));
    }
    while (backward < total) rows.push_back(unit(backward++, false));
  }
  return schedule;
}

Schedule schedule_forward_only(int stages, int chunks, int microbatches) {
  Schedule schedule = empty_schedule("forward only", stages, chunks, microbatches);
  for (auto& rows : schedule.rows)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int microbatch = 0; microbatch < microbatches; ++microbatch)
        rows.push_back({PipelineOperation::kForward, microbatch, chunk});
  return schedule;
}

std::string check_schedule(const Schedule& schedule, bool forward_only) {
  if (schedule.rows.size() != static_cast<size_t>(schedule.stages)) return "one list of rows per stage is needed";
  if (schedule.pieces.size() != static_cast<size_t>(schedule.stages * schedule.chunks))
    return "pieces do not cover the stages' chunks";
  for (int stage = 0; stage < schedule.stages; ++stage) {
    std::map<std::tuple<PipelineOperation, int, int>, int> count;
    for (const ScheduleRow& row : schedule.rows[static_cast<size_t>(stage)]) {
      if (row.chunk < 0 || row.chunk >= schedule.chunks || row.microbatch < 0 ||
          row.microbatch >= schedule.microbatches)
        return fmt::format("stage {}: a row is out of range", stage);
      ++count[{row.operation, row.microbatch, row.chunk}];
    }
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch) {
        const auto times = [&](PipelineOperation operation) { return count[{operation, microbatch, chunk}]; };
        const int forward = times(PipelineOperation::kForward), whole = times(PipelineOperation::kBackward);
        const int input = times(PipelineOperation::kBackwardInput), weight = times(PipelineOperation::kBackwardWeight);
        const bool once = forward_only
                              ? whole + input + weight == 0
                              : (whole == 1 && input + weight == 0) || (whole == 0 && input == 1 && weight == 1);
        if (forward != 1 || !once)
          return fmt::format("stage {}: microbatch {} of chunk {} does not run forward and backward once", stage,
                             microbatch, chunk);
      }
    }
  }
  if (!execute(schedule, [](int, int, const ScheduleRow&, const std::vector<Event>&) {}))
    return "the stages wait for each other for ever";
  return "";
}

Timeline simulate_schedule(const Schedule& schedule, const std::vector<double>& forward,
                           const std::vector<double>& backward, double transfer) {
  RAILYARD_CHECK(forward.size() == schedule.pieces.size() && backward.size() == schedule.pieces.size());
  Timeline timeline;
  std::map<Event, double> ready;
  std::vector<double> free(schedule.rows.size(), 0.0);
  double busy = 0.0;
  const bool sound =
      execute(schedule, [&](int stage, int piece, const ScheduleRow& row, const std::vector<Event>& needs) {
        double begin = free[static_cast<size_t>(stage)];
        for (const Event& need : needs)
          begin = std::max(begin, ready.at(need) + (need.piece == piece ? 0.0 : transfer));
        const auto index = static_cast<size_t>(piece);
        const double duration = row.operation == PipelineOperation::kForward    ? forward[index]
                                : row.operation == PipelineOperation::kBackward ? backward[index]
                                                                                : backward[index] / 2;
        const double end = begin + duration;
        ready[provided_by(piece, row)] = free[static_cast<size_t>(stage)] = end;
        busy += duration;
        timeline.length = std::max(timeline.length, end);
        timeline.rows.push_back({stage, row, begin, end});
      });
  RAILYARD_CHECK(sound, "{}", check_schedule(schedule));
  timeline.bubble = timeline.length > 0.0 ? 1.0 - busy / (timeline.length * schedule.stages) : 0.0;
  return timeline;
}

}  // namespace railyard
