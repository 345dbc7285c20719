// Why a run ended: what each rank leaves behind, and the run directory's why.json that the launcher makes of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard::launch {

// The reasons, as they are written.
enum class Reason {
  kFinished,         // "finished": all iterations
  kSignal,           // "signal": asked to stop by a person or the scheduler
  kTimeLimit,        // "time_limit": the job's time was running out
  kPreempted,        // "preempted": by a job of higher priority
  kInterval,         // "exit_interval": train.exit_interval or exit_duration
  kBadInput,         // "bad_input": exit 2
  kError,            // "error": anything else that a rank reported itself
  kNotFinite,        // "not_finite": loss or gradient
  kOutOfMemory,      // "out_of_memory": of the host (by its cgroup or the kernel) or the device
  kDeviceFault,      // "device_fault": an XID or ECC error
  kFileSystem,       // "file_system": full, read-only or in error
  kFileSystemStall,  // "file_system_stall": does not answer
  kHungCollective,   // "hung_collective": ranks waited too long for others
  kRankKilled,       // "rank_killed": a rank ended without a word
  kNodeLost,         // "node_lost"
  kLaunchFailed,     // "launch_failed": the step never started
};
[[nodiscard]] std::string_view reason_name(Reason reason);
// Nothing for an unknown word.
[[nodiscard]] std::optional<Reason> reason_from_name(std::string_view name);

// What a rank says of its own end.
struct RankEnd {
  int rank = 0;
  std::string host;
  Reason reason = Reason::kError;
  int exit_code = 1;
  std::string message;
};

// Leaves a rank's record below log/; problems are swallowed: the rank is ending anyway.
void leave_rank_end(const std::filesystem::path& run_dir, int start, const RankEnd& end) noexcept;
// All records of a start, by rank.
[[nodiscard]] std::vector<RankEnd> read_rank_ends(const std::filesystem::path& run_dir, int start);

// True for the first process of a start that asks about this text: who prints an error that all ranks see.
[[nodiscard]] bool first_to_say(const std::filesystem::path& run_dir, int start, const std::string& text) noexcept;

// Finds the word for an exception from its type and text.
[[nodiscard]] Reason classify(const std::exception& error);
// The same from the text alone; kError when it has no clue.
[[nodiscard]] Reason classify(std::string_view message);

// One start of a run, as the launcher saw it end.
struct Ending {
  int start = 1;
  int exit_code = 0;
  Reason reason = Reason::kFinished;
  std::string detail;                     // one line for people
  std::optional<long> step;               // completed, where known
  std::vector<std::string> lost_nodes;    // that Slurm has given up, or that do not answer
  std::vector<std::string> failed_nodes;  // where it began, as far as that is known
  std::string ranks;                      // what each rank was in, one line; empty: unknown
  int restarts = 0;                       // by the launcher, within this job
};

// Nodes of ranks that a message says give no sign of life ("missing: rank 2 (gives no sign of life ..."), by the
// start's placement.
[[nodiscard]] std::vector<std::string> silent_nodes(const std::filesystem::path& run_dir, int start,
                                                    const std::string& message);

// Judges a start from what its ranks left and how its launcher (mpirun, srun) ended: `status` as a shell would show it.
[[nodiscard]] Ending judge(const std::filesystem::path& run_dir, int start, int status, bool asked_to_stop);

// Whether another start from the last checkpoint can end otherwise.
[[nodiscard]] bool worth_restarting(const Ending& ending);

// Writes why.json; keeps the endings of earlier starts in its "history" (the last 100).
void write_why(const std::filesystem::path& run_dir, const Ending& ending);

}  // namespace railyard::launch
