// railyard job check / keys / from-megatron.
#include "launch/cli/command_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launch/cli/streams.hpp"
#include "lua/job.hpp"
#include "lua/megatron/import.hpp"
#include "lua/schema/job_schema.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

struct CheckWords {
  std::string file;
  std::vector<std::string> sets;
  std::vector<std::string> arguments;
  bool json = false;
};

// One line for each value: train.lr.peak = 0.001
void add_lines(const Json& value, const std::string& key, std::string& text) {
  if (!value.is_object() || value.empty()) {
    text += fmt::format("{} = {}\n", key, value.dump());
    return;
  }
  for (const auto& [name, inner] : value.items()) add_lines(inner, key.empty() ? name : key + "." + name, text);
}

int check(const CheckWords& words) {
  lua::JobOptions options;
  options.sets = words.sets;
  options.arguments = words.arguments;
  const lua::EvaluatedJob job = lua::evaluate_job(words.file, options);
  for (const std::string& warning : job.warnings) std::fprintf(stderr, "railyard: warning: %s\n", warning.c_str());
  if (words.json) {
    write_standard_output(job.resolved.dump(2) + "\n");
    return kExitDone;
  }
  std::string text;
  add_lines(job.resolved, "", text);
  for (const auto& option : job.sbatch)
    text += fmt::format("#SBATCH --{}{}\n", option.name, option.value ? "=" + *option.value : "");
  for (const auto& [name, value] : job.environment)
    text += fmt::format("env.{}{}\n", name, value ? " = " + *value : " is not set");
  write_standard_output(text);
  return kExitDone;
}

const char* kind_name(lua::Kind kind) {
  switch (kind) {
    case lua::Kind::kBoolean:
      return "true or false";
    case lua::Kind::kInteger:
      return "integer";
    case lua::Kind::kNumber:
      return "number";
    case lua::Kind::kDuration:
      return "time";
    case lua::Kind::kBytes:
      return "size";
    case lua::Kind::kText:
      return "string";
    case lua::Kind::kIntegers:
      return "integers";
    case lua::Kind::kNumbers:
      return "numbers";
    case lua::Kind::kTexts:
      return "strings";
    case lua::Kind::kTextMap:
      return "table of strings";
    case lua::Kind::kTable:
      return "table";
    case lua::Kind::kTables:
      return "list of tables";
    case lua::Kind::kFunction:
      return "function";
  }
  return "";
}

std::string default_text(const lua::Key& key) {
  if (key.built == lua::Built::kNo) return "";
  if (key.needed) return "must be given";
  if (!key.derived_help.empty()) return "[" + key.derived_help + "]";
  for (const auto& [word, value] : key.words)
    if (value == key.fallback) return fmt::format("[\"{}\"]", word);
  if (key.fallback.is_null() || key.fallback == "" || (key.fallback.is_structured() && key.fallback.empty())) return "";
  return "[" + key.fallback.dump() + "]";
}

int keys(const std::string& prefix) {
  std::string text;
  for (const lua::Key& key : lua::job_schema().keys()) {
    if (!key.path.starts_with(prefix)) continue;
    std::string kind = kind_name(key.kind);
    if (!key.choices.empty()) kind = fmt::format("{}", fmt::join(key.choices, " | "));
    std::string later = key.built != lua::Built::kYes ? "; not built yet" : "";
    if (!key.later_choices.empty()) later = fmt::format("; not built yet: {}", fmt::join(key.later_choices, ", "));
    text += fmt::format("{:<38} {:<30} {}{}{}{}\n", key.path, kind, key.help, later,
                        default_text(key).empty() ? "" : "  ", default_text(key));
  }
  if (text.empty()) throw UsageError("job keys: no key begins with \"{}\"; see railyard job keys", prefix);
  write_standard_output(text);
  return kExitDone;
}

int from_megatron(const std::string& file) {
  const bool standard_input = file == "-";
  const std::string flags = standard_input ? read_standard_input() : read_file(file);
  const std::string name = standard_input ? "from-megatron" : std::filesystem::path(file).stem().string();
  const lua::MegatronImport import = lua::import_megatron(flags, standard_input ? "standard input" : file, name);
  write_standard_output(import.job);
  for (const std::string& flag : import.inexpressible)
    std::fprintf(stderr, "railyard: not in the job: %s\n", flag.c_str());
  return kExitDone;
}

std::function<int()> define_check(CLI::App& job) {
  auto words = std::make_shared<CheckWords>();
  CLI::App* command = job.add_subcommand("check", "Evaluates a job file and prints every key with its value.");
  command->add_option("JOB", words->file, "The job file")->required();
  command->add_option("--set", words->sets, "key.path=value, applied to the job")
      ->type_size(1)
      ->allow_extra_args(false);
  command->add_option("--arg", words->arguments, "An argument of the file (its `arg`)")
      ->type_size(1)
      ->allow_extra_args(false);
  command->add_flag("--json", words->json, "Print job.json");
  command->footer(
      "Examples:\n  railyard job check job.lua\n  railyard job check job.lua --set train.lr.peak=1e-4 --json\nExit "
      "code 2 when the job is wrong.");
  return [words] { return check(*words); };
}

std::function<int()> define_keys(CLI::App& job) {
  auto prefix = std::make_shared<std::string>();
  CLI::App* command = job.add_subcommand("keys", "Lists the keys of a job file with kind, meaning and [default].");
  command->add_option("PREFIX", *prefix, "Only keys that begin so, such as train.lr");
  command->footer("Example:\n  railyard job keys parallel");
  return [prefix] { return keys(*prefix); };
}

std::function<int()> define_from_megatron(CLI::App& job) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = job.add_subcommand("from-megatron", "Prints a job file for Megatron-LM's flags.");
  command
      ->add_option("ARGS_FILE", *file,
                   "A file of flags, as on a command line or in a script's arrays; - is standard input")
      ->required();
  command->footer(
      "Flags that a job file cannot express are named on standard error.\nExamples:\n  railyard job from-megatron "
      "pretrain.sh > job.lua\n  echo --num-layers 24 ... | railyard job from-megatron -");
  return [file] { return from_megatron(*file); };
}

}  // namespace

std::function<int()> define_job(CLI::App& program) {
  CLI::App* job = program.add_subcommand("job", "Checks a job file, lists its keys, makes one from Megatron's flags.");
  job->require_subcommand(1);
  auto actions = std::make_shared<std::map<std::string, std::function<int()>>>();
  (*actions)["check"] = define_check(*job);
  (*actions)["keys"] = define_keys(*job);
  (*actions)["from-megatron"] = define_from_megatron(*job);
  return [job, actions] { return actions->at(job->get_subcommands().front()->get_name())(); };
}

}  // namespace railyard::launch
