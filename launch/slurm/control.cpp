// Runs Slurm's clients and reads their answers.
#include "launch/slurm/control.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "launch/process.hpp"
#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"

namespace railyard::launch {
namespace {

// Clients retry for minutes while the controller is away; a launcher has better things to do.
constexpr double kPatience = 15.0;

std::string trim(std::string text) {
  text.erase(0, text.find_first_not_of(" \t\n"));
  text.erase(text.find_last_not_of(" \t\n") + 1);
  return text;
}

std::string value_of(const std::map<std::string, std::string>& job, const char* key) {
  const auto found = job.find(key);
  return found == job.end() ? std::string() : found->second;
}

}  // namespace

std::map<std::string, std::string> parse_job(const std::string& text) {
  std::map<std::string, std::string> job;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = trim(line);
    // Only one field stands on the lines whose values may hold spaces.
    bool whole = false;
    for (const char* key : {"Command=", "WorkDir=", "StdErr=", "StdIn=", "StdOut=", "Comment=", "Reason="})
      whole = whole || line.starts_with(key);
    std::istringstream words(line);
    std::string word;
    while (whole ? static_cast<bool>(std::getline(words, word)) : static_cast<bool>(words >> word)) {
      const auto equals = word.find('=');
      if (equals != std::string::npos) job.try_emplace(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  return job;
}

std::map<std::string, std::string> show_job(const std::string& job_id) {
  const auto answer = run_command({"scontrol", "show", "job", job_id}, kPatience);
  return answer.status == 0 ? parse_job(answer.output) : std::map<std::string, std::string>{};
}

std::optional<std::string> submitted_script(const std::map<std::string, std::string>& job) {
  std::string command = value_of(job, "Command");
  std::error_code ignored;
  while (!command.empty()) {
    if (std::filesystem::is_regular_file(command, ignored)) return command;
    const auto space = command.rfind(' ');
    if (space == std::string::npos) return std::nullopt;
    command.resize(space);
  }
  return std::nullopt;
}

std::optional<double> parse_duration(const std::string& text) {
  std::string_view rest = text;
  double days = 0.0;
  const auto number = [](std::string_view digits) -> std::optional<double> {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) return std::nullopt;
    return value;
  };
  if (const auto dash = rest.find('-'); dash != std::string_view::npos) {
    const auto value = number(rest.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
    rest.remove_prefix(dash + 1);
  }
  double seconds = 0.0;
  int parts = 0;
  while (true) {
    const auto colon = rest.find(':');
    const auto value = number(rest.substr(0, colon));
    if (!value || ++parts > 3) return std::nullopt;
    seconds = seconds * 60.0 + *value;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return parts == 1 ? std::nullopt : std::optional(days * 86400.0 + seconds);
}

std::optional<double> seconds_left(const std::string& job_id) {
  const auto answer = run_command({"squeue", "--noheader", "--job", job_id, "--format", "%L"}, kPatience);
  return answer.status == 0 ? parse_duration(trim(answer.output)) : std::nullopt;
}

std::vector<std::string> live_nodes(const std::string& job_id) {
  const auto answer = run_command({"squeue", "--noheader", "--job", job_id, "--format", "%N"}, kPatience);
  if (answer.status != 0) return {};
  try {
    return topology::expand_hostlist(trim(answer.output), "squeue");
  } catch (const Error&) {
    return {};
  }
}

bool was_preempted(const std::map<std::string, std::string>& job) {
  const std::string time = value_of(job, "PreemptTime");
  return !time.empty() && time != "None";
}

bool may_requeue(const std::map<std::string, std::string>& job) {
  return value_of(job, "BatchFlag") == "1" && value_of(job, "Requeue") == "1";
}

bool should_requeue(const std::map<std::string, std::string>& job, int stop_signal) {
  if (!may_requeue(job)) return false;
  const std::string state = value_of(job, "JobState");
  if (state.starts_with("CANCELLED") || state.starts_with("PENDING")) return false;
  if (was_preempted(job)) return true;
  return stop_signal == SIGUSR1 || state.starts_with("TIMEOUT");
}

bool requeue(const std::string& job_id) {
  const auto answer = run_command({"scontrol", "requeue", job_id}, kPatience);
  if (answer.status == 0) return true;
  std::fprintf(stderr, "railyard: Slurm does not requeue job %s: %s\n", job_id.c_str(), trim(answer.errors).c_str());
  return false;
}

}  // namespace railyard::launch
