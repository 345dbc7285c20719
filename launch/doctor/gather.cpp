// Gathers the facts of this machine: limits, memory, libraries and starters. Its network is gather_network.cpp's.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launch/bootstrap/bootstrap.hpp"
#include "launch/doctor/gather_network.hpp"
#include "launch/local/mpirun.hpp"
#include "runtime/base/error.hpp"
#include "topology/sources/nvml.hpp"
#include "topology/sources/source.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
constexpr double kPatience = 10.0;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<ProcessLimit> limit_of(__rlimit_resource which) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0) return std::nullopt;
  const auto value = [](rlim_t raw) {
    return raw == RLIM_INFINITY || raw > static_cast<rlim_t>(1) << 62 ? ProcessLimit::kUnlimited
                                                                      : static_cast<long>(raw);
  };
  return ProcessLimit{value(limit.rlim_cur), value(limit.rlim_max)};
}

// Why a part of ours cannot be loaded; empty: it can, or it was not built.
std::string part_problem(const char* name, void** loaded = nullptr) {
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& place : {beside / name, beside.parent_path() / "lib/railyard" / name}) {
    if (!fs::exists(place, ignored)) continue;
    void* library = dlopen(place.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    if (loaded != nullptr) *loaded = library;
    return {};
  }
  return {};
}

void gather_devices(DoctorFacts& facts) {
  facts.devices = visible_devices();
  if (facts.devices.on_node > 0) {
    const topology::NvmlStatus nvml = topology::nvml_status();
    facts.nvml_problem = nvml.problem;
    facts.driver = nvml.driver;
    facts.driver_cuda = nvml.cuda;
    for (const topology::Gpu& gpu : topology::read_nvml_identities())
      facts.openable.push_back({gpu.uuid.value_or(""), gpu.pci ? gpu.pci->text() : "", gpu.partition.has_value()});
    std::error_code ignored;
    facts.uvm = fs::exists("/dev/nvidia-uvm", ignored);
    facts.peer_memory =
        fs::exists("/sys/module/nvidia_peermem", ignored) || fs::exists("/sys/module/nv_peer_mem", ignored);
    void* part = nullptr;
    facts.cuda_part_problem = part_problem("librailyard_cuda.so", &part);
    if (part != nullptr)
      if (const auto version = reinterpret_cast<int (*)(int*)>(dlsym(part, "cudaRuntimeGetVersion")))
        version(&facts.runtime_cuda);
  }
}

void gather_host(DoctorFacts& facts) {
  facts.allowed = topology::CpuSet::parse_list(cpu_list(allowed_cores()));
  facts.online = topology::CpuSet::parse_list(first_line("/sys/devices/system/cpu/online"));
  if (facts.online)
    for (const int cpu : facts.online->members()) {
      const auto siblings = topology::CpuSet::parse_list(
          first_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)));
      if (siblings && !siblings->empty() && siblings->members().front() == cpu)
        facts.cores.push_back({siblings->members(), -1});
    }
  facts.memlock = limit_of(RLIMIT_MEMLOCK);
  facts.nofile = limit_of(RLIMIT_NOFILE);
  facts.stack = limit_of(RLIMIT_STACK);
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) facts.shm_bytes = static_cast<long>(shm.f_blocks * shm.f_frsize);
  std::ifstream memory("/proc/meminfo");
  std::optional<long> pages, page_bytes;
  for (std::string line; std::getline(memory, line);) {
    std::istringstream words(line);
    std::string key;
    long value = 0;
    words >> key >> value;
    if (key == "MemTotal:") facts.memory_bytes = value * 1024;
    if (key == "HugePages_Total:") pages = value;
    if (key == "Hugepagesize:") page_bytes = value * 1024;
  }
  if (pages && page_bytes) facts.reserved_huge_bytes = *pages * *page_bytes;
  // "always [madvise] never"
  const std::string choice = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (const auto open = choice.find('['), close = choice.find(']'); close != std::string::npos && open < close)
    facts.transparent_huge_pages = choice.substr(open + 1, close - open - 1);
  if (const std::string balancing = first_line("/proc/sys/kernel/numa_balancing"); !balancing.empty())
    facts.numa_balancing = balancing != "0";
}

// A PMIx server names its process in "NAMESPACE;tcp4://ADDRESS:PORT"; where its files lie is in PMIX_SERVER_TMPDIR, and
// it takes them with it.
void gather_pmix_server(DoctorFacts& facts) {
  std::error_code ignored;
  if (const std::string folder = facts.variable("PMIX_SERVER_TMPDIR"); !folder.empty())
    facts.pmix_server_there = fs::exists(folder, ignored);
}

void gather_starters(DoctorFacts& facts) {
  if (find_program("mpirun") || find_program("mpiexec")) {
    try {
      facts.mpirun = find_mpirun().version;
    } catch (const UsageError& error) {
      facts.mpirun_problem = error.what();
    }
  }
  facts.mpi_part_problem = part_problem("librailyard_mpi.so");
  facts.pmix_part_problem = part_problem("librailyard_pmix.so");
  facts.srun = find_program("srun").has_value();
  facts.scontrol = find_program("scontrol").has_value();
  if (!facts.srun) return;
  facts.srun_version = run_command({"srun", "--version"}, kPatience).output;
  const auto list = run_command({"srun", "--mpi=list"}, kPatience);
  facts.srun_mpi = list.output + list.errors;
}

}  // namespace

DoctorFacts gather_doctor_facts() {
  DoctorFacts facts;
  facts.host = host_name();
  facts.environment = current_environment();
  facts.node = topology::read_live_node();
  gather_devices(facts);
  gather_host(facts);
  gather_pmix_server(facts);
  gather_starters(facts);
  gather_network(facts);
  return facts;
}

}  // namespace railyard::launch
