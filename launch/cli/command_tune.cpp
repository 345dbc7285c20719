// railyard tune: trains a few steps with each micro-batch size that the global batch allows, up to out-of-memory. Each
// is a run of its own, in any layout and under any starter, and is killed when its steps are seen.
#include "launch/cli/command_tune.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

#include "launch/bootstrap/devices.hpp"
#include "launch/prepare.hpp"
#include "launch/process.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

constexpr int kWarmup = 3;

struct Options {
  RunRequest request;
  int steps = 8;
  std::int64_t largest = 0;
  bool json = false;
};

struct Trial {
  std::int64_t micro_batch = 0, microbatches = 0;
  double step_s = 0.0, tokens_per_s_per_gpu = 0.0, tflops_per_gpu = 0.0, memory_gib = 0.0;
  std::optional<double> mfu;
  std::string failure;  // why there are no figures; "out of memory" ends the search
};

class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) { fs::create_directories(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Descriptor {
 public:
  explicit Descriptor(const fs::path& path)
      : value_(::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644)) {
    if (value_ < 0) throw RunError("{}: cannot be written", path.string());
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(value_); }
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

// The rows of training steps so far; a row that is being written is left out.
std::vector<Json> step_rows(const fs::path& metrics) {
  std::vector<Json> rows;
  std::ifstream file(metrics);
  std::string text;
  while (std::getline(file, text)) {
    Json row = Json::parse(text, nullptr, false);
    if (row.is_object() && row.contains("loss") && row["step_s"].is_number()) rows.push_back(std::move(row));
  }
  return rows;
}

double median(const std::vector<Json>& rows, const char* key) {
  std::vector<double> values;
  for (const Json& row : rows)
    if (row[key].is_number()) values.push_back(row[key].get<double>());
  if (values.empty()) return 0.0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void read_figures(std::vector<Json> rows, Trial& trial) {
  rows.erase(rows.begin(), rows.begin() + kWarmup);
  trial.step_s = median(rows, "step_s");
  trial.tokens_per_s_per_gpu = median(rows, "tokens_per_s_per_gpu");
  trial.tflops_per_gpu = median(rows, "tflops_per_gpu");
  trial.memory_gib = median(rows, "mem_gib");
  if (rows.front()["mfu"].is_number()) trial.mfu = median(rows, "mfu");
}

// The last line that says why, without our own name in front.
std::string last_message(const fs::path& errors) {
  std::ifstream file(errors);
  std::string text, last = "ended without a word";
  while (std::getline(file, text))
    if (const auto at = text.find("railyard: "); at != std::string::npos) last = text.substr(at + 10);
  return last;
}

void try_one(const Options& options, int ranks, const fs::path& folder, SignalWatch& watch, Trial& trial) {
  const fs::path run = folder / fmt::format("micro-batch-{}", trial.micro_batch);
  // The shell only drops the run's own progress lines.
  std::vector<std::string> words{"/bin/sh",
                                 "-c",
                                 "exec \"$@\" >/dev/null",
                                 "sh",
                                 fs::read_symlink("/proc/self/exe").string(),
                                 "run",
                                 options.request.job_file.string(),
                                 "--run-dir",
                                 run.string()};
  const auto set = [&](const std::string& what) {
    words.emplace_back("--set");
    words.push_back(what);
  };
  if (ranks > 1) {
    words.emplace_back("--ranks");
    words.push_back(std::to_string(ranks));
  }
  for (const std::string& each : options.request.sets) set(each);
  set(fmt::format("train.micro_batch={}", trial.micro_batch));
  set("train.iterations=1000000");  // never reached: no learning rate falls, nothing is saved
  set("checkpoint.every=0");
  set("checkpoint.resume=never");
  set("eval.every=0");
  set("run.max_restarts=0");
  words.insert(words.end(), options.request.arguments.begin(), options.request.arguments.end());

  const fs::path errors = folder / "errors.txt";
  const Descriptor log(errors);
  Child child(words, current_environment(), log.get());
  for (;;) {
    if (const int signal = watch.wait(0.2); signal != 0 && signal != SIGCHLD) {
      child.signal(SIGKILL);
      throw RunError("stopped by signal {}", signal);
    }
    const std::vector<Json> rows = step_rows(run / "metrics.jsonl");
    if (rows.size() >= static_cast<std::size_t>(kWarmup + options.steps)) {
      read_figures(rows, trial);
      child.signal(SIGKILL);  // its ranks die with it
      while (!child.poll()) watch.wait(0.1);
      return;
    }
    if (const auto code = child.poll()) {
      trial.failure = last_message(errors);
      if (trial.failure.find("out of memory") != std::string::npos) trial.failure = "out of memory";
      return;
    }
  }
}

std::string cells(const Trial& trial) {
  if (!trial.failure.empty()) return trial.failure;
  return fmt::format("{:>10.1f} {:>14.0f} {:>9.2f} {:>6s} {:>8.2f}", trial.step_s * 1e3, trial.tokens_per_s_per_gpu,
                     trial.tflops_per_gpu, trial.mfu ? fmt::format("{:.1f}", *trial.mfu * 100.0) : "-",
                     trial.memory_gib);
}

Json to_json(const Trial& trial) {
  Json json{{"micro_batch", trial.micro_batch}, {"microbatches", trial.microbatches}};
  if (!trial.failure.empty()) {
    json["failure"] = trial.failure;
    return json;
  }
  json["step_s"] = trial.step_s;
  json["tokens_per_s_per_gpu"] = trial.tokens_per_s_per_gpu;
  json["tflops_per_gpu"] = trial.tflops_per_gpu;
  json["mfu"] = trial.mfu ? Json(*trial.mfu) : Json();
  json["mem_gib"] = trial.memory_gib;
  return json;
}

int tune(const Options& options) {
  const lua::EvaluatedJob job = evaluate(options.request);
  const bool cpu = job.spec.run.device == "cpu";
  const int ranks = options.request.ranks > 0 ? options.request.ranks
                                              : natural_ranks(job.spec.parallel, cpu ? 0 : visible_devices().count);
  const Layout layout = Layout::resolve(job.spec.parallel, ranks);
  const std::int64_t share = job.spec.train.global_batch / layout.dp;
  SignalWatch watch;
  const Folder folder(fs::current_path() / "runs" / fmt::format("tune-{}-{}", job.spec.name, ::getpid()));
  if (!options.json)
    fmt::print(
        "{}: tp {} pp {} dp {}, global batch {}, {} steps each\n{:>11s} {:>12s} {:>10s} {:>14s} {:>9s} {:>6s} {:>8s}\n",
        job.spec.name, layout.tp, layout.pp, layout.dp, job.spec.train.global_batch, options.steps, "micro_batch",
        "microbatches", "step ms", "tokens/s/GPU", "TFLOP/s", "MFU %", "GiB");
  std::optional<Trial> best;
  for (std::int64_t micro_batch = 1; micro_batch <= share; ++micro_batch) {
    if (share % micro_batch != 0 || (options.largest > 0 && micro_batch > options.largest)) continue;
    Trial trial{.micro_batch = micro_batch, .microbatches = share / micro_batch};
    try_one(options, ranks, folder.path(), watch, trial);
    fmt::print("{}\n", options.json ? to_json(trial).dump()
                                    : fmt::format("{:>11d} {:>12d} {}", micro_batch, trial.microbatches, cells(trial)));
    std::fflush(stdout);
    if (trial.failure == "out of memory") break;
    if (!trial.failure.empty()) throw RunError("train.micro_batch = {}: {}", micro_batch, trial.failure);
    if (!best || trial.tokens_per_s_per_gpu > best->tokens_per_s_per_gpu) best = trial;
  }
  if (!best) throw UsageError("{}: no micro-batch size fits; see railyard plan", options.request.job_file.string());
  if (!options.json) fmt::print("best: train.micro_batch = {}\n", best->micro_batch);
  return kExitDone;
}

}  // namespace

std::function<int()> define_tune(CLI::App& program) {
  auto* command = program.add_subcommand("tune", "Find the fastest micro-batch size of a job by trying them");
  const auto options = std::make_shared<Options>();
  const auto file = std::make_shared<std::string>();
  command->add_option("JOB", *file, "The job file (Lua)")->required();
  command->add_option("--ranks", options->request.ranks, "Ranks to start, as for run")->check(CLI::Range(1, 1 << 24));
  command->add_option("--set", options->request.sets, "KEY.PATH=VALUE: changes a setting of the job")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--steps", options->steps, "Steps to time with each size")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--largest", options->largest, "Largest size to try; default: what divides the global batch")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_flag("--json", options->json, "One JSON object a size");
  command->add_option("ARG", options->request.arguments, "Handed to the job file as `arg`");
  command->footer(
      R"(Trains a few steps with every micro-batch size that divides the global batch of a data-parallel rank, until one does not
fit. Nothing is saved, and the job's own run directory is not touched.

Examples:
  railyard tune job.lua
  railyard tune job.lua --ranks 8 --set parallel.tp=4 --steps 20)");
  return [=] {
    options->request.job_file = *file;
    return tune(*options);
  };
}

}  // namespace railyard::launch
