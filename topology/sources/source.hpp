// Sources of topology facts. A text is recognised by its content, never by its file name.
#pragma once

#include <string>
#include <string_view>

#include "topology/machine.hpp"

namespace railyard::topology {

enum class SourceKind {
  kHwlocXml,      // lstopo --of xml, hwloc 1, 2 and 3
  kNcclXml,       // NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE, also RCCL's
  kNcclLog,       // NCCL_DEBUG=INFO output with the system graph or the list of network devices
  kNvidiaSmi,     // nvidia-smi topo -m
  kSlurmConf,     // topology.conf, scontrol show topology
  kGresConf,      // gres.conf
  kSlurmYaml,     // topology.yaml
  kTopograph,     // topograph model
  kRailyardJson,  // railyard topo --json
};

// nullopt when the text is none of these.
[[nodiscard]] std::optional<SourceKind> recognise(std::string_view text);
[[nodiscard]] std::string_view kind_name(SourceKind kind);

// Reads a text of any kind; rails are assigned. `name` is what messages call it (a path). Throws UsageError with the
// place ("FILE:LINE: ...") when the text is of no known kind, or is malformed beyond repair; what can be repaired with
// certainty becomes a warning of the node or fabric.
[[nodiscard]] Machine read_source(std::string_view text, const std::string& name);

// The parsers, one file each. All throw UsageError as read_source does; none assigns rails.
[[nodiscard]] Machine read_hwloc_xml(std::string_view text, const std::string& name);
[[nodiscard]] Machine read_nccl_xml(std::string_view text, const std::string& name);
[[nodiscard]] Machine read_nccl_log(std::string_view text, const std::string& name);
[[nodiscard]] Machine read_nvidia_smi(std::string_view text, const std::string& name);
[[nodiscard]] Machine read_slurm_conf(std::string_view text, const std::string& name);
[[nodiscard]] Machine read_gres_conf(std::string_view text, const std::string& name);
[[nodiscard]] Machine read_slurm_yaml(std::string_view text, const std::string& name);
[[nodiscard]] Machine read_topograph(std::string_view text, const std::string& name);

// Larger inputs are refused; a real file has at most a few MiB.
inline constexpr std::size_t kLargestInput = 64U << 20;

// The machine that the process runs on: hwloc, sysfs, and NVML where its library is found. Rails are assigned.
[[nodiscard]] Node read_live_node();

}  // namespace railyard::topology
