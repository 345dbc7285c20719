// Pictures of a machine for people: text for a terminal, SVG for a page, DOT for graphviz.
#pragma once

#include <string>

#include "topology/machine.hpp"

namespace railyard::topology {

// Per group of alike nodes the matrix in the words of nvidia-smi, one rail line per GPU, domains, other NICs, warnings
// and notes; then the fabric. `colour` uses terminal colours by rail and severity.
[[nodiscard]] std::string render_text(const Machine& machine, bool colour);

// One self-contained SVG: per group of alike nodes its NUMA nodes, GPUs, NICs, rails and NVLink domains; then the
// switch tree with nodes coloured by block. Odd nodes and ports that are down are red.
[[nodiscard]] std::string render_svg(const Machine& machine);

// An undirected graph: GPUs and NICs in their NUMA nodes, NVLinks, rails, switches.
[[nodiscard]] std::string render_dot(const Machine& machine);

// "GPU0"; with its partition "GPU0 (1g.5gb)".
[[nodiscard]] std::string gpu_label(const Gpu& gpu);

// The matrix cell between two devices: "X", "NV18", "NV#" (joined, count unknown), "PIX"..."SYS", or "?".
[[nodiscard]] std::string matrix_cell(const Node& node, int a, int b);

// "NV18 all to all", "NV1 to NV2, not all to all": what joins the GPUs of a domain.
[[nodiscard]] std::string domain_text(const Node& node, const std::vector<int>& domain);

// The title of a group: names folded, and how many.
[[nodiscard]] std::string group_title(const Machine& machine, const std::vector<int>& nodes);

}  // namespace railyard::topology
