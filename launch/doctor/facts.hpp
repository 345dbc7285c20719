// What `railyard doctor` looks at: everything of this machine and this process that makes runs fail or crawl.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/bootstrap/binding.hpp"
#include "launch/bootstrap/devices.hpp"
#include "launch/process.hpp"
#include "topology/node.hpp"

namespace railyard::launch {

// A soft and hard limit of setrlimit; kUnlimited where there is none.
struct ProcessLimit {
  static constexpr long kUnlimited = -1;
  long soft = kUnlimited, hard = kUnlimited;
};

struct NetworkInterface {
  std::string name;
  bool up = false;
  std::vector<std::string> networks;  // IPv4, address and prefix length: "10.0.0.7/16"
};

struct RdmaGid {
  int index = 0;
  std::string address;  // "fe80:0000:..."
  std::string type;     // "IB/RoCE v1" or "RoCE v2"
};

struct RdmaPort {
  std::string nic;
  int port = 1;
  std::string state;       // "ACTIVE", "INIT", "DOWN"
  std::string link_layer;  // "InfiniBand", "Ethernet"
  std::vector<RdmaGid> gids;
};

// A fact that is not known on this machine stays empty, and its checks are passed over.
struct DoctorFacts {
  std::string host;
  Environment environment;
  topology::Node node;  // GPUs, NICs and rails

  VisibleDevices devices;
  std::vector<SeenGpu> openable;    // GPUs that NVML shows to this process
  std::string nvml_problem;         // why NVML does not answer; empty: it does, or there is no device node
  std::string driver;               // "580.159"
  int driver_cuda = 0;              // newest CUDA of the driver, 13000 is 13.0; 0: unknown
  int runtime_cuda = 0;             // CUDA that librailyard_cuda.so runs with; 0: unknown
  std::string cuda_part_problem;    // why librailyard_cuda.so cannot be loaded
  std::optional<bool> uvm;          // /dev/nvidia-uvm is there
  std::optional<bool> peer_memory;  // nvidia_peermem (or nv_peer_mem) is loaded

  std::optional<topology::CpuSet> allowed, online;     // CPUs of this process, of the machine
  std::vector<Core> cores;                             // of the machine
  std::optional<ProcessLimit> memlock, nofile, stack;  // bytes, files, bytes
  std::optional<long> shm_bytes;                       // size of /dev/shm
  std::optional<long> memory_bytes, reserved_huge_bytes;
  std::string transparent_huge_pages;  // "always", "madvise", "never"
  std::optional<bool> numa_balancing;

  std::vector<NetworkInterface> interfaces;
  std::vector<RdmaPort> ports;
  std::optional<bool> verbs_openable;       // /dev/infiniband/uverbs* can be opened
  std::vector<std::string> host_addresses;  // what the host's own name resolves to

  std::optional<std::string> mpirun;      // its first version line; empty optional: none on PATH
  std::string mpirun_problem;             // it is there, but of no known kind or silent
  std::string mpi_part_problem;           // why librailyard_mpi.so cannot be loaded
  std::string pmix_part_problem;          // why librailyard_pmix.so cannot be loaded
  bool srun = false, scontrol = false;    // on PATH
  std::string srun_version, srun_mpi;     // what `srun --version` and `srun --mpi=list` print
  std::optional<bool> pmix_server_there;  // the server that PMIX_SERVER_URI* name still runs

  // A variable's value; empty when it is not set.
  [[nodiscard]] std::string variable(const std::string& name) const {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  }
};

// Looks at this machine; asks srun and mpirun for their versions (each at most 10 s), starts nothing else.
[[nodiscard]] DoctorFacts gather_doctor_facts();

}  // namespace railyard::launch
