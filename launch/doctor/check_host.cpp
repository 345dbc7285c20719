// Checks of the host: CPUs, limits and memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launch/doctor/doctor.hpp"

namespace railyard::launch {
namespace {

constexpr long kMebibyte = 1L << 20;

std::string bytes_text(long bytes) {
  if (bytes >= 1024 * kMebibyte) return fmt::format("{:.3g} GiB", static_cast<double>(bytes) / (1024.0 * kMebibyte));
  if (bytes >= kMebibyte) return fmt::format("{:.3g} MiB", static_cast<double>(bytes) / kMebibyte);
  return fmt::format("{:.3g} KiB", static_cast<double>(bytes) / 1024);
}

bool has_rdma(const DoctorFacts& facts) {
  return std::any_of(facts.node.nics.begin(), facts.node.nics.end(),
                     [](const topology::Nic& nic) { return nic.rdma == true; });
}

// Advice that reaches Slurm's tasks, too: they have the limits of slurmd or of the submitting shell.
constexpr const char* kLimitRemedy =
    "in /etc/security/limits.d, and for Slurm in slurmd's unit (LimitMEMLOCK, LimitNOFILE, LimitSTACK) with "
    "PropagateResourceLimitsExcept";

}  // namespace

void check_affinity(const DoctorFacts& facts, Findings& findings) {
  if (!facts.allowed) return;
  int halved = 0;
  for (const Core& core : facts.cores) {
    const auto inside =
        std::count_if(core.cpus.begin(), core.cpus.end(), [&](int cpu) { return facts.allowed->contains(cpu); });
    halved += inside > 0 && static_cast<std::size_t>(inside) < core.cpus.size() ? 1 : 0;
  }
  if (halved > 0)
    findings.push_back({"",
                        fmt::format("of {} cores this process may use one hardware thread only, not both: mpirun "
                                    "refuses to bind to such cores",
                                    halved),
                        "ask for whole cores (--exclusive, or --threads-per-core with an even --cpus-per-task)"});
  std::vector<std::string> far;
  for (const topology::Gpu& gpu : facts.node.gpus)
    if (gpu.cpus && (*gpu.cpus & *facts.allowed).empty()) far.push_back(std::to_string(gpu.index));
  if (!far.empty())
    findings.push_back({"",
                        fmt::format("none of the CPUs near GPU {} may be used (allowed: {})", fmt::join(far, ","),
                                    facts.allowed->list()),
                        "ask for whole nodes (--exclusive) or CPUs of both sockets, and start with --cpu-bind=none"});
  if (facts.allowed->count() == 1 && facts.online && facts.online->count() > 1)
    findings.push_back(
        {"", fmt::format("this process may use one CPU of {} (CPU {})", facts.online->count(), facts.allowed->list()),
         "ask for more: --cpus-per-task, or mpirun --bind-to none"});
}

void check_openmp(const DoctorFacts& facts, Findings& findings) {
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    const std::string value = facts.variable(name);
    if (value.empty() || value == "false" || value == "FALSE" || value == "none" || value == "disabled") continue;
    findings.push_back(
        {"", fmt::format("{}={} pins threads by itself: ranks of one node may all sit on the same cores", name, value),
         "unset it: railyard binds each rank to cores of its own"});
  }
}

void check_memlock(const DoctorFacts& facts, Findings& findings) {
  if (!facts.memlock || !has_rdma(facts) || facts.memlock->soft == ProcessLimit::kUnlimited) return;
  constexpr long kEnough = 64L << 30;
  if (facts.memlock->soft < kEnough)
    findings.push_back({"",
                        fmt::format("locked memory is limited to {}: RDMA cannot register its buffers",
                                    bytes_text(facts.memlock->soft)),
                        fmt::format("memlock unlimited {}", kLimitRemedy)});
}

void check_open_files(const DoctorFacts& facts, Findings& findings) {
  constexpr long kEnough = 4096;  // a connection per peer and NCCL's files for a few hundred ranks
  if (!facts.nofile || facts.nofile->soft == ProcessLimit::kUnlimited) return;
  // We raise the soft limit to the hard one ourselves.
  if (facts.nofile->hard != ProcessLimit::kUnlimited && facts.nofile->hard < kEnough)
    findings.push_back(
        {"", fmt::format("at most {} files can be open: runs of a few hundred ranks need more", facts.nofile->hard),
         fmt::format("nofile 65536 {}", kLimitRemedy)});
}

void check_stack(const DoctorFacts& facts, Findings& findings) {
  if (facts.stack && facts.stack->soft != ProcessLimit::kUnlimited && facts.stack->soft < 2 * kMebibyte)
    findings.push_back(
        {"",
         fmt::format("the stack is limited to {}: threads of MPI and NCCL may crash", bytes_text(facts.stack->soft)),
         fmt::format("stack 8192 (KiB) {}", kLimitRemedy)});
}

void check_shm(const DoctorFacts& facts, Findings& findings) {
  if (!facts.shm_bytes) return;
  constexpr long kEnough = 1L << 30;
  if (*facts.shm_bytes < kEnough)
    findings.push_back({"",
                        fmt::format("/dev/shm has {}: NCCL and MPI exchange data of a node's ranks there and fail when "
                                    "it is full",
                                    bytes_text(*facts.shm_bytes)),
                        "docker run --shm-size=16g (or --ipc=host); else mount -o remount,size=50% /dev/shm"});
}

void check_huge_pages(const DoctorFacts& facts, Findings& findings) {
  if (facts.memory_bytes && facts.reserved_huge_bytes && *facts.reserved_huge_bytes * 10 > *facts.memory_bytes)
    findings.push_back({"",
                        fmt::format("{} of {} of memory are reserved as huge pages, which training does not use",
                                    bytes_text(*facts.reserved_huge_bytes), bytes_text(*facts.memory_bytes)),
                        "sysctl vm.nr_hugepages=0, unless another program of this host needs them"});
  if (facts.transparent_huge_pages == "never")
    findings.push_back({"", "transparent huge pages are off: training on CPUs is slower",
                        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
}

void check_numa_balancing(const DoctorFacts& facts, Findings& findings) {
  if (facts.numa_balancing == true && facts.devices.on_node > 0)
    findings.push_back({"", "the kernel moves pages between NUMA nodes (numa_balancing = 1), which stalls GPU runs",
                        "sysctl kernel.numa_balancing=0: ranks are bound to the memory near their GPUs"});
}

}  // namespace railyard::launch
