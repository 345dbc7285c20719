// Runs a step of ranks (mpirun's or srun's) to its end: passes on requests to stop, judges the end, starts again.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launch/activity_files.hpp"
#include "launch/outcome.hpp"
#include "launch/process.hpp"
#include "launch/run_directory.hpp"

namespace railyard::launch {

struct StepCommand {
  std::vector<std::string> words;
  Environment environment;
};

struct SupervisorOptions {
  int max_restarts = 0;
  // Builds the command of a start; called again before each. It sees what the last one ended with (empty: the first).
  std::function<StepCommand(int start, const std::optional<Ending>& last)> command;
  // Looks closer at a start that failed (which nodes are gone, what each rank was in; empty: at the ranks of this node)
  // or was stopped with a checkpoint (was it preempted).
  std::function<void(Ending& ending)> inspect;
  // Asked before a restart: whether there is still something to start on. It says itself why not. May be empty.
  std::function<bool(const Ending& ending)> may_restart;
  // Told the first signal that asks for an end; may be empty.
  std::function<void(int signal)> on_stop;
};

// Runs starts of `run` until one ends for good and returns how it ended; every ending is written to why.json. Says on
// standard error what ranks that died could not say themselves.
Ending supervise(RunDirectory& run, SignalWatch& watch, const SupervisorOptions& options);

// The last completed step that metrics.jsonl tells; nothing when there is none.
[[nodiscard]] std::optional<long> last_step(const std::filesystem::path& run_dir);

// Looks at the ranks of this node that are left: what each was in goes into the ending, and a rank that everybody
// waited for in a file access makes it a stall of the file system.
void note_ranks(Ending& ending, const std::vector<RankSight>& ranks);

// The node of who_died(); empty when it is not said.
[[nodiscard]] std::string where_died(std::string_view said);

// Which rank and where, from what mpirun or srun said when it ended: "rank 1 on node3 was killed by signal 9 (Killed)".
// Empty when they did not say.
// Ranks are the starter's, unless `placement` (of placement-N.json) tells which logical rank each became.
[[nodiscard]] std::string who_died(std::string_view said, const Json& placement = {});

// Variables by which a launcher tells its ranks what is settled already.
inline constexpr char kRunDirectoryVariable[] = "RAILYARD_RUN_DIR";
inline constexpr char kStartVariable[] = "RAILYARD_START";
inline constexpr char kRendezvousVariable[] = "RAILYARD_RENDEZVOUS";
inline constexpr char kTerminalVariable[] = "RAILYARD_TERMINAL";

// Width of the terminal that our standard output is, 0: it is none.
[[nodiscard]] int terminal_columns();

// Adds them to an environment: the run directory, the start's number, a meeting point, and the width of our terminal.
void add_launch_variables(Environment& environment, const std::filesystem::path& run_dir, int start);

}  // namespace railyard::launch
