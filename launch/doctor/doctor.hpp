// The checks of `railyard doctor`: pure functions of facts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/doctor/facts.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

struct Finding {
  enum class Severity {
    kWarning,   // runs are slow or fragile
    kUnusable,  // no run can work like this
  };
  std::string check;   // which one found it: "memlock"
  std::string cause;   // what is wrong
  std::string remedy;  // what to do
  Severity severity = Severity::kWarning;
};

using Findings = std::vector<Finding>;

// One check and the class of trouble it looks for.
struct DoctorCheck {
  std::string_view name, about;
  void (*look)(const DoctorFacts& facts, Findings& findings);
};
[[nodiscard]] const std::vector<DoctorCheck>& doctor_checks();

// All findings, in the order of the checks; `check` is filled in.
[[nodiscard]] Findings examine(const DoctorFacts& facts);

// {"schema":1, "host", "findings":[{"check","severity":"warning"|"unusable","cause","remedy"}]}
[[nodiscard]] Json findings_to_json(const DoctorFacts& facts, const Findings& findings);

// The checks, by what they look at.
void check_device_mask(const DoctorFacts& facts, Findings& findings);
void check_device_cgroup(const DoctorFacts& facts, Findings& findings);
void check_local_rank(const DoctorFacts& facts, Findings& findings);
void check_nvml(const DoctorFacts& facts, Findings& findings);
void check_cuda_versions(const DoctorFacts& facts, Findings& findings);
void check_peer_to_peer(const DoctorFacts& facts, Findings& findings);
void check_peer_memory(const DoctorFacts& facts, Findings& findings);

void check_mpirun(const DoctorFacts& facts, Findings& findings);
void check_parts(const DoctorFacts& facts, Findings& findings);
void check_pmi(const DoctorFacts& facts, Findings& findings);
void check_slurm_clients(const DoctorFacts& facts, Findings& findings);
void check_stale_environment(const DoctorFacts& facts, Findings& findings);

void check_hca(const DoctorFacts& facts, Findings& findings);
void check_gid(const DoctorFacts& facts, Findings& findings);
void check_ports(const DoctorFacts& facts, Findings& findings);
void check_interfaces(const DoctorFacts& facts, Findings& findings);
void check_host_name(const DoctorFacts& facts, Findings& findings);

void check_affinity(const DoctorFacts& facts, Findings& findings);
void check_openmp(const DoctorFacts& facts, Findings& findings);
void check_memlock(const DoctorFacts& facts, Findings& findings);
void check_open_files(const DoctorFacts& facts, Findings& findings);
void check_stack(const DoctorFacts& facts, Findings& findings);
void check_shm(const DoctorFacts& facts, Findings& findings);
void check_huge_pages(const DoctorFacts& facts, Findings& findings);
void check_numa_balancing(const DoctorFacts& facts, Findings& findings);

}  // namespace railyard::launch
