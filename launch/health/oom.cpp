// Finds our control group and reads its counter.
#include "launch/health/oom.hpp"

#include <fstream>
#include <sstream>
#include <string>

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

std::optional<long> counter(const fs::path& file) {
  std::ifstream stream(file);
  std::string name;
  long value = 0;
  while (stream >> name >> value)
    if (name == "oom_kill") return value;
  return std::nullopt;
}

// The job's group above a step's; the group itself where there is none.
fs::path job_group(const fs::path& group) {
  for (fs::path at = group; at.has_relative_path() && at != at.parent_path(); at = at.parent_path())
    if (at.filename().string().starts_with("job_")) return at;
  return group;
}

// Version 1 does not add up children.
long sum_below(const fs::path& group) {
  long sum = counter(group / "memory.oom_control").value_or(0);
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(group, ignored))
    if (entry.is_directory(ignored)) sum += counter(entry.path() / "memory.oom_control").value_or(0);
  return sum;
}

}  // namespace

std::optional<long> oom_kills(const fs::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  std::optional<long> kills;
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" is version 2, "4:memory:/path" version 1.
    std::istringstream parts(line);
    std::string number, controllers, path;
    std::getline(parts, number, ':');
    std::getline(parts, controllers, ':');
    std::getline(parts, path);
    const fs::path relative = job_group(path).relative_path();
    if (controllers.empty()) {
      if (const auto count = counter(root / "sys/fs/cgroup" / relative / "memory.events")) return count;
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      const fs::path group = root / "sys/fs/cgroup/memory" / relative;
      if (counter(group / "memory.oom_control")) kills = sum_below(group);
    }
  }
  return kills;
}

}  // namespace railyard::launch
