// What the groups of each axis cross in a cluster, and how long their messages take.
#pragma once

#include <optional>
#include <vector>

#include "launch/place/place.hpp"
#include "launch/plan/calibration.hpp"
#include "launch/plan/cluster.hpp"

namespace railyard::launch {

// Of the least fortunate group of an axis. A group whose members lie in several domains drives, in each, the NICs of
// all its members there (NCCL builds one ring for each).
struct AxisPath {
  int ranks = 1;           // of a group
  int inside = 1;          // fewest members that share a domain: GPUs joined by NVLink, else a node
  double inside_gb_s = 0;  // per rank and direction
  double across_gb_s = 0;  // per rank and direction, its share of the node's NICs
  double inside_latency = 0, across_latency = 0;  // seconds of one hop
  bool nvlink = false;                            // `inside` is by NVLink
};

// Seconds of `calls` ring collectives in which each rank sends `bytes` in all.
[[nodiscard]] double collective_seconds(const AxisPath& path, double bytes, int calls);
// Seconds of one message to a neighbour on the axis; across domains unless the whole group shares one.
[[nodiscard]] double message_seconds(const AxisPath& path, double bytes);

struct AxisPaths {
  AxisPath tp, cp, dp, pp;
};

// Rates of links. Without measurements: usual shares of what data sheets give.
class LinkModel {
 public:
  LinkModel(const Cluster& cluster, const std::optional<Calibration>& calibration);

  // As a layout nests into the cluster: tp and cp inside domains first, then what is left of a domain goes to dp, or to
  // pp
  // (`pipeline_inside`).
  [[nodiscard]] AxisPaths nested(const Layout& layout, bool pipeline_inside) const;
  // As a placement put the ranks.
  [[nodiscard]] AxisPaths placed(const Layout& layout, const Allocation& allocation, const Placement& placement) const;

  [[nodiscard]] bool measured_inside() const { return measured_inside_; }
  [[nodiscard]] bool measured_across() const { return measured_across_; }
  [[nodiscard]] int domain() const { return domain_; }

 private:
  [[nodiscard]] AxisPath path(int ranks, int inside) const;
  int domain_ = 1;  // ranks of a domain
  int node_ = 1;    // ranks of a node
  bool nvlink_ = false, measured_inside_ = false, measured_across_ = false, one_node_ = false;
  double inside_gb_s_ = 0, across_gb_s_ = 0, inside_latency_ = 0, across_latency_ = 0;
};

}  // namespace railyard::launch
