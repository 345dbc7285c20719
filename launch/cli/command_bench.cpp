// railyard bench: measures this machine.
#include "launch/cli/command_bench.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "launch/bench/step_bench.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {
namespace {

struct Options {
  std::vector<std::string> cases;
  StepBenchOptions step;
  bool json = false;
};

void print(const StepCase& step_case, const StepBenchOptions& options, const StepFigures& figures, bool json) {
  if (json) {
    Json line{{"case", step_case.name},
              {"device", options.device},
              {"step_s", figures.step_s},
              {"tokens_per_s", figures.tokens_per_s},
              {"tflops", figures.tflops},
              {"mfu", nullptr},
              {"peak_gib", figures.peak_gib},
              {"loss", figures.loss},
              {"first_step_s", figures.first_step_s}};
    if (figures.mfu) line["mfu"] = *figures.mfu;
    std::printf("%s\n", line.dump().c_str());
  } else {
    const std::string mfu = figures.mfu ? fmt::format("  MFU {:.1f} %", *figures.mfu * 100.0) : "";
    fmt::print(
        "{:20s} step {:.1f} ms  {:.0f} tokens/s  {:.3f} TFLOP/s{}  peak {:.2f} GiB  loss {:.3f}  first step after "
        "{:.1f} s\n",
        step_case.name, figures.step_s * 1e3, figures.tokens_per_s, figures.tflops, mfu, figures.peak_gib, figures.loss,
        figures.first_step_s);
  }
  std::fflush(stdout);
}

int bench_step(const Options& options) {
  const auto cases = step_cases();
  for (const std::string& name : options.cases)
    if (std::none_of(cases.begin(), cases.end(), [&](const StepCase& c) { return c.name == name; }))
      throw UsageError("no case \"{}\"; see railyard bench step --help", name);
  std::vector<StepCase> wanted;
  for (const StepCase& step_case : cases) {
    const bool named = std::find(options.cases.begin(), options.cases.end(), step_case.name) != options.cases.end();
    if (named || (options.cases.empty() && step_case.cuda == (options.step.device == "cuda")))
      wanted.push_back(step_case);
  }
  // Each of several in a process of its own: first steps and peaks are then those of a fresh start.
  for (const StepCase& step_case : wanted) {
    if (const pid_t child = wanted.size() > 1 ? ::fork() : 0; child != 0) {
      int status = 0;
      if (child < 0 || ::waitpid(child, &status, 0) != child)
        throw RunError("cannot start a process: {}", std::strerror(errno));
      if (!WIFEXITED(status)) throw RunError("{}: was killed by signal {}", step_case.name, WTERMSIG(status));
      if (WEXITSTATUS(status) != kExitDone) return WEXITSTATUS(status);
      continue;
    }
    print(step_case, options.step, run_step_bench(step_case, options.step), options.json);
    return kExitDone;
  }
  return kExitDone;
}

}  // namespace

std::function<int()> define_bench(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* bench = program.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  CLI::App* step =
      bench->add_subcommand("step", "Whole training steps of well-known shapes on one device, on random tokens");
  std::string names;
  for (const StepCase& step_case : step_cases()) names += " " + step_case.name;
  step->footer(
      "Cases:" + names +
      "\nExamples:\n  railyard bench step --device cuda llama8b-8layer\n  railyard bench step --threads 2 cpu-15m\n");
  step->add_option("CASE", options->cases, "Which shapes; all of the device when none is named");
  step->add_option("--device", options->step.device)->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  step->add_option("--precision", options->step.precision, "fp32 on a CPU, bf16 on a GPU unless named here");
  step->add_option("--fp8-recipe", options->step.fp8_recipe, "Scaling with --precision fp8")
      ->check(CLI::IsMember({"current", "delayed", "block"}))
      ->capture_default_str();
  options->step.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  step->add_option("--threads", options->step.threads, "CPU threads")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  step->add_option("--steps", options->step.steps, "Steps to time")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  step->add_option("--micro-batch", options->step.micro_batch, "Another micro batch; the global batch stays");
  step->add_flag("--json", options->json, "One JSON object a case");
  const auto gemm = define_bench_gemm(*bench), attention = define_bench_attention(*bench),
             comm = define_bench_comm(*bench);
  return [=] {
    if (bench->got_subcommand("gemm")) return gemm();
    if (bench->got_subcommand("attention")) return attention();
    if (bench->got_subcommand("comm")) return comm();
    return bench_step(*options);
  };
}

}  // namespace railyard::launch
