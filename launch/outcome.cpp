// Records, judges and explains the ends of runs.
#include "launch/outcome.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <functional>
#include <new>
#include <regex>

#include "launch/bootstrap/bootstrap.hpp"
#include "launch/process.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

struct Name {
  Reason reason;
  std::string_view name;
};
constexpr std::array<Name, 16> kNames = {{
    {Reason::kFinished, "finished"},
    {Reason::kSignal, "signal"},
    {Reason::kTimeLimit, "time_limit"},
    {Reason::kPreempted, "preempted"},
    {Reason::kInterval, "exit_interval"},
    {Reason::kBadInput, "bad_input"},
    {Reason::kError, "error"},
    {Reason::kNotFinite, "not_finite"},
    {Reason::kOutOfMemory, "out_of_memory"},
    {Reason::kDeviceFault, "device_fault"},
    {Reason::kFileSystem, "file_system"},
    {Reason::kFileSystemStall, "file_system_stall"},
    {Reason::kHungCollective, "hung_collective"},
    {Reason::kRankKilled, "rank_killed"},
    {Reason::kNodeLost, "node_lost"},
    {Reason::kLaunchFailed, "launch_failed"},
}};

// Words of an error text that tell its cause: CUDA's and the C library's messages, and our own.
struct Clue {
  std::string_view text;
  Reason reason;
};
constexpr std::array<Clue, 13> kClues = {{
    {"is not finite", Reason::kNotFinite},
    {"file system has not answered", Reason::kFileSystemStall},
    {"has waited", Reason::kHungCollective},
    {"out of memory", Reason::kOutOfMemory},
    {"Cannot allocate memory", Reason::kOutOfMemory},
    {"No space left on device", Reason::kFileSystem},
    {"Disk quota exceeded", Reason::kFileSystem},
    {"Read-only file system", Reason::kFileSystem},
    {"Stale file handle", Reason::kFileSystem},
    {"Input/output error", Reason::kFileSystem},
    {"uncorrectable ECC", Reason::kDeviceFault},
    {"XID", Reason::kDeviceFault},
    {"illegal memory access", Reason::kDeviceFault},
}};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string list_ranks(const std::vector<RankEnd>& ends) {
  std::string text;
  for (std::size_t i = 0; i < ends.size() && i < 8; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", ends[i].rank, ends[i].host);
  if (ends.size() > 8) text += fmt::format(" and {} more", ends.size() - 8);
  return text;
}

}  // namespace

std::string_view reason_name(Reason reason) {
  for (const Name& entry : kNames)
    if (entry.reason == reason) return entry.name;
  return "error";
}

std::optional<Reason> reason_from_name(std::string_view name) {
  for (const Name& entry : kNames)
    if (entry.name == name) return entry.reason;
  return std::nullopt;
}

Reason classify(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return Reason::kOutOfMemory;
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && known->exit_code() == kExitUsage) return Reason::kBadInput;
  return classify(std::string_view(error.what()));
}

Reason classify(std::string_view message) {
  for (const Clue& clue : kClues)
    if (message.find(clue.text) != std::string_view::npos) return clue.reason;
  return Reason::kError;
}

void leave_rank_end(const fs::path& run_dir, int start, const RankEnd& end) noexcept {
  try {
    const Json record{{"rank", end.rank},
                      {"host", end.host},
                      {"reason", reason_name(end.reason)},
                      {"exit", end.exit_code},
                      {"message", end.message}};
    write_file_atomic(run_dir / "log" / fmt::format("end-{}-{}.json", start, end.rank), record.dump() + "\n");
  } catch (const std::exception&) {
    // A full disk may be the very reason.
  }
}

std::vector<RankEnd> read_rank_ends(const fs::path& run_dir, int start) {
  std::vector<RankEnd> ends;
  const std::string prefix = fmt::format("end-{}-", start);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_dir / "log", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".json")) continue;
    try {
      const Json record = read_json_file(entry.path());
      ends.push_back({record.at("rank").get<int>(), record.at("host").get<std::string>(),
                      reason_from_name(record.at("reason").get<std::string>()).value_or(Reason::kError),
                      record.at("exit").get<int>(), record.at("message").get<std::string>()});
    } catch (const std::exception&) {
      // Half a record tells nothing.
    }
  }
  std::sort(ends.begin(), ends.end(), [](const RankEnd& a, const RankEnd& b) { return a.rank < b.rank; });
  return ends;
}

bool first_to_say(const fs::path& run_dir, int start, const std::string& text) noexcept {
  try {
    const fs::path mark = run_dir / "log" / fmt::format("said-{}-{:016x}", start, std::hash<std::string>{}(text));
    const int descriptor = open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor >= 0) close(descriptor);
    return descriptor >= 0 || errno != EEXIST;
  } catch (const std::exception&) {
    return true;
  }
}

std::vector<std::string> silent_nodes(const fs::path& run_dir, int start, const std::string& message) {
  std::vector<std::string> nodes;
  try {
    const Json placement = read_json_file(run_dir / fmt::format("placement-{}.json", start));
    static const std::regex silent(R"(rank (\d+) \(gives no sign of life)");
    for (std::sregex_iterator at(message.begin(), message.end(), silent), end; at != end; ++at)
      for (const Json& place : placement.at("map"))
        if (std::to_string(place.at("rank").get<int>()) == at->str(1)) {
          const auto node = place.at("node").get<std::string>();
          if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
        }
  } catch (const std::exception&) {
    // Without a readable placement nobody is blamed.
  }
  return nodes;
}

Ending judge(const fs::path& run_dir, int start, int status, bool asked_to_stop) {
  Ending ending;
  ending.start = start;
  ending.exit_code = status;
  const auto ends = read_rank_ends(run_dir, start);
  // The first cause is what tells: ranks that waited for a dead one say so, but a rank that failed by itself says more.
  const RankEnd* cause = nullptr;
  for (const RankEnd& end : ends)
    if (end.exit_code != 0 &&
        (cause == nullptr || (cause->reason == Reason::kHungCollective && end.reason != Reason::kHungCollective)))
      cause = &end;
  if (status == kExitDone) {
    ending.reason = Reason::kFinished;
    ending.detail = "all iterations done";
  } else if (status == kExitStopped) {
    ending.reason = cause != nullptr ? cause->reason : Reason::kSignal;
    ending.detail = cause != nullptr ? cause->message : "stopped early with a checkpoint";
  } else if (cause != nullptr) {
    ending.reason = cause->reason;
    ending.exit_code = cause->exit_code;
    ending.detail = fmt::format("rank {} on {}: {}", cause->rank, cause->host, cause->message);
    ending.failed_nodes = cause->reason == Reason::kHungCollective ? silent_nodes(run_dir, start, cause->message)
                                                                   : std::vector<std::string>{cause->host};
    if (cause->reason == Reason::kHungCollective && ends.size() > 1)
      ending.detail += fmt::format(" (reported by ranks {})", list_ranks(ends));
  } else if (asked_to_stop) {
    ending.reason = Reason::kSignal;
    ending.exit_code = kExitFailed;
    ending.detail =
        fmt::format("killed (status {}) after it was asked to stop, before a checkpoint was complete", status);
  } else {
    ending.reason = status == kExitUsage ? Reason::kBadInput : Reason::kRankKilled;
    ending.exit_code = status == kExitUsage ? kExitUsage : kExitFailed;
    ending.detail =
        status > 128 && status <= 128 + SIGRTMAX
            ? fmt::format("a rank was killed by signal {}{}", status - 128,
                          status == 137 ? " (by a person, the kernel or the cgroup for want of memory)" : "")
            : fmt::format("the ranks ended with status {} without a word", status);
  }
  return ending;
}

bool worth_restarting(const Ending& ending) {
  switch (ending.reason) {
    case Reason::kRankKilled:
    case Reason::kNodeLost:
    case Reason::kHungCollective:
    case Reason::kDeviceFault:
    case Reason::kFileSystemStall:
      return true;
    default:
      return false;
  }
}

void write_why(const fs::path& run_dir, const Ending& ending) {
  const fs::path file = run_dir / "why.json";
  Json history = Json::array();
  try {
    if (fs::exists(file)) {
      Json before = read_json_file(file);
      if (before.contains("history") && before["history"].is_array()) history = before["history"];
      before.erase("history");
      history.push_back(before);
      while (history.size() > 100) history.erase(0);
    }
  } catch (const Error&) {
    // A file that someone edited is no reason to lose this ending.
  }
  Json record{{"start", ending.start},
              {"ended", utc_now()},
              {"exit", ending.exit_code},
              {"reason", reason_name(ending.reason)},
              {"detail", ending.detail},
              {"step", ending.step ? Json(*ending.step) : Json()},
              {"restarts", ending.restarts},
              {"host", host_name()},
              {"slurm_job", environment_value("SLURM_JOB_ID") ? Json(*environment_value("SLURM_JOB_ID")) : Json()},
              {"slurm_restart", environment_number("SLURM_RESTART_COUNT").value_or(0)}};
  if (!ending.ranks.empty()) record["ranks"] = ending.ranks;
  if (!ending.failed_nodes.empty()) record["failed_nodes"] = ending.failed_nodes;
  if (!ending.lost_nodes.empty()) record["lost_nodes"] = ending.lost_nodes;
  record["history"] = history;
  write_file_atomic(file, record.dump(1) + "\n");
}

}  // namespace railyard::launch
