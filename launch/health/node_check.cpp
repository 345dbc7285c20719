// Gathers a node's facts and judges them.
#include "launch/health/node_check.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "launch/bootstrap/binding.hpp"
#include "launch/bootstrap/bootstrap.hpp"
#include "launch/bootstrap/devices.hpp"
#include "launch/health/nvml.hpp"
#include "launch/health/oom.hpp"
#include "launch/health/speed.hpp"
#include "runtime/base/error.hpp"
#include "topology/sources/sysfs.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kLeastShm = 0.25, kLeastDisk = 0.5;  // GiB
constexpr double kLeastMemlock = 16.0;                // GiB, where there are RDMA devices
constexpr unsigned long long kFewLinkErrors = 1000;   // since the driver was loaded

Json rounded(double value) { return Json(static_cast<double>(static_cast<long long>(value * 100.0 + 0.5)) / 100.0); }

// Free space for us on the file system of `path` or its nearest existing parent; null when unknown.
Json free_gib(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) != 0) return {};
  return rounded(static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize) / kGib);
}

Json memory_gib() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  double kib = 0.0;
  while (file >> name >> kib >> unit)
    if (name == "MemTotal:") return rounded(kib / (1 << 20));
  return {};
}

Json memlock_gib() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return rounded(static_cast<double>(limit.rlim_cur) / kGib);
}

void check_disk(const Json& free, const fs::path& path, const char* word, std::vector<Finding>& findings) {
  if (!free.is_null() && free.get<double>() < kLeastDisk)
    findings.push_back({word, fmt::format("{} has {} GiB free: nothing can be saved there; make room or name another",
                                          path.string(), free.dump())});
}

void check_gpu(const GpuHealth& gpu, std::vector<Finding>& findings) {
  const auto add = [&](const char* word, const std::string& what, bool fatal = false) {
    findings.push_back({word, fmt::format("gpu{} ({}) {}", gpu.index, gpu.name, what), fatal});
  };
  if (gpu.uncorrectable_ecc.value_or(0) > 0)
    add("gpu_ecc", fmt::format("has had {} uncorrectable memory errors: it must be reset", *gpu.uncorrectable_ecc),
        true);
  if (gpu.remap_failed.value_or(false)) add("gpu_remap_failed", "could not remap a bad memory row: replace it", true);
  if (gpu.remap_pending.value_or(false))
    add("gpu_remap_pending", "waits for a reset to remap a bad memory row: drain the node and reset it", true);
  if (gpu.throttle)
    if (const std::string why = throttle_text(*gpu.throttle); !why.empty())
      add("gpu_throttled", fmt::format("is slowed down: {}", why));
  if (gpu.pcie_width && gpu.pcie_width_most && *gpu.pcie_width < *gpu.pcie_width_most)
    add("gpu_pcie", fmt::format("runs on {} of {} PCIe lanes: reseat it", *gpu.pcie_width, *gpu.pcie_width_most));
  if (gpu.nvlinks_up.value_or(0) > 0 && gpu.nvlinks_down.value_or(0) > 0)
    add("gpu_nvlink", fmt::format("has {} NVLinks down ({} up)", *gpu.nvlinks_down, *gpu.nvlinks_up));
  if (gpu.nvlink_errors.value_or(0) > kFewLinkErrors)
    add("gpu_nvlink_errors", fmt::format("counts {} NVLink errors", *gpu.nvlink_errors));
  std::string others;
  for (const unsigned pid : gpu.processes)
    if (pid != static_cast<unsigned>(getpid())) others += (others.empty() ? "" : ", ") + std::to_string(pid);
  if (!others.empty())
    add("gpu_in_use", fmt::format("is computed on by other processes ({}): end them, or ask for --exclusive", others));
}

void check_gpus(const NodeCheckOptions& options, NodeReport& report) {
  const auto gpus = read_gpu_health();
  Json& facts = report.facts;
  facts["gpus"] = facts["gpu_name"] = facts["gpu_memory_gib"] = nullptr;  // unknown without a driver
  if (gpus) {
    facts["gpus"] = gpus->size();
    if (!gpus->empty()) {
      facts["gpu_name"] = gpus->front().name;
      if (const auto memory = gpus->front().memory_bytes)
        facts["gpu_memory_gib"] = rounded(static_cast<double>(*memory) / kGib);
    }
    for (const GpuHealth& gpu : *gpus) check_gpu(gpu, report.findings);
  }
  const int visible = visible_devices().count;
  if (options.gpus_needed > visible)
    report.findings.push_back({"gpus_missing",
                               fmt::format("{} GPUs can be used, {} ranks need one each", visible, options.gpus_needed),
                               true});
}

void check_nics(NodeReport& report) {
  topology::Node node;
  topology::add_sysfs_facts(node);
  int up = 0, rdma = 0;
  double rate = 0.0;
  for (const topology::Nic& nic : node.nics) {
    if (!nic.rdma.value_or(false)) continue;
    ++rdma;
    if (nic.active.value_or(false)) {
      ++up;
      rate += nic.rate_gbps.value_or(0.0);
    } else if (nic.active) {
      report.findings.push_back({"nic_down", fmt::format("no port of {} is up", nic.name)});
    }
  }
  report.facts["nics_up"] = up;
  report.facts["nic_gbps"] = rounded(rate);
  const Json& memlock = report.facts["memlock_gib"];
  if (rdma > 0 && !memlock.is_null() && memlock.get<double>() < kLeastMemlock)
    report.findings.push_back(
        {"memlock",
         fmt::format("only {} GiB may be locked in memory, RDMA needs it unlimited: set "
                     "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf and LimitMEMLOCK=infinity for slurmd",
                     memlock.dump())});
}

}  // namespace

Json NodeReport::to_json() const {
  Json list = Json::array(), sights = Json::array();
  for (const Finding& each : findings)
    list.push_back({{"word", each.word}, {"text", each.text}, {"fatal", each.fatal}});
  for (const RankSight& each : ranks) sights.push_back(each.to_json());
  return Json{{"node", node}, {"facts", facts}, {"findings", list}, {"ranks", sights}};
}

NodeReport NodeReport::from_json(const Json& json) {
  NodeReport report;
  try {
    report.node = json.at("node").get<std::string>();
    report.facts = json.at("facts");
    for (const Json& each : json.at("findings"))
      report.findings.push_back(
          {each.at("word").get<std::string>(), each.at("text").get<std::string>(), each.at("fatal").get<bool>()});
    for (const Json& each : json.at("ranks")) report.ranks.push_back(RankSight::from_json(each));
  } catch (const nlohmann::json::exception& error) {
    throw UsageError("not a node's report: {}", error.what());
  }
  return report;
}

NodeReport check_this_node(const NodeCheckOptions& options) {
  NodeReport report;
  report.node = host_name();
  Json& facts = report.facts;
  const auto cores = allowed_cores();
  facts["cpus"] = cores.size();
  facts["memory_gib"] = memory_gib();
  facts["memlock_gib"] = memlock_gib();
  facts["shm_free_gib"] = free_gib("/dev/shm");
  const char* scratch = std::getenv("TMPDIR");
  const fs::path scratch_path = scratch != nullptr && *scratch != '\0' ? scratch : "/tmp";
  facts["scratch_free_gib"] = free_gib(scratch_path);
  check_disk(facts["scratch_free_gib"], scratch_path, "scratch_full", report.findings);
  if (!facts["shm_free_gib"].is_null() && facts["shm_free_gib"].get<double>() < kLeastShm)
    report.findings.push_back(
        {"shm_full", fmt::format("/dev/shm has {} GiB free: ranks of a node exchange data there; remove what dead "
                                 "programs left, or give the container more (--shm-size)",
                                 facts["shm_free_gib"].dump())});
  if (!options.run_dir.empty()) {
    facts["run_free_gib"] = free_gib(options.run_dir);
    check_disk(facts["run_free_gib"], options.run_dir, "run_dir_full", report.findings);
    report.ranks = look_at_ranks(options.run_dir);
    remove_dead_activities(options.run_dir);
  }
  if (const auto kills = oom_kills()) facts["oom_kills"] = *kills;
  check_gpus(options, report);
  check_nics(report);
  if (options.speed) {
    facts["gflops_per_core"] = rounded(core_speed() * 1e-9);
    if (options.gpus_needed > 0) facts["gpu_tflops"] = gpu_speeds(options.gpus_needed);
  }
  return report;
}

}  // namespace railyard::launch
