// The loop around the steps of a run.
#include "launch/supervisor.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <regex>

#include "launch/health/oom.hpp"
#include "launch/noise.hpp"
#include "runtime/base/error.hpp"
#include "runtime/report/metrics_log.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

struct StepEnd {
  int status = 0;
  bool asked_to_stop = false;
  int signal = 0;            // that asked
  std::string last_message;  // of a rank; empty: none
};

// A person who asks twice means it: the ranks get this long to die before they are killed.
constexpr double kPatience = 10.0;

// `ready` appears once every rank can take a request to stop; before that the signal would kill them.
StepEnd run_step(const StepCommand& command, SignalWatch& watch, const fs::path& noise, const fs::path& ready,
                 const std::function<void(int)>& on_stop) {
  FilteredErrors errors(noise);
  Child child(command.words, command.environment, errors.write_end());
  errors.close_write_end();
  StepEnd end;
  std::optional<Clock::time_point> killed_at;
  bool passed_on = false;
  while (true) {
    if (const auto status = child.poll()) {
      end.status = *status;
      end.last_message = errors.finish();
      return end;
    }
    std::error_code ignored;
    if (end.asked_to_stop && !passed_on && fs::exists(ready, ignored)) {
      // mpirun and srun pass this one on to every rank.
      child.signal(SIGUSR1);
      passed_on = true;
    }
    const int signal = watch.wait(end.asked_to_stop && !passed_on ? 0.1 : 1.0);
    if (killed_at && Clock::now() - *killed_at > std::chrono::duration<double>(kPatience)) child.signal(SIGKILL);
    if (signal == 0 || signal == SIGCHLD) continue;
    if (!end.asked_to_stop) {
      end.asked_to_stop = true;
      end.signal = signal;
      if (on_stop) on_stop(signal);
      std::fprintf(stderr, "railyard: asked to stop (signal %d): saving a checkpoint after this step%s\n", signal,
                   signal == SIGINT ? "; Ctrl-C again ends at once, without one" : "");
    } else if (signal == SIGINT && !killed_at) {
      std::fprintf(stderr, "railyard: ending at once\n");
      killed_at = Clock::now();
      child.signal(SIGTERM);
    }
  }
}

std::string read_if_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) ? read_file(file) : std::string();
}

}  // namespace

int terminal_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

void add_launch_variables(Environment& environment, const fs::path& run_dir, int start) {
  environment[kRunDirectoryVariable] = run_dir.string();
  environment[kStartVariable] = std::to_string(start);
  environment[kRendezvousVariable] = (run_dir / "log" / fmt::format("meeting-{}", start)).string();
  environment[kTerminalVariable] = std::to_string(terminal_columns());
}

std::optional<long> last_step(const fs::path& run_dir) {
  try {
    const MetricsHistory history = read_metrics_tail(run_dir / "metrics.jsonl", 1 << 16);
    if (!history.steps.empty()) return history.steps.back().step;
  } catch (const Error&) {
    // Metrics are for people; their loss changes nothing.
  }
  return std::nullopt;
}

void note_ranks(Ending& ending, const std::vector<RankSight>& ranks) {
  if (ranks.empty()) return;
  ending.ranks = what_each_was_in(ranks);
  if (ending.reason != Reason::kHungCollective) return;
  for (const RankSight& rank : ranks) {
    if (rank.activity.kind != PhaseKind::kFiles || !rank.activity.waiting.empty()) continue;
    ending.reason = Reason::kFileSystemStall;
    ending.detail = fmt::format("rank {} on {} was {} while the others waited for it; {}", rank.activity.owner.rank,
                                rank.activity.owner.host, rank.activity.phase, ending.detail);
    ending.failed_nodes = {rank.activity.owner.host};
    return;
  }
}

namespace {

struct Death {
  std::string ranks;  // as whoever started them counts, "5" or "4-5"
  std::string node, how;
};

Death death_in(std::string_view said) {
  const std::string text(said);
  std::smatch found;
  // Open MPI: mpirun noticed that process rank 1 with PID 0 on node x exited on signal 9 (Killed).
  static const std::regex mpirun(
      R"(process rank (\d+) with PID \d+ on node (\S+) exited on\s+signal (\d+)( \(([^)]*)\))?)");
  if (std::regex_search(text, found, mpirun))
    return {found.str(1), found.str(2), fmt::format("was killed by signal {}{}", found.str(3), found.str(4))};
  // Slurm: srun: error: node3: task 5: Killed (or: tasks 4-5)
  static const std::regex srun(
      R"(srun: error: (\S+): tasks? ([0-9,\-]+): (Killed|Terminated|Aborted|Segmentation fault|Bus error|Out Of Memory[^\n]*))");
  if (std::regex_search(text, found, srun)) return {found.str(2), found.str(1), "ended: " + found.str(3)};
  return {};
}

// The start's placement; null when it has none that can be read.
Json placement_of(const fs::path& run_dir, int start) {
  try {
    return read_json_file(run_dir / fmt::format("placement-{}.json", start));
  } catch (const Error&) {
    return {};
  }
}

// What a start of ours changed in the kernel's count of processes killed for want of memory.
bool oom_since(std::optional<long> before) {
  const auto now = oom_kills();
  return before && now && *now > *before;
}

}  // namespace

std::string who_died(std::string_view said, const Json& placement) {
  Death death = death_in(said);
  if (death.ranks.empty()) return {};
  if (placement.is_object() && placement.contains("map"))
    for (const Json& place : placement["map"])
      if (place.contains("started_as") && std::to_string(place["started_as"].get<int>()) == death.ranks) {
        death.ranks = std::to_string(place.at("rank").get<int>());
        break;
      }
  return fmt::format("rank {} on {} {}", death.ranks, death.node, death.how);
}

std::string where_died(std::string_view said) { return death_in(said).node; }

Ending supervise(RunDirectory& run, SignalWatch& watch, const SupervisorOptions& options) {
  std::optional<Ending> last;
  for (int restarts = 0;; ++restarts) {
    const fs::path noise = run.path() / "log" / fmt::format("launcher-{}.txt", run.start());
    const StepCommand command = options.command(run.start(), last);
    const auto step_before = last_step(run.path());
    const auto kills_before = oom_kills();
    const StepEnd end =
        run_step(command, watch, noise, run.path() / fmt::format("placement-{}.json", run.start()), options.on_stop);
    Ending ending = judge(run.path(), run.start(), end.status, end.asked_to_stop);
    ending.restarts = restarts;
    // The ranks know only the signal that was passed on to them.
    if (ending.reason == Reason::kSignal && end.asked_to_stop && ending.exit_code == kExitStopped)
      ending.detail = fmt::format("asked to stop by SIG{}; saved", sigabbrev_np(end.signal));
    ending.step = last_step(run.path());
    const std::string said = read_if_there(noise);
    if (ending.reason == Reason::kRankKilled) {
      if (const std::string who = who_died(said, placement_of(run.path(), run.start())); !who.empty()) {
        ending.detail = who;
        ending.failed_nodes = {where_died(said)};
      }
      if (said.find("Out Of Memory") != std::string::npos || said.find("oom-kill") != std::string::npos ||
          said.find("oom_kill") != std::string::npos || oom_since(kills_before)) {
        ending.reason = Reason::kOutOfMemory;
        ending.detail +=
            ": out of memory (the kernel's limit of the job or the machine); ask for more --mem, use more ranks, or a "
            "smaller train.micro_batch";
      }
      // A rank that fails because nothing can be written cannot leave a record of it either.
      if (classify(end.last_message) == Reason::kFileSystem) {
        ending.reason = Reason::kFileSystem;
        ending.detail = end.last_message;
      }
    }
    const bool failed =
        ending.exit_code != kExitDone && ending.exit_code != kExitStopped && ending.exit_code != kExitUsage;
    // Whoever asked twice, or is about to kill us, does not wait for an inspection.
    if (((failed && !end.asked_to_stop) || ending.exit_code == kExitStopped) && options.inspect) {
      options.inspect(ending);
    } else if (failed) {
      note_ranks(ending, look_at_ranks(run.path()));
      remove_dead_activities(run.path());
    }
    const bool again = !end.asked_to_stop && worth_restarting(ending) && restarts < options.max_restarts;
    // A rank that could speak has spoken.
    const bool unsaid = ending.reason == Reason::kRankKilled || ending.reason == Reason::kNodeLost ||
                        ending.reason == Reason::kLaunchFailed || ending.reason == Reason::kOutOfMemory;
    if (ending.exit_code != 0 && unsaid) std::fprintf(stderr, "railyard: %s\n", ending.detail.c_str());
    // Where a rank has told the cause, what the others were doing then only distracts (why.json has it).
    const bool shows_ranks =
        failed && (unsaid || ending.reason == Reason::kHungCollective || ending.reason == Reason::kFileSystemStall);
    if (shows_ranks && !ending.ranks.empty()) std::fprintf(stderr, "  at the end: %s\n", ending.ranks.c_str());
    try {
      write_why(run.path(), ending);
    } catch (const RunError& problem) {
      if (ending.reason != Reason::kFileSystem) std::fprintf(stderr, "railyard: %s\n", problem.what());
    }
    if (!again || (options.may_restart && !options.may_restart(ending))) {
      if (!again && worth_restarting(ending) && !end.asked_to_stop && options.max_restarts > 0)
        std::fprintf(stderr,
                     "railyard: restarted %d times (run.max_restarts), giving up; run the job again to go on from its "
                     "last checkpoint\n",
                     restarts);
      return ending;
    }
    // No progress since the last start counts like any other failure: max_restarts bounds it.
    std::fprintf(
        stderr, "railyard: restarting from the last checkpoint (%d of %d)%s\n", restarts + 1, options.max_restarts,
        ending.step && ending.step != step_before ? fmt::format("; it had reached step {}", *ending.step).c_str() : "");
    last = ending;
    run.next_start();
  }
}

}  // namespace railyard::launch
