// railyard status: a run in a few lines, once or as a live view.
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "launch/activity_files.hpp"
#include "launch/cli/report.hpp"
#include "launch/cli/streams.hpp"
#include "launch/process.hpp"
#include "launch/run_lock.hpp"
#include "launch/run_sight.hpp"
#include "launch/slurm/control.hpp"
#include "launch/slurm/step.hpp"
#include "runtime/base/error.hpp"
#include "runtime/report/status_text.hpp"
#include "runtime/report/terminal.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

// Set for the tasks that --stacks starts on the nodes of a job.
constexpr const char* kStacksMarker = "RAILYARD_STACKS_TASK";
constexpr double kStacksTimeout = 30.0;
constexpr double kRefresh = 1.0;  // seconds between two looks

// Keys come as they are typed and unseen, and the cursor is hidden, until the end.
class KeyboardWatch {
 public:
  KeyboardWatch() {
    active_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!active_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::fputs("\x1b[?25l", stdout);
  }
  KeyboardWatch(const KeyboardWatch&) = delete;
  KeyboardWatch& operator=(const KeyboardWatch&) = delete;
  ~KeyboardWatch() {
    if (!active_) return;
    std::fputs("\x1b[?25h", stdout);
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  // Waits up to `seconds`; true when q was typed or nobody can type any more.
  [[nodiscard]] static bool wants_to_quit(double seconds) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
    char key = 0;
    return ::read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q';
  }

 private:
  termios before_{};
  bool active_ = false;
};

StatusStyle style_of(int columns) {
  return {.columns = columns > 0 ? columns : 200,
          .colour = columns > 0 && colour_is_welcome(),
          .unicode = locale_is_utf8()};
}

std::string look(const fs::path& directory, int columns, bool& live) {
  const RunView run = sight_run(directory, {.whole = false});
  live = run.owner == RunView::Owner::kLive;
  struct stat status {};
  std::optional<double> age;
  if (::stat((run.path / "metrics.jsonl").c_str(), &status) == 0)
    age = std::difftime(std::time(nullptr), status.st_mtim.tv_sec);
  return status_text(run, style_of(columns), age);
}

// Redraws in place until the run ends, q, or a signal.
void watch(const fs::path& directory) {
  SignalWatch signals;
  const KeyboardWatch keyboard;
  std::ptrdiff_t drawn = 0;
  for (bool live = true; live;) {
    const int columns = std::max(railyard::terminal_columns(stdout), 20);
    std::string text = look(directory, columns, live);
    if (live) text += "q quits; the run goes on\n";
    // Up to where the last picture began, and clear from there.
    std::string frame = drawn > 0 ? fmt::format("\x1b[{}A\r\x1b[J", drawn) : std::string();
    frame += text;
    drawn = std::count(text.begin(), text.end(), '\n');
    if (std::fwrite(frame.data(), 1, frame.size(), stdout) != frame.size() || std::fflush(stdout) != 0) return;
    for (double waited = 0.0; live && waited < kRefresh; waited += 0.1)
      if (KeyboardWatch::wants_to_quit(0.1) || signals.wait(0.0) != 0) return;
  }
}

int show(const fs::path& directory, bool once) {
  bool live = false;
  const std::string text = look(directory, railyard::terminal_columns(stdout), live);
  if (live && !once && railyard::terminal_columns(stdout) > 0 && ::isatty(STDIN_FILENO) == 1)
    watch(directory);
  else
    std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitDone;
}

// Without an argument: this directory when it is a run's, else all runs below runs/.
int show_all(bool once) {
  std::error_code ignored;
  if (fs::exists("job.json", ignored) || fs::exists("metrics.jsonl", ignored)) return show(".", once);
  const auto runs = runs_below("runs");
  if (runs.empty()) throw UsageError("there are no runs below ./runs; name a run directory or a Slurm job");
  if (runs.size() == 1) return show(runs.front(), once);
  for (const fs::path& run : runs) {
    const std::string line =
        status_line(sight_run(run, {.whole = false}), style_of(railyard::terminal_columns(stdout)));
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  return kExitDone;
}

int status(const std::string& target, bool once) {
  if (target.empty()) return show_all(once);
  std::error_code ignored;
  if (fs::exists(target, ignored) || !looks_like_job_id(target)) return show(target, once);
  const JobSight job = find_job(target);
  if (job.run) return show(*job.run, once);
  if (job.state == "PENDING") {
    fmt::print("job {} waits in the queue ({})\n", target, job.reason);
    return kExitDone;
  }
  throw UsageError(
      "job {} ({}): no run below {} names it: it was given another --run-dir, or has not written its lock yet; give "
      "the run directory",
      target, job.state, (job.folder / "runs").string());
}

// The ranks on this node and on the other nodes of the run's Slurm job, by rank.
std::vector<RankSight> all_ranks(const fs::path& directory) {
  const auto job = lock_job(directory / "lock");
  if (!job || environment_value(kStacksMarker)) return look_at_ranks(directory, true);
  const auto nodes = live_nodes(*job);
  if (nodes.empty()) return look_at_ranks(directory, true);
  auto environment = step_environment(current_environment());
  environment[kStacksMarker] = "1";
  const auto answer = run_command(
      {"srun", "--jobid=" + *job, "--overlap", "--mpi=none", "--cpu-bind=none", "--mem=0", "--input=none",
       fmt::format("--nodes={}", nodes.size()), fmt::format("--ntasks={}", nodes.size()), "--ntasks-per-node=1",
       "--no-kill", "--kill-on-bad-exit=0", fs::read_symlink("/proc/self/exe").string(), "status", "--stacks", "--json",
       fs::absolute(directory).string()},
      kStacksTimeout, &environment);
  std::vector<RankSight> ranks;
  std::istringstream lines(answer.output);
  for (std::string line; std::getline(lines, line);) {
    try {
      ranks.push_back(RankSight::from_json(parse_json(line, "a rank's answer")));
    } catch (const UsageError&) {
      continue;  // a line of srun's own
    }
  }
  if (ranks.empty() && answer.status != 0)
    throw RunError("srun cannot look at job {}: {}", *job,
                   answer.timed_out ? fmt::format("no answer within {:.0f} s", kStacksTimeout)
                                    : answer.errors.substr(0, answer.errors.find('\n')));
  std::sort(ranks.begin(), ranks.end(),
            [](const RankSight& a, const RankSight& b) { return a.activity.owner.rank < b.activity.owner.rank; });
  return ranks;
}

int stacks(const std::string& target, bool json) {
  fs::path directory = target.empty() ? "." : target;
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) {
    if (!looks_like_job_id(target)) throw UsageError("{}: no run directory", target);
    const JobSight job = find_job(target);
    if (!job.run) throw UsageError("job {} ({}): no run below {} names it", target, job.state, job.folder.string());
    directory = *job.run;
  }
  const auto ranks = all_ranks(directory);
  std::string text;
  for (const RankSight& rank : ranks) {
    text += (json ? rank.to_json().dump() : rank.line()) + "\n";
    if (!json)
      for (const std::string& frame : rank.stack) text += "    " + frame + "\n";
  }
  if (ranks.empty() && !json) text = "no rank of this run is on its nodes\n";
  write_standard_output(text);
  return kExitDone;
}

}  // namespace

std::function<int()> define_status(CLI::App& program) {
  struct Options {
    std::string target;
    bool once = false, stacks = false, json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("status", "Show how a run is doing, live on a terminal.");
  command->add_option("RUN", options->target, "Run directory or Slurm job id [the runs below ./runs]");
  command->add_flag("--once", options->once, "Show it once, also on a terminal");
  CLI::Option* stacks_flag =
      command->add_flag("--stacks", options->stacks,
                        "Show what each rank is in, on all nodes of its Slurm job; with call stacks where eu-stack "
                        "(elfutils) is installed");
  command->add_flag("--json", options->json, "With --stacks: one JSON object a line")->needs(stacks_flag);
  command->footer(
      "Examples:\n  railyard status runs/first-train\n  railyard status 4711          # a Slurm job\n  railyard status "
      "--once\n  railyard status --stacks 4711 # what each rank is in, also of a run that hangs");
  return [options] {
    return options->stacks ? stacks(options->target, options->json) : status(options->target, options->once);
  };
}

}  // namespace railyard::launch
