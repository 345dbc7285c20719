// railyard ckpt: dispatch to its subcommands; verify, diff and reshard.
#include "launch/cli/ckpt.hpp"

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "launch/cli/progress.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/store.hpp"
#include "runtime/checkpoint/tools.hpp"

namespace railyard::launch {
namespace {

constexpr int kFindings = 1;  // of verify and diff

struct Options {
  std::string path, other, out, dtype;
  std::int64_t step = -1, other_step = -1, files = 1;
  double tolerance = 0.0;
  bool all = false, weights = false;
};

std::optional<std::int64_t> chosen(std::int64_t step) {
  return step < 0 ? std::nullopt : std::optional<std::int64_t>(step);
}

// Verifies one checkpoint and prints the verdict; the number of faults.
std::size_t verify_one(const std::filesystem::path& folder) {
  std::vector<std::string> faults;
  std::uint64_t bytes = 0;
  try {
    const Manifest manifest = read_manifest(folder);
    bytes = manifest.tensor_bytes();
    Progress progress("verify " + folder.filename().string(), bytes);
    faults = verify_files(folder, manifest, {}, [&](std::uint64_t done) { progress.advance(done); });
  } catch (const Error& error) {
    faults.emplace_back(error.what());
  }
  for (const std::string& fault : faults) fmt::print("{}\n", fault);
  if (faults.empty()) fmt::print("{}: every byte is as it was written ({} bytes of tensors)\n", folder.string(), bytes);
  return faults.size();
}

int verify(const Options& options) {
  if (!options.all) {
    std::filesystem::path folder;
    try {
      folder = locate_checkpoint(options.path, chosen(options.step));
    } catch (const UsageError&) {
      // A folder of damaged ones only is a finding, an empty one is not usable.
      for (const std::filesystem::path& dir :
           {std::filesystem::path(options.path), std::filesystem::path(options.path) / "ckpt"})
        if (const auto steps = list_steps(dir); folder.empty() && !steps.empty())
          folder = step_folder(dir, steps.front());
      if (folder.empty() || options.step >= 0) throw;
    }
    return verify_one(folder) == 0 ? kExitDone : kFindings;
  }
  std::size_t faults = 0, count = 0;
  for (const std::filesystem::path& dir :
       {std::filesystem::path(options.path), std::filesystem::path(options.path) / "ckpt"}) {
    for (const std::int64_t step : list_steps(dir)) {
      faults += verify_one(step_folder(dir, step));
      ++count;
    }
  }
  if (count == 0) throw UsageError("{}: holds no checkpoint", options.path);
  return faults == 0 ? kExitDone : kFindings;
}

int diff(const Options& options) {
  CheckpointReader left(locate_checkpoint(options.path, chosen(options.step)));
  CheckpointReader right(locate_checkpoint(options.other, chosen(options.other_step)));
  std::vector<std::string> lines;
  {
    Progress progress("diff", left.manifest().tensor_bytes());
    lines = diff_checkpoints(left, right, {.tolerance = options.tolerance, .weights_only = options.weights},
                             [&](std::uint64_t bytes) { progress.advance(bytes); });
  }
  for (const std::string& line : lines) fmt::print("{}\n", line);
  if (lines.empty()) fmt::print("the same: {} tensors\n", left.manifest().tensors.size());
  return lines.empty() ? kExitDone : kFindings;
}

int reshard(const Options& options) {
  CheckpointReader reader(locate_checkpoint(options.path, chosen(options.step)));
  ReshardSettings settings{.files = options.files, .dtype = {}, .weights_only = options.weights};
  if (!options.dtype.empty()) settings.dtype = dtype_from_name(options.dtype);
  {
    Progress progress("reshard", reader.manifest().tensor_bytes());
    reshard_checkpoint(reader, options.out, settings, [&](std::uint64_t bytes) { progress.advance(bytes); });
  }
  fmt::print("{}\n", step_folder(options.out, reader.manifest().info.step).string());
  return kExitDone;
}

}  // namespace

std::function<int()> define_ckpt_verify(CLI::App& ckpt) {
  CLI::App* command = ckpt.add_subcommand("verify", "Read a checkpoint whole and compare every checksum.");
  command->footer(
      "Exit: 0 sound, 1 damaged, 2 no checkpoint.\n\n  railyard ckpt verify runs/llama3-8b\n"
      "  railyard ckpt verify --all runs/llama3-8b");
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->path, "A run directory, its ckpt folder, or one step's folder")->required();
  command->add_option("--step", options->step, "The step to verify (default: the newest)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--all", options->all, "Verify every step");
  return [options] { return verify(*options); };
}

std::function<int()> define_ckpt_diff(CLI::App& ckpt) {
  CLI::App* command = ckpt.add_subcommand("diff", "Compare two checkpoints, whatever layouts wrote them.");
  command->footer(
      "Exit: 0 the same, 1 different, 2 unusable.\n\n  railyard ckpt diff runs/a runs/b --weights\n"
      "  railyard ckpt diff runs/a runs/a --step 100 --other-step 200");
  auto options = std::make_shared<Options>();
  command->add_option("LEFT", options->path, "A run directory, its ckpt folder, or one step's folder")->required();
  command->add_option("RIGHT", options->other, "The other one")->required();
  command->add_option("--step", options->step, "The step of LEFT (default: the newest)")->check(CLI::NonNegativeNumber);
  command->add_option("--other-step", options->other_step, "The step of RIGHT")->check(CLI::NonNegativeNumber);
  command->add_option("--tolerance", options->tolerance, "Largest difference that counts as equal (default: none)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--weights", options->weights, "Compare the weights alone");
  return [options] { return diff(*options); };
}

std::function<int()> define_ckpt_reshard(CLI::App& ckpt) {
  CLI::App* command = ckpt.add_subcommand(
      "reshard", "Write a checkpoint anew in so many files. Loading into another layout does not need it.");
  command->footer("  railyard ckpt reshard runs/llama3-8b one-file --weights --dtype bf16");
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->path, "A run directory, its ckpt folder, or one step's folder")->required();
  command->add_option("OUT", options->out, "The folder that gets the step's folder")->required();
  command->add_option("--step", options->step, "The step (default: the newest)")->check(CLI::NonNegativeNumber);
  command->add_option("--files", options->files, "Number of files (default: 1)")->check(CLI::Range(1, 1 << 20));
  command->add_option("--dtype", options->dtype, "Type of the weights (default: as saved)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->add_flag("--weights", options->weights, "Leave out optimizer state and master weights");
  return [options] { return reshard(*options); };
}

std::function<int()> define_ckpt(CLI::App& program) {
  CLI::App* ckpt = program.add_subcommand("ckpt", "Inspect, check, compare, cut, export and import checkpoints.");
  ckpt->require_subcommand(1);
  auto actions = std::make_shared<std::map<std::string, std::function<int()>>>();
  (*actions)["inspect"] = define_ckpt_inspect(*ckpt);
  (*actions)["verify"] = define_ckpt_verify(*ckpt);
  (*actions)["diff"] = define_ckpt_diff(*ckpt);
  (*actions)["reshard"] = define_ckpt_reshard(*ckpt);
  (*actions)["export"] = define_ckpt_export(*ckpt);
  (*actions)["import"] = define_ckpt_import(*ckpt);
  return [ckpt, actions] { return actions->at(ckpt->get_subcommands().front()->get_name())(); };
}

}  // namespace railyard::launch
