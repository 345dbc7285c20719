// railyard ckpt inspect: what a checkpoint holds.
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "launch/cli/ckpt.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/store.hpp"
#include "runtime/checkpoint/tools.hpp"

namespace railyard::launch {
namespace {

struct Options {
  std::string path, match;
  std::int64_t step = -1;
  bool json = false, tensors = false;
};

struct Kind {
  std::size_t tensors = 0;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::size_t> types;
};

// "weights", "exp_avg", ...: what stands before the slash.
std::string kind_of(const std::string& name) { return is_weight(name) ? "weights" : name.substr(0, name.find('/')); }

// Names come from a file: no control character of theirs reaches the terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 32 || byte == 127 ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

std::uint64_t bytes_of(const ManifestTensor& tensor) {
  return static_cast<std::uint64_t>(volume(tensor.shape)) * dtype_size(tensor.dtype);
}

std::map<std::string, Kind> kinds_of(const Manifest& manifest) {
  std::map<std::string, Kind> kinds;
  for (const auto& [name, tensor] : manifest.tensors) {
    Kind& kind = kinds[kind_of(name)];
    ++kind.tensors;
    kind.elements += volume(tensor.shape);
    kind.bytes += bytes_of(tensor);
    ++kind.types[std::string(dtype_name(tensor.dtype))];
  }
  return kinds;
}

int print_json(const std::filesystem::path& folder, const Manifest& manifest) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : manifest.tensors)
    tensors[name] = {{"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"chunks", tensor.chunks.size()}};
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  const CheckpointInfo& info = manifest.info;
  const Json out = {{"schema", 1},
                    {"folder", folder.string()},
                    {"step", info.step},
                    {"consumed_samples", info.consumed_samples},
                    {"consumed_tokens", info.consumed_tokens},
                    {"loss_scale", info.loss_scale},
                    {"data_order", info.data_order},
                    {"job", info.job},
                    {"state", info.state},
                    {"files", files},
                    {"tensors", tensors}};
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
  return kExitDone;
}

int inspect(const Options& options) {
  const std::filesystem::path folder =
      locate_checkpoint(options.path, options.step < 0 ? std::nullopt : std::optional<std::int64_t>(options.step));
  const Manifest manifest = read_manifest(folder);
  if (options.json) return print_json(folder, manifest);
  const CheckpointInfo& info = manifest.info;
  fmt::print("{}\n  step {}, {} samples, {} tokens", folder.string(), info.step, info.consumed_samples,
             info.consumed_tokens);
  if (info.loss_scale != 1.0) fmt::print(", loss scale {}", info.loss_scale);
  std::uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  fmt::print("\n  {} files, {:.3f} GB\n", manifest.files.size(), static_cast<double>(bytes) / 1e9);
  if (info.job.is_object() && info.job.contains("name") && info.job["name"].is_string())
    fmt::print("  job {}\n", printable(info.job["name"].get<std::string>()));
  for (const auto& [name, kind] : kinds_of(manifest)) {
    std::string types;
    for (const auto& [type, count] : kind.types) types += (types.empty() ? "" : ", ") + type;
    fmt::print("  {:<12} {:>6} tensors {:>16} elements {:>10.3f} GB  {}\n", printable(name), kind.tensors,
               kind.elements, static_cast<double>(kind.bytes) / 1e9, types);
  }
  const auto steps = list_steps(folder.parent_path());
  if (steps.size() > 1) {
    fmt::print("  steps beside it:");
    for (const std::int64_t step : steps) fmt::print(" {}", step);
    fmt::print("\n");
  }
  if (!options.tensors && options.match.empty()) return kExitDone;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (name.find(options.match) == std::string::npos) continue;
    fmt::print("{:<56} {:<5} {:<18} {} chunks\n", printable(name), dtype_name(tensor.dtype), shape_text(tensor.shape),
               tensor.chunks.size());
  }
  return kExitDone;
}

}  // namespace

std::function<int()> define_ckpt_inspect(CLI::App& ckpt) {
  CLI::App* command = ckpt.add_subcommand("inspect", "Say what a checkpoint holds.");
  command->footer("  railyard ckpt inspect runs/llama3-8b\n  railyard ckpt inspect runs/llama3-8b --match layers.0.");
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->path, "A run directory, its ckpt folder, or one step's folder")->required();
  command->add_option("--step", options->step, "The step (default: the newest)")->check(CLI::NonNegativeNumber);
  command->add_flag("--tensors", options->tensors, "List all tensors");
  command->add_option("--match", options->match, "List the tensors whose name holds this text");
  command->add_flag("--json", options->json, "As JSON");
  return [options] { return inspect(*options); };
}

}  // namespace railyard::launch
