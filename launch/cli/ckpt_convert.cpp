// railyard ckpt export and import: other programs' checkpoints.
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "launch/cli/ckpt.hpp"
#include "launch/cli/progress.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/hf/convert.hpp"
#include "runtime/checkpoint/megatron/import.hpp"
#include "runtime/checkpoint/store.hpp"
#include "runtime/checkpoint/tools.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;

// What belongs to a tokenizer in a Hugging Face folder.
constexpr std::array kTokenizerFiles = {
    "tokenizer.json", "tokenizer_config.json",  "special_tokens_map.json", "tokenizer.model", "vocab.json",
    "merges.txt",     "generation_config.json", "chat_template.jinja"};

struct ExportOptions {
  std::string path, out, dtype, tokenizer;
  std::int64_t step = -1;
  std::uint64_t shard_bytes = ExportSettings{}.shard_bytes;
};

struct ImportOptions {
  std::string source, out;
  bool hf = false, megatron = false, weights = false;
  std::int64_t vocab = 0;
};

// Shows a bar once the size of the work is known.
ConvertProgress bar(const std::string& label, std::unique_ptr<Progress>& progress) {
  return [label, &progress](std::uint64_t done, std::uint64_t total) {
    if (!progress) progress = std::make_unique<Progress>(label, total);
    progress->advance(done);
  };
}

void copy_tokenizer(const fs::path& from, const fs::path& to) {
  std::error_code error;
  int copied = 0;
  for (const char* name : kTokenizerFiles) {
    if (!fs::exists(from / name, error)) continue;
    fs::copy_file(from / name, to / name, error);
    if (error) throw RunError("{}: cannot copy to {}: {}", (from / name).string(), to.string(), error.message());
    ++copied;
  }
  if (copied == 0) throw UsageError("--tokenizer {}: holds no tokenizer files", from.string());
}

int export_checkpoint(const ExportOptions& options) {
  std::error_code error;
  if (!options.tokenizer.empty() && !fs::is_directory(options.tokenizer, error))
    throw UsageError("--tokenizer {}: no such folder", options.tokenizer);
  CheckpointReader reader(
      locate_checkpoint(options.path, options.step < 0 ? std::nullopt : std::optional<std::int64_t>(options.step)));
  ExportSettings settings;
  settings.shard_bytes = options.shard_bytes;
  if (!options.dtype.empty()) settings.dtype = dtype_from_name(options.dtype);
  std::unique_ptr<Progress> progress;
  const HfModel model = export_hf(reader, options.out, settings, bar("export", progress));
  progress.reset();
  if (!options.tokenizer.empty()) copy_tokenizer(options.tokenizer, options.out);
  fmt::print("{}: {} of step {}\n", options.out, model.architecture, reader.manifest().info.step);
  return kExitDone;
}

void write_job(const ImportOptions& options, const ModelSpec& model) {
  std::error_code error;
  const fs::path tokenizer = fs::absolute(options.source) / "tokenizer.json";
  const fs::path job = fs::path(options.out) / "job.lua";
  const fs::path source = fs::absolute(options.source).lexically_normal();
  const fs::path name = source.has_filename() ? source.filename() : source.parent_path().filename();
  write_file_atomic(job, job_file_text(name.string(), model, fs::absolute(options.out).string(),
                                       fs::exists(tokenizer, error) ? tokenizer.string() : ""));
  fmt::print("{}: a job that trains on from it\n", job.string());
}

int import_from_hf(const ImportOptions& options) {
  std::unique_ptr<Progress> progress;
  const ImportedModel imported = import_hf(options.source, options.out, bar("import", progress));
  progress.reset();
  const fs::path folder = step_folder(options.out, 0);
  fmt::print("{}: {}, {} tensors, {:.3f} GB\n", folder.string(), imported.model.architecture, imported.tensors,
             static_cast<double>(imported.bytes) / 1e9);
  if (!imported.ignored.empty())
    fmt::print("left out, as they hold nothing learnt or are doubled: {} (and {} more)\n", imported.ignored.front(),
               imported.ignored.size() - 1);
  if (!imported.model.spec) {
    fmt::print("training it is not built yet ({}); it can be inspected and exported\n", imported.model.not_built);
    return kExitDone;
  }
  write_job(options, *imported.model.spec);
  return kExitDone;
}

int import_from_megatron(const ImportOptions& options) {
  std::unique_ptr<Progress> progress;
  MegatronSettings settings;
  if (options.vocab > 0) settings.vocab = options.vocab;
  settings.weights_only = options.weights;
  const ImportedMegatron imported = import_megatron(options.source, options.out, settings, bar("import", progress));
  progress.reset();
  fmt::print("{}: {} tensors, {:.3f} GB, {} samples consumed, {}\n", step_folder(options.out, imported.step).string(),
             imported.tensors, static_cast<double>(imported.bytes) / 1e9, imported.consumed_samples,
             imported.with_optimizer ? "with the optimizer's state" : "weights alone");
  if (imported.padded_vocab != imported.model.vocab)
    fmt::print("vocabulary cut from {} padded rows to {}\n", imported.padded_vocab, imported.model.vocab);
  write_job(options, imported.model);
  return kExitDone;
}

int import_checkpoint(const ImportOptions& options) {
  std::error_code error;
  if (!fs::is_directory(options.source, error)) throw UsageError("{}: no such folder", options.source);
  const bool has_config = fs::exists(fs::path(options.source) / "config.json", error);
  if (!list_steps(options.out).empty())
    throw UsageError("{}: holds checkpoints already; give another folder", options.out);
  if (options.megatron || (!options.hf && !has_config)) return import_from_megatron(options);
  return import_from_hf(options);
}

}  // namespace

std::function<int()> define_ckpt_export(CLI::App& ckpt) {
  CLI::App* command = ckpt.add_subcommand("export", "Write weights as Hugging Face transformers reads them.");
  command->footer("  railyard ckpt export runs/llama3-8b --hf llama3-8b-hf --tokenizer /models/llama3");
  auto options = std::make_shared<ExportOptions>();
  command->add_option("PATH", options->path, "A run directory, its ckpt folder, or one step's folder")->required();
  command->add_option("--hf", options->out, "The new folder for config.json and model.safetensors")->required();
  command->add_option("--step", options->step, "The step (default: the newest)")->check(CLI::NonNegativeNumber);
  command->add_option("--dtype", options->dtype, "Type of the weights (default: as saved)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->add_option("--tokenizer", options->tokenizer, "A folder whose tokenizer files are copied");
  command->add_option("--shard-size", options->shard_bytes, "Largest file, such as 5GB (default: 5GB)")
      ->transform(CLI::AsSizeValue(false));
  return [options] { return export_checkpoint(*options); };
}

std::function<int()> define_ckpt_import(CLI::App& ckpt) {
  CLI::App* command =
      ckpt.add_subcommand("import", "Make a checkpoint of another program's weights, and a job for it.");
  command->footer(
      "  railyard ckpt import --hf /models/llama3-8b imported\n"
      "  railyard ckpt import --megatron /runs/gpt/checkpoints imported --vocab 50257\n"
      "  railyard run imported/job.lua");
  auto options = std::make_shared<ImportOptions>();
  command->add_option("SOURCE", options->source, "A Hugging Face folder, or a Megatron-Core one (torch_dist)")
      ->required();
  command->add_option("OUT", options->out, "The new folder for the checkpoint and job.lua")->required();
  CLI::Option* hf = command->add_flag("--hf", options->hf, "SOURCE is a Hugging Face checkpoint");
  command->add_flag("--megatron", options->megatron, "SOURCE is a Megatron-Core checkpoint")->excludes(hf);
  command->add_option("--vocab", options->vocab, "Megatron: tokens of the vocabulary without its padding")
      ->check(CLI::PositiveNumber);
  command->add_flag("--weights", options->weights, "Megatron: without the optimizer's state");
  return [options] { return import_checkpoint(*options); };
}

}  // namespace railyard::launch
