// Checks of GPUs: who sees which, and whether driver and libraries fit.
#include <fmt/format.h>

#include <algorithm>

#include "launch/doctor/doctor.hpp"

namespace railyard::launch {
namespace {

std::string cuda_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

void check_device_mask(const DoctorFacts& facts, Findings& findings) {
  if (!facts.devices.masked || facts.devices.on_node == 0) return;
  const std::string& mask = facts.devices.mask;
  if (mask.empty()) {
    findings.push_back({"", "CUDA_VISIBLE_DEVICES is set, but empty: no GPU is visible",
                        "unset it, or ask Slurm for GPUs (--gpus-per-node)"});
    return;
  }
  const auto entries = static_cast<std::size_t>(std::count(mask.begin(), mask.end(), ',')) + 1;
  if (facts.openable.empty()) return;
  const auto shown = shown_by_mask(facts.openable, mask).size();
  if (shown < entries)
    findings.push_back(
        {"",
         fmt::format("CUDA_VISIBLE_DEVICES={} names {} devices, but only {} of the {} here: CUDA ignores an entry that "
                     "names nothing, and all after it",
                     mask, entries, shown, facts.openable.size()),
         "unset it: railyard picks GPUs by UUID; under Slurm let --gpus-per-node set it"});
}

void check_device_cgroup(const DoctorFacts& facts, Findings& findings) {
  const auto& devices = facts.devices;
  if (devices.on_node > 0 && devices.openable < devices.on_node)
    findings.push_back({"",
                        fmt::format("{} of {} GPUs cannot be opened (a device cgroup, or a container without them)",
                                    devices.on_node - devices.openable, devices.on_node),
                        devices.openable == 0
                            ? "ask Slurm for GPUs (--gpus-per-node), or start the container with them (--nv, --gpus)"
                            : "fine where the others belong to other jobs; ranks of one job lose NVLink and P2P: ask "
                              "for --gpus-per-node without --gpus-per-task"});
  if (devices.openable > 0 && facts.uvm == false)
    findings.push_back({"", "/dev/nvidia-uvm is missing: CUDA cannot start",
                        "load the module (nvidia-modprobe -u -c 0), or pass the device on to the container",
                        Finding::Severity::kUnusable});
}

void check_local_rank(const DoctorFacts& facts, Findings& findings) {
  const std::string local = facts.variable("SLURM_LOCALID");
  const std::string mine = local.empty() ? facts.variable("OMPI_COMM_WORLD_LOCAL_RANK") : local;
  if (mine.empty() || mine.size() > 6 ||
      !std::all_of(mine.begin(), mine.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return;
  const int rank = std::stoi(mine);
  if (facts.devices.count > 0 && rank >= facts.devices.count)
    findings.push_back(
        {"",
         fmt::format("local rank {} sees {} GPU{}: programs that take the local rank for a device number fail with "
                     "\"invalid device ordinal\"",
                     rank, facts.devices.count, facts.devices.count == 1 ? "" : "s"),
         "railyard is not affected unless ranks outnumber GPUs; for other programs drop --gpus-per-task, or use device "
         "0 in each"});
}

void check_nvml(const DoctorFacts& facts, Findings& findings) {
  if (facts.devices.on_node == 0 || facts.nvml_problem.empty()) return;
  const bool mismatch = facts.nvml_problem.find("mismatch") != std::string::npos;
  findings.push_back({"", fmt::format("NVML does not answer ({})", facts.nvml_problem),
                      mismatch ? "the driver was updated under a running kernel module: reboot the node, or reload the "
                                 "nvidia modules"
                               : "install the driver's libnvidia-ml.so.1 (in a container: --nv, --gpus); without it "
                                 "NVLink and UUIDs are unknown",
                      mismatch ? Finding::Severity::kUnusable : Finding::Severity::kWarning});
}

void check_cuda_versions(const DoctorFacts& facts, Findings& findings) {
  if (facts.devices.on_node == 0) return;
  if (!facts.cuda_part_problem.empty())
    findings.push_back({"", fmt::format("librailyard_cuda.so cannot be used: {}", facts.cuda_part_problem),
                        "load the CUDA module that it was built with, or build again (./yard build cuda)"});
  if (facts.driver_cuda > 0 && facts.runtime_cuda > facts.driver_cuda)
    findings.push_back(
        {"",
         fmt::format("the driver ({}) knows CUDA {}, the runtime is {}", facts.driver.empty() ? "?" : facts.driver,
                     cuda_text(facts.driver_cuda), cuda_text(facts.runtime_cuda)),
         fmt::format("update the driver, or load CUDA {} (within one major version it works, with new features "
                     "missing; on data center GPUs cuda-compat helps)",
                     cuda_text(facts.driver_cuda)),
         facts.runtime_cuda / 1000 > facts.driver_cuda / 1000 ? Finding::Severity::kUnusable
                                                              : Finding::Severity::kWarning});
}

void check_peer_to_peer(const DoctorFacts& facts, Findings& findings) {
  const auto found = [&](const std::string& what, const std::string& lost) {
    findings.push_back({"", what + ": " + lost, "unset it; it is often left over from a test"});
  };
  if (const auto level = facts.variable("NCCL_P2P_LEVEL"); level == "LOC" || level == "0")
    found("NCCL_P2P_LEVEL=" + level, "NCCL uses neither NVLink nor P2P");
  for (const auto& [name, lost] :
       std::map<std::string, std::string>{{"NCCL_P2P_DISABLE", "NCCL uses neither NVLink nor P2P"},
                                          {"NCCL_SHM_DISABLE", "ranks of a node talk through the network"},
                                          {"NCCL_IB_DISABLE", "NCCL uses TCP instead of InfiniBand or RoCE"}})
    if (facts.variable(name) == "1") found(name + "=1", lost);
  if (const auto blocking = facts.variable("CUDA_LAUNCH_BLOCKING"); blocking == "1")
    found("CUDA_LAUNCH_BLOCKING=1", "every kernel waits for the one before");
}

void check_peer_memory(const DoctorFacts& facts, Findings& findings) {
  const bool rails = std::any_of(facts.node.nics.begin(), facts.node.nics.end(), [](const topology::Nic& nic) {
    return nic.role == topology::NicRole::kRail && nic.link_layer != "EFA" && nic.link_layer != "Slingshot";
  });
  if (facts.devices.openable > 0 && rails && facts.peer_memory == false)
    findings.push_back({"", "the kernel module nvidia_peermem is not loaded: NICs may not read GPU memory directly",
                        "modprobe nvidia_peermem; with open kernel modules and a kernel from 5.12 on NCCL uses DMA-BUF "
                        "instead, and NCCL_DEBUG=INFO then says GDRDMA"});
}

}  // namespace railyard::launch
