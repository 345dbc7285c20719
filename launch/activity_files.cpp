// Finds, reads and describes the boards of a run's ranks.
#include "launch/activity_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>

#include "launch/process.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

constexpr double kStackTimeout = 10.0;
constexpr std::size_t kFrames = 12;

// FNV-1a: only has to be the same everywhere and rarely equal for two runs.
std::string prefix_of(const fs::path& run_dir) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char c : fs::absolute(run_dir).lexically_normal().string())
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return fmt::format("railyard-{}-{:016x}-", getuid(), hash);
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

char process_state(long pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  // The name in parentheses may hold anything.
  const auto close = text.rfind(')');
  return close == std::string::npos || close + 2 >= text.size() ? '-' : text[close + 2];
}

const char* state_word(char state) {
  switch (state) {
    case '-':
    case 'Z':
    case 'X':
      return "gone";
    case 'T':
    case 't':
      return "stopped";
    case 'D':
      return "blocked in the kernel";
    default:
      return "";
  }
}

// "#0  0x00007f... in poll () ..." of the first thread.
std::vector<std::string> stack_of(long pid) {
  std::vector<std::string> frames;
  const auto program = find_program("eu-stack");
  if (!program) return frames;
  const auto answer = run_command({*program, "-1", "-p", std::to_string(pid)}, kStackTimeout);
  std::istringstream lines(answer.output);
  for (std::string line; std::getline(lines, line) && frames.size() < kFrames;)
    if (line.starts_with("#")) frames.push_back(line);
  return frames;
}

std::vector<std::pair<int, fs::path>> files_of(const fs::path& run_dir, const fs::path& folder) {
  std::vector<std::pair<int, fs::path>> files;
  const std::string prefix = prefix_of(run_dir);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    int rank = 0;
    const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), rank);
    if (error == std::errc{} && end == name.data() + name.size()) files.emplace_back(rank, entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Json RankSight::to_json() const {
  return Json{{"rank", activity.owner.rank},
              {"host", activity.owner.host},
              {"gpu", activity.owner.gpu < 0 ? Json() : Json(activity.owner.gpu)},
              {"pid", activity.pid},
              {"state", std::string(1, state)},
              {"step", activity.step},
              {"kind", static_cast<int>(activity.kind)},
              {"phase", activity.phase},
              {"phase_s", age},
              {"waiting", activity.waiting},
              {"waiting_s", waiting_for},
              {"stack", stack}};
}

RankSight RankSight::from_json(const Json& json) {
  RankSight sight;
  try {
    sight.activity.owner.rank = json.at("rank").get<int>();
    sight.activity.owner.host = json.at("host").get<std::string>();
    sight.activity.owner.gpu = json.at("gpu").is_null() ? -1 : json.at("gpu").get<int>();
    sight.activity.pid = json.at("pid").get<long>();
    const auto state = json.at("state").get<std::string>();
    sight.state = state.empty() ? '-' : state[0];
    sight.activity.step = json.at("step").get<std::int64_t>();
    sight.activity.kind = static_cast<PhaseKind>(std::clamp(json.at("kind").get<int>(), 0, 3));
    sight.activity.phase = json.at("phase").get<std::string>();
    sight.age = json.at("phase_s").get<double>();
    sight.activity.waiting = json.at("waiting").get<std::string>();
    sight.waiting_for = json.at("waiting_s").get<double>();
    sight.stack = json.at("stack").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    throw UsageError("not what a rank is in: {}", error.what());
  }
  return sight;
}

std::string RankSight::line() const {
  std::string text = fmt::format("rank {} on {}", activity.owner.rank, activity.owner.host);
  if (activity.owner.gpu >= 0) text += fmt::format(" gpu{}", activity.owner.gpu);
  text += fmt::format(": step {}, {} for {:.1f} s", activity.step, activity.phase.empty() ? "starting" : activity.phase,
                      age);
  if (!activity.waiting.empty()) text += fmt::format(", waits in {} for {:.1f} s", activity.waiting, waiting_for);
  if (const char* word = state_word(state); *word != '\0') text += fmt::format(" ({})", word);
  return text;
}

fs::path activity_file(const fs::path& run_dir, int rank, const fs::path& folder) {
  return folder / fmt::format("{}{}", prefix_of(run_dir), rank);
}

std::vector<RankSight> look_at_ranks(const fs::path& run_dir, bool stacks, const fs::path& folder) {
  std::vector<RankSight> ranks;
  for (const auto& [rank, file] : files_of(run_dir, folder)) {
    const auto activity = read_activity(file);
    if (!activity) continue;
    RankSight sight;
    sight.activity = *activity;
    sight.age = std::max(0.0, now() - activity->phase_since);
    if (!activity->waiting.empty()) sight.waiting_for = std::max(0.0, now() - activity->waiting_since);
    sight.state = process_state(activity->pid);
    if (stacks && sight.state != '-') sight.stack = stack_of(activity->pid);
    ranks.push_back(std::move(sight));
  }
  return ranks;
}

void remove_dead_activities(const fs::path& run_dir, const fs::path& folder) {
  for (const auto& [rank, file] : files_of(run_dir, folder)) {
    const auto activity = read_activity(file);
    std::error_code ignored;
    if (activity && process_state(activity->pid) == '-') fs::remove(file, ignored);
  }
}

std::string what_each_was_in(const std::vector<RankSight>& ranks, std::size_t most) {
  std::vector<std::string> parts;
  std::map<std::string, std::vector<int>> waiting;
  std::size_t named = 0;
  for (const RankSight& rank : ranks) {
    if (!rank.activity.waiting.empty())
      waiting[rank.activity.waiting].push_back(rank.activity.owner.rank);
    else if (++named <= most)
      parts.push_back(rank.line());
  }
  if (named > most) parts.push_back(fmt::format("{} more ranks that wait for nobody", named - most));
  std::size_t operations = 0;
  for (const auto& [operation, who] : waiting) {
    if (++operations > most) {
      parts.push_back(fmt::format("others in {} more operations", waiting.size() - most));
      break;
    }
    std::string list;
    for (std::size_t i = 0; i < who.size() && i < most; ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", who[i]);
    if (who.size() > most) list += fmt::format(" and {} more", who.size() - most);
    parts.push_back(fmt::format("rank{} {} in {}", who.size() == 1 ? "" : "s", list, operation));
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace railyard::launch
