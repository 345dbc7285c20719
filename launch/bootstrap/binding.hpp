// Which CPUs a rank may use, and binding it and its memory to them (hwloc).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace railyard::launch {

// A core with the logical CPUs (PUs) of it that this process may use, and its NUMA node (-1: unknown).
struct Core {
  std::vector<int> cpus;
  int numa = -1;
};

// Cores that this process may use, neighbours next to each other: what the cgroup and the starter's binding left.
[[nodiscard]] std::vector<Core> allowed_cores();

// This process is bound to fewer CPUs than its cgroup allows.
[[nodiscard]] bool bound_already();

// "0-3,8" for the CPUs of some cores.
[[nodiscard]] std::string cpu_list(const std::vector<Core>& cores);

// The share of rank `index` of `count` that divide `cores` among them: contiguous, sizes equal to within one. When
// there are fewer cores than ranks nobody can have one alone: the answer is empty, and the rank stays unbound.
[[nodiscard]] std::vector<Core> share_of(const std::vector<Core>& cores, int index, int count);

// The same for ranks with devices: `near` gives for each rank the CPUs near its device (empty: unknown). Ranks with the
// same near CPUs divide those. Where that does not work out for all of them (unknown, overlapping or too few), all
// divide `cores` in their order.
[[nodiscard]] std::vector<Core> share_near(const std::vector<Core>& cores, int index,
                                           const std::vector<std::vector<int>>& near);

// Binds this process (all its threads to come) and prefers memory of the same NUMA nodes. Returns what could not be
// done, for a note; nothing when all was. An empty list is a broken invariant.
[[nodiscard]] std::optional<std::string> bind_to(const std::vector<Core>& cores);

}  // namespace railyard::launch
