// Opens a run's directory and keeps its files.
#include "launch/run_directory.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

// Prefixes of the settings that decide what a run computes. data.cache is only where indices are kept.
constexpr std::array<std::string_view, 5> kFixed = {"model.", "data.", "train.seed", "train.global_batch",
                                                    "train.rampup_batch"};
constexpr std::array<std::string_view, 1> kFree = {"data.cache"};

bool starts_with_any(std::string_view path, const auto& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return path.starts_with(prefix); });
}

void compare(const Json& before, const Json& now, const std::string& path, std::vector<std::string>& changes) {
  if (before == now) return;
  if (before.is_object() && now.is_object()) {
    std::set<std::string> keys;
    for (const auto& [key, value] : before.items()) keys.insert(key);
    for (const auto& [key, value] : now.items()) keys.insert(key);
    for (const auto& key : keys)
      compare(before.value(key, Json()), now.value(key, Json()), path.empty() ? key : path + "." + key, changes);
    return;
  }
  if (starts_with_any(path + ".", kFixed) || starts_with_any(path, kFixed)) {
    if (!starts_with_any(path, kFree)) changes.push_back(fmt::format("{}: {} -> {}", path, before.dump(), now.dump()));
  }
}

// Whether anything would be lost or mixed up by training something else here.
bool has_trained(const fs::path& path) {
  std::error_code ignored;
  if (fs::file_size(path / "metrics.jsonl", ignored) > 0 && !ignored) return true;
  return fs::is_directory(path / "ckpt", ignored) && !fs::is_empty(path / "ckpt", ignored);
}

int highest_start(const fs::path& path) {
  int highest = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view prefix = "placement-";
    if (!name.starts_with(prefix) || !name.ends_with(".json")) continue;
    int number = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    highest = std::max(highest, number);
  }
  return highest;
}

}  // namespace

fs::path choose_run_directory(const std::optional<std::string>& option, const std::string& name,
                              std::optional<long> array_task, const fs::path& folder) {
  if (option) {
    if (option->empty()) throw UsageError("--run-dir: an empty name");
    return fs::absolute(folder / *option).lexically_normal();
  }
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    throw UsageError("the job's name \"{}\" cannot name its run directory; change `name`, or give --run-dir", name);
  const std::string leaf = array_task ? fmt::format("{}-{}", name, *array_task) : name;
  return fs::absolute(folder / "runs" / leaf).lexically_normal();
}

std::vector<std::string> incompatible_changes(const Json& before, const Json& now) {
  std::vector<std::string> changes;
  compare(before, now, "", changes);
  return changes;
}

RunDirectory::RunDirectory(fs::path path, const Json& job, const std::string& job_text) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_ / "log", error);
  if (!error) fs::create_directories(path_ / "ckpt", error);
  if (error)
    throw UsageError("{}: the run directory cannot be made: {}; choose a writable one with --run-dir", path_.string(),
                     error.message());
  lock_ = std::make_unique<RunLock>(path_ / "lock");
  const fs::path resolved = path_ / "job.json";
  if (fs::exists(resolved) && has_trained(path_)) {
    const auto changes = incompatible_changes(read_json_file(resolved), job);
    if (!changes.empty()) {
      std::string list;
      for (const auto& change : changes) list += "\n  " + change;
      throw UsageError(
          "{}: the run in this directory was started with another model, data, seed or batch:{}\n"
          "undo the change, or start a new run in another directory (--run-dir, or another `name`)",
          path_.string(), list);
    }
  }
  try {
    write_file_atomic(path_ / "job.lua", job_text);
    write_file_atomic(resolved, job.dump(2) + "\n");
  } catch (const RunError& problem) {
    throw UsageError("{}; choose a writable run directory with --run-dir", problem.what());
  }
  start_ = highest_start(path_) + 1;
}

int RunDirectory::next_start() { return ++start_; }

void RunDirectory::write_placement(const Json& placement) const {
  write_file_atomic(path_ / fmt::format("placement-{}.json", start_), placement.dump(1) + "\n");
}

}  // namespace railyard::launch
