// Writes batch scripts.
#include "launch/slurm/submission.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "launch/saves.hpp"
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

// Options of the command line ("--gres=gpu:h100:4", "-p debug") that override the job's own lines.
std::optional<std::string> given_option(const std::vector<std::string>& options, std::string_view name) {
  std::optional<std::string> value;
  for (const std::string& option : options) {
    const std::string head = "--" + std::string(name);
    if (option.starts_with(head + "=")) value = option.substr(head.size() + 1);
    if (option.starts_with(head + " ")) value = option.substr(head.size() + 1);
  }
  return value;
}

std::optional<std::string> either_option(const lua::EvaluatedJob& job, const std::vector<std::string>& options,
                                         std::string_view name) {
  const auto given = given_option(options, name);
  return given ? given : option_of(job, name);
}

// "h100" of "h100:8", "gpu:h100:8"; empty when only a count is named.
std::string gpu_kind_of(std::string text) {
  if (text.starts_with("gpu:")) text.erase(0, 4);
  const auto colon = text.find(':');
  if (colon == std::string::npos) return {};
  return text.substr(0, colon);
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
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

// A batch script is no login shell: `module` has to be made first.
std::string module_lines(const Json& site) {
  const Json modules =
      site.is_object() ? site.value(Json::json_pointer("/slurm/modules"), Json::array()) : Json::array();
  if (!modules.is_array() || modules.empty()) return {};
  std::string words;
  for (const Json& name : modules) words += " " + quoted(name.get<std::string>());
  return R"sh(if ! type module >/dev/null 2>&1; then
  for init in "${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash" "${MODULESHOME:-/usr/share/modules}/init/bash" \
    /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    if [ -r "$init" ]; then . "$init" || true; break; fi
  done
fi
module load)sh" +
         words + R"sh( || { echo "railyard: the site's modules (slurm.modules) cannot be loaded here" >&2; exit 2; }
)sh";
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
  // Weakest: what the site wants where the job says nothing.
  if (submission.site.is_object())
    for (const char* key : {"partition", "account", "qos"}) {
      const Json value = submission.site.value(Json::json_pointer(fmt::format("/slurm/{}", key)), Json());
      if (value.is_string() && !option_of(job, key))
        script += fmt::format("#SBATCH --{}={}\n", key, quoted(value.get<std::string>()));
    }
  if (job.spec.run.spare_nodes > 0 && !option_of(job, "no-kill")) script += "#SBATCH --no-kill\n";
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
  script += "\nset -e\n" + module_lines(submission.site);
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

void check_gpu_kind(const lua::EvaluatedJob& job, const std::vector<std::string>& options, const Json& site) {
  if (!site.is_object()) return;
  std::vector<std::string> known;
  const auto add = [&](const Json& where) {
    const Json name = where.is_object() ? where.value(Json::json_pointer("/node/gpu"), Json()) : Json();
    if (name.is_string() && std::find(known.begin(), known.end(), name.get<std::string>()) == known.end())
      known.push_back(name.get<std::string>());
  };
  add(site);
  if (site.contains("partitions") && site["partitions"].is_object())
    for (const auto& [name, partition] : site["partitions"].items()) add(partition);
  if (known.empty()) return;
  for (const char* option : {"gpus-per-node", "gpus", "gpus-per-task", "gres"}) {
    const auto text = either_option(job, options, option);
    if (!text || (option == std::string_view("gres") && !text->starts_with("gpu:"))) continue;
    const std::string kind = gpu_kind_of(*text);
    const bool fits = kind.empty() || std::any_of(known.begin(), known.end(), [&](const std::string& name) {
                        return lower(name).find(lower(kind)) != std::string::npos;
                      });
    if (!fits)
      throw UsageError("--{}={}: this site has no GPU of the kind \"{}\"; node.gpu in its site file says {}", option,
                       *text, kind, fmt::join(known, ", "));
  }
}

std::optional<double> parse_time_limit(const std::string& text) {
  // D-H[:M[:S]], H:M:S, M:S, M (man sbatch, --time)
  const auto dash = text.find('-');
  std::vector<double> parts;
  std::string rest = dash == std::string::npos ? text : text.substr(dash + 1);
  double days = 0.0;
  const auto number = [](const std::string& digits) -> std::optional<double> {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size() && value >= 0 ? std::optional<double>(value)
                                                                                      : std::nullopt;
  };
  if (dash != std::string::npos) {
    const auto value = number(text.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
  }
  while (true) {
    const auto colon = rest.find(':');
    const auto value = number(rest.substr(0, colon));
    if (!value) return std::nullopt;
    parts.push_back(*value);
    if (colon == std::string::npos) break;
    rest.erase(0, colon + 1);
  }
  if (parts.size() > 3) return std::nullopt;
  parts.resize(3, -1.0);
  const bool hours_first = dash != std::string::npos || parts[2] >= 0.0;
  const auto part = [&](std::size_t i) { return std::max(parts[i], 0.0); };
  const double seconds = hours_first ? part(0) * 3600.0 + part(1) * 60.0 + part(2) : part(0) * 60.0 + part(1);
  return days * 86400.0 + seconds;
}

std::optional<double> requested_time(const lua::EvaluatedJob& job, const std::vector<std::string>& options) {
  const auto text = either_option(job, options, "time");
  return text ? parse_time_limit(*text) : std::nullopt;
}

std::optional<std::string> lead_warning(const lua::EvaluatedJob& job, const std::filesystem::path& run_dir) {
  const auto signal = option_of(job, "signal");
  const auto at = signal ? signal->rfind('@') : std::string::npos;
  if (at == std::string::npos) return std::nullopt;
  int lead = 0;
  std::from_chars(signal->data() + at + 1, signal->data() + signal->size(), lead);
  const auto saves = last_saves(run_dir);
  if (saves.empty()) return std::nullopt;
  const double longest = *std::max_element(saves.begin(), saves.end());
  if (lead >= 1.5 * longest) return std::nullopt;
  return fmt::format(
      "--signal={}: saving took up to {:.0f} s in this run, a lead of {} s may be too short; use @{:.0f}", *signal,
      longest, lead, std::max(60.0, std::ceil(3.0 * longest)));
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
