// The table of checks, and findings as JSON.
#include "launch/doctor/doctor.hpp"

namespace railyard::launch {

const std::vector<DoctorCheck>& doctor_checks() {
  static const std::vector<DoctorCheck> checks{
      {"device-mask", "CUDA_VISIBLE_DEVICES against the GPUs that are there", check_device_mask},
      {"device-cgroup", "GPUs that a device cgroup or container hides", check_device_cgroup},
      {"local-rank", "GPUs a rank sees against its local rank", check_local_rank},
      {"nvml", "NVIDIA's management library and driver", check_nvml},
      {"cuda-versions", "the driver's CUDA against the runtime's", check_cuda_versions},
      {"peer-to-peer", "settings that switch NVLink and P2P off", check_peer_to_peer},
      {"peer-memory", "GPUDirect RDMA", check_peer_memory},
      {"mpirun", "the starter of local ranks", check_mpirun},
      {"parts", "librailyard_mpi.so and librailyard_pmix.so", check_parts},
      {"pmi", "how srun introduces ranks to each other", check_pmi},
      {"slurm-clients", "srun and scontrol inside a job", check_slurm_clients},
      {"stale-environment", "variables of another job, step or mpirun", check_stale_environment},
      {"hca", "NCCL_IB_HCA and UCX_NET_DEVICES against the NICs", check_hca},
      {"gid", "the RoCE address index", check_gid},
      {"ports", "rail NICs that are down or slow", check_ports},
      {"interfaces", "NCCL_SOCKET_IFNAME and routes", check_interfaces},
      {"host-name", "what this host's name resolves to", check_host_name},
      {"affinity", "CPUs that a cgroup or binding cuts away", check_affinity},
      {"openmp", "OpenMP settings that pin threads", check_openmp},
      {"memlock", "locked memory for RDMA", check_memlock},
      {"open-files", "open files", check_open_files},
      {"stack", "stack size", check_stack},
      {"shm", "/dev/shm", check_shm},
      {"huge-pages", "huge pages", check_huge_pages},
      {"numa-balancing", "the kernel's page migration", check_numa_balancing},
  };
  return checks;
}

Findings examine(const DoctorFacts& facts) {
  Findings findings;
  for (const DoctorCheck& check : doctor_checks()) {
    const auto before = findings.size();
    check.look(facts, findings);
    for (auto i = before; i < findings.size(); ++i) findings[i].check = check.name;
  }
  return findings;
}

Json findings_to_json(const DoctorFacts& facts, const Findings& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings)
    list.push_back({{"check", finding.check},
                    {"severity", finding.severity == Finding::Severity::kUnusable ? "unusable" : "warning"},
                    {"cause", finding.cause},
                    {"remedy", finding.remedy}});
  return Json{{"schema", 1}, {"host", facts.host}, {"findings", std::move(list)}};
}

}  // namespace railyard::launch
