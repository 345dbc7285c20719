// Slurm's compact lists of host names: "node[01-04,07],login1", also with several brackets in a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railyard::topology {

// More names than this are refused: the largest clusters have a few ten thousand nodes.
inline constexpr std::size_t kMostHosts = 1U << 17;

// Expands a list in its own order; zero padding is kept. Throws UsageError, its message beginning with `where`
// (such as "topology.conf:3"), on unbalanced brackets, a malformed or falling range, or too many names.
std::vector<std::string> expand_hostlist(std::string_view text, const std::string& where);

// Folds names that differ in one number into "node[01-04,07]" for people to read; the order of first appearance is
// kept.
std::string fold_hostlist(const std::vector<std::string>& names);

// Orders names as people count: digit runs compare as numbers, so node7 comes before node66.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace railyard::topology
