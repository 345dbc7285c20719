// Reads, divides and binds CPUs.
#include "launch/bootstrap/binding.hpp"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

struct FreeTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using TopologyPointer = std::unique_ptr<hwloc_topology, FreeTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using BitmapPointer = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// Processors and memory of this machine only: no devices, which take most of hwloc's time.
TopologyPointer load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw RunError("hwloc does not start: {}", std::strerror(errno));
  TopologyPointer topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) throw RunError("hwloc cannot read this machine: {}", std::strerror(errno));
  return topology;
}

// A node may look empty where a cgroup cut its CPUs away; the nodeset still tells.
int numa_of(hwloc_obj_t object) {
  if (object->nodeset == nullptr || hwloc_bitmap_weight(object->nodeset) != 1) return -1;
  return hwloc_bitmap_first(object->nodeset);
}

}  // namespace

std::vector<Core> allowed_cores() {
  const TopologyPointer topology = load_topology();
  const BitmapPointer allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) != 0 ||
      hwloc_bitmap_iszero(allowed.get()))
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
  std::vector<Core> cores;
  std::map<hwloc_obj_t, std::size_t> known;
  hwloc_obj_t unit = nullptr;
  while ((unit = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PU, unit)) != nullptr) {
    if (hwloc_bitmap_isset(allowed.get(), unit->os_index) == 0) continue;
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_CORE, unit);
    if (core == nullptr) core = unit;
    const auto [at, fresh] = known.try_emplace(core, cores.size());
    if (fresh) cores.push_back({{}, numa_of(core)});
    cores[at->second].cpus.push_back(static_cast<int>(unit->os_index));
  }
  return cores;
}

bool bound_already() {
  const TopologyPointer topology = load_topology();
  const BitmapPointer bound(hwloc_bitmap_alloc());
  return hwloc_get_cpubind(topology.get(), bound.get(), HWLOC_CPUBIND_PROCESS) == 0 &&
         hwloc_bitmap_isincluded(hwloc_topology_get_allowed_cpuset(topology.get()), bound.get()) == 0;
}

std::string cpu_list(const std::vector<Core>& cores) {
  const BitmapPointer bitmap(hwloc_bitmap_alloc());
  for (const Core& core : cores)
    for (const int cpu : core.cpus) hwloc_bitmap_set(bitmap.get(), static_cast<unsigned>(cpu));
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, bitmap.get()) < 0) throw std::bad_alloc();
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  return owned.get();
}

std::vector<Core> share_of(const std::vector<Core>& cores, int index, int count) {
  RAILYARD_CHECK(index >= 0 && index < count, "rank {} of {}", index, count);
  const auto total = static_cast<long>(cores.size());
  if (total < count) return {};
  return {cores.begin() + total * index / count, cores.begin() + total * (index + 1) / count};
}

std::vector<Core> share_near(const std::vector<Core>& cores, int index, const std::vector<std::vector<int>>& near) {
  std::map<std::vector<int>, std::vector<int>> groups;  // near CPUs -> ranks
  for (std::size_t rank = 0; rank < near.size(); ++rank) groups[near[rank]].push_back(static_cast<int>(rank));
  std::map<const Core*, int> users;
  std::vector<Core> mine;
  bool works = true;
  for (const auto& [cpus, ranks] : groups) {
    std::vector<Core> close;
    for (const Core& core : cores) {
      const auto is_near = [&near_cpus = cpus](int cpu) {
        return std::find(near_cpus.begin(), near_cpus.end(), cpu) != near_cpus.end();
      };
      if (std::none_of(core.cpus.begin(), core.cpus.end(), is_near)) continue;
      close.push_back(core);
      works = works && ++users[&core] == 1;
    }
    const auto place = std::find(ranks.begin(), ranks.end(), index);
    works = works && close.size() >= ranks.size();
    if (works && place != ranks.end())
      mine = share_of(close, static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()));
  }
  return works ? mine : share_of(cores, index, static_cast<int>(near.size()));
}

std::optional<std::string> bind_to(const std::vector<Core>& cores) {
  RAILYARD_CHECK(!cores.empty(), "binding to no CPU");
  const TopologyPointer topology = load_topology();
  const BitmapPointer cpus(hwloc_bitmap_alloc());
  for (const Core& core : cores)
    for (const int cpu : core.cpus) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu));
  if (hwloc_set_cpubind(topology.get(), cpus.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return fmt::format("cannot bind to CPUs {}: {}", cpu_list(cores), std::strerror(errno));
  // Preferred, not strict: a full NUMA node then costs speed, not the run.
  if (hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE) > 1 &&
      hwloc_set_membind(topology.get(), cpus.get(), HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_PROCESS) != 0)
    return fmt::format("cannot prefer the memory near CPUs {}: {}", cpu_list(cores), std::strerror(errno));
  return std::nullopt;
}

}  // namespace railyard::launch
