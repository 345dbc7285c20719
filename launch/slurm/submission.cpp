// Writes batch scripts.
#include "launch/slurm/submission.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./=,:+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::optional<std::string> option_of(const lua::EvaluatedJob& job, std::string_view name) {
  std::optional<std::string> value;
  for (const auto& option : job.sbatch)
    if (option.name == name) value = option.value.value_or("");
  return value;
}

std::optional<int> number_of(const lua::EvaluatedJob& job, std::string_view name) {
  const auto text = option_of(job, name);
  if (!text) return std::nullopt;
  // "gpu:h100:8" and "h100:8" end in the count.
  const auto digits = text->substr(text->rfind(':') + 1);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() && value > 0 ? std::optional(value)
                                                                                   : std::nullopt;
}

}  // namespace

std::vector<std::vector<std::string>> expand_sweeps(const std::vector<std::string>& sweeps) {
  std::vector<std::vector<std::string>> tasks{{}};
  constexpr std::size_t kMostTasks = 10000;
  for (const std::string& sweep : sweeps) {
    const auto equals = sweep.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == sweep.size())
      throw UsageError("--sweep {}: expected KEY.PATH=VALUE,VALUE,...", sweep);
    std::vector<std::vector<std::string>> longer;
    for (const auto& task : tasks) {
      for (std::string rest = sweep.substr(equals + 1);;) {
        const auto comma = rest.find(',');
        auto more = task;
        more.push_back(sweep.substr(0, equals + 1) + rest.substr(0, comma));
        longer.push_back(std::move(more));
        if (longer.size() > kMostTasks) throw UsageError("--sweep: more than {} combinations", kMostTasks);
        if (comma == std::string::npos) break;
        rest.erase(0, comma + 1);
      }
    }
    tasks = std::move(longer);
  }
  return tasks;
}

std::string batch_script(const Submission& submission, const lua::EvaluatedJob& job) {
  std::string script = "#!/bin/bash\n";
  // sbatch takes the last of two settings.
  if (!option_of(job, "job-name")) script += fmt::format("#SBATCH --job-name={}\n", quoted(job.spec.name));
  if (!option_of(job, "output"))
    script += fmt::format("#SBATCH --output={}\n",
                          quoted((submission.log_folder /
                                  (submission.array || !submission.sweeps.empty() ? "slurm-%A_%a.out" : "slurm-%j.out"))
                                     .string()));
  if (!option_of(job, "open-mode")) script += "#SBATCH --open-mode=append\n";
  for (const auto& option : job.sbatch)
    script += fmt::format("#SBATCH --{}{}\n", option.name, option.value ? "=" + quoted(*option.value) : "");
  const auto tasks = expand_sweeps(submission.sweeps);
  if (!submission.sweeps.empty() && submission.array)
    throw UsageError("--array and --sweep exclude each other: a sweep makes its own array");
  if (!submission.sweeps.empty()) script += fmt::format("#SBATCH --array=0-{}\n", tasks.size() - 1);
  if (submission.array) script += fmt::format("#SBATCH --array={}\n", quoted(*submission.array));
  for (const std::string& option : submission.options) {
    if (!option.starts_with('-'))
      throw UsageError("--sbatch {}: expected an option of sbatch, such as --sbatch=--partition=debug", option);
    script += fmt::format("#SBATCH {}\n", option);
  }
  script += "\nset -e\n";
  std::vector<std::string> words{"exec", quoted(submission.program.string()), "run",
                                 quoted(submission.job_file.string())};
  for (const std::string& set : submission.sets) words.insert(words.end(), {"--set", quoted(set)});
  if (!submission.sweeps.empty()) {
    script += "case $SLURM_ARRAY_TASK_ID in\n";
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      script += fmt::format("  {}) sweep=(", task);
      for (std::size_t i = 0; i < tasks[task].size(); ++i)
        script += fmt::format("{}--set {}", i == 0 ? "" : " ", quoted(tasks[task][i]));
      script += ") ;;\n";
    }
    script += "esac\n";
    words.push_back("\"${sweep[@]}\"");
  }
  if (submission.run_dir) words.insert(words.end(), {"--run-dir", quoted(*submission.run_dir)});
  for (const std::string& argument : submission.arguments) words.push_back(quoted(argument));
  return script + fmt::format("{}\n", fmt::join(words, " "));
}

std::vector<std::string> submission_warnings(const lua::EvaluatedJob& job) {
  std::vector<std::string> warnings;
  if (option_of(job, "time") && !option_of(job, "signal"))
    warnings.push_back(
        "--time without --signal: at the time limit Slurm gives KillWait (often 30 s) to save; add #SBATCH "
        "--signal=B:USR1@120");
  if (const auto signal = option_of(job, "signal"); signal && !signal->starts_with("B:"))
    warnings.push_back(fmt::format(
        "--signal={} goes to the ranks, not to the launcher, which then cannot ask for a requeue; use --signal=B:{}",
        *signal, *signal));
  if (option_of(job, "gpus-per-task"))
    warnings.push_back(
        "--gpus-per-task hides each rank's GPU from the others, and NVLink with it; use --gpus-per-node");
  return warnings;
}

std::optional<int> requested_ranks(const lua::EvaluatedJob& job) {
  const int nodes = number_of(job, "nodes").value_or(1);
  if (const auto tasks = number_of(job, "ntasks-per-node")) return nodes * *tasks;
  if (const auto tasks = number_of(job, "ntasks")) return tasks;
  if (const auto gpus = number_of(job, "gpus-per-node")) return nodes * *gpus;
  return std::nullopt;
}

std::optional<std::string> sbatch_option(const lua::EvaluatedJob& job, std::string_view name) {
  return option_of(job, name);
}

std::optional<int> sbatch_number(const lua::EvaluatedJob& job, std::string_view name) { return number_of(job, name); }

}  // namespace railyard::launch
