// railyard sample: text from a checkpoint of a run.
#include "launch/cli/command_sample.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/store.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/train/sampler.hpp"

namespace railyard::launch {
namespace {

struct Options {
  std::string run_dir, prompt;
  std::int64_t step = -1;
  int threads = 1;
  SampleOptions sample;
};

int sample(const Options& options) {
  const std::filesystem::path run_dir = options.run_dir;
  JobSpec job = JobSpec::from_json(read_json_file(run_dir / "job.json"), (run_dir / "job.json").string());
  const std::filesystem::path dir = run_dir / job.checkpoint.dir;
  std::optional<std::int64_t> step;
  if (options.step >= 0) {
    step = options.step;
  } else {
    SingleProcess alone;
    step =
        latest_valid(dir, alone, [](const std::string& line) { std::fprintf(stderr, "railyard: %s\n", line.c_str()); });
  }
  if (!step) throw UsageError("{}: no valid checkpoint; has the run saved one yet?", dir.string());
  // The checkpoint knows the resolved vocabulary.
  const Manifest manifest = read_manifest(step_folder(dir, *step));
  job = JobSpec::from_json(manifest.info.job, (step_folder(dir, *step) / kManifestName).string());
  const auto tokenizer = data::job_tokenizer(job, {run_dir, manifest.info.state.value("data_root", std::string("."))});
  if (!tokenizer) throw UsageError("{}: the job names no tokenizer; text needs data.tokenizer", run_dir.string());

  std::vector<std::int32_t> prompt;
  tokenizer->encode(options.prompt, prompt, data::SpecialTokens::kRecognised);
  const auto backend = make_cpu_backend({.threads = options.threads});
  LoadedModel model(job, step_folder(dir, *step), *backend);
  std::fputs(options.prompt.c_str(), stdout);
  sample_tokens(model, prompt, options.sample, [&](std::int32_t id) {
    std::string text;
    tokenizer->decode(std::span(&id, 1), text);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  std::fputc('\n', stdout);
  return kExitDone;
}

}  // namespace

std::function<int()> define_sample(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("sample", "Text from a run's checkpoint");
  command->footer(
      "Examples:\n  railyard sample runs/first_train --prompt \"In the beginning\" --tokens 200\n"
      "  railyard sample runs/first_train --prompt \"And \" --step 500 --temperature 0.8 --top-k 40");
  command->add_option("RUN_DIR", options->run_dir, "The run's directory")->required();
  command->add_option("--prompt", options->prompt, "The text to continue")->required();
  command->add_option("--tokens", options->sample.tokens, "How many tokens to add")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--temperature", options->sample.temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", options->sample.top_k, "Draw from the K likeliest tokens, 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", options->sample.seed, "Of the draws")->capture_default_str();
  command->add_option("--step", options->step, "The checkpoint's step, else the newest");
  options->threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command->add_option("--threads", options->threads, "CPU threads")->check(CLI::Range(1, 4096))->capture_default_str();
  return [options] { return sample(*options); };
}

}  // namespace railyard::launch
