// How often the kernel has killed something for want of memory in our control group (cgroup v2 memory.events, v1
// memory.oom_control; kernel documentation, admin-guide/cgroup-v2).
#pragma once

#include <filesystem>
#include <optional>

namespace railyard::launch {

// Kills so far in the group of this process; under Slurm in its job's group ("job_N"), which holds all of its steps on
// this node. Nothing where the kernel does not tell. `root` is / or a copy of its shape in tests.
[[nodiscard]] std::optional<long> oom_kills(const std::filesystem::path& root = "/");

}  // namespace railyard::launch
