// Annealed exchanges of cells (tensor parallel groups) between leaves.
#include "launch/place/tiling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>

namespace railyard::launch {
namespace {

constexpr std::size_t kExchanges = 400'000;
constexpr double kExcess = 4;  // what a leaf too many weighs against the edges between leaves, at the start

class Random {  // xorshift64* (Vigna 2016)
 public:
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1DULL;
  }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>((next() >> 33) % bound); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

struct Group {
  std::vector<int> cells;
  double weight = 0;  // of an edge between neighbours
};

class Tiling {
 public:
  Tiling(const Layout& layout, const MachineGraph& graph, const std::vector<AxisFlows>& flows,
         const std::vector<int>& slot_of);
  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] int spread() const;
  [[nodiscard]] int bound() const;
  // Exchanges cells until no group touches more than `target` leaves; false when that is not found.
  bool reach(int target);
  [[nodiscard]] std::vector<int> slots(const std::vector<int>& slot_of) const;

 private:
  struct Edge {
    int cell = 0;
    double weight = 0;
  };
  int& count(std::size_t group, int leaf) { return counts_[group * leaves_ + static_cast<std::size_t>(leaf)]; }
  void place(int cell, int leaf, int sign);
  [[nodiscard]] double change(int a, int b, int target);
  [[nodiscard]] double edges_between_leaves(int cell) const;

  bool known_ = true;
  std::size_t leaves_ = 0;
  std::vector<std::vector<int>> ranks_of_;           // by cell
  std::vector<int> leaf_, home_;                     // by cell: its leaf; the cell whose slots it has now
  std::vector<std::vector<std::size_t>> groups_of_;  // by cell
  std::vector<std::vector<Edge>> edges_;             // by cell
  std::vector<Group> groups_;
  std::vector<int> counts_, touched_;  // cells of a group on a leaf; leaves of a group
  int grid_axes_ = 0;
  Random random_;
};

Tiling::Tiling(const Layout& layout, const MachineGraph& graph, const std::vector<AxisFlows>& flows,
               const std::vector<int>& slot_of) {
  const auto coordinates = all_coordinates(layout);
  std::map<std::array<int, 3>, int> cells;
  std::vector<int> cell_of(coordinates.size());
  for (std::size_t rank = 0; rank < coordinates.size(); ++rank) {
    const Coordinate& at = coordinates[rank];
    const auto [it, fresh] = cells.try_emplace({at.cp, at.dp, at.pp}, static_cast<int>(ranks_of_.size()));
    if (fresh) ranks_of_.emplace_back();
    ranks_of_[static_cast<std::size_t>(it->second)].push_back(static_cast<int>(rank));
    cell_of[rank] = it->second;
  }
  std::map<int, int> numbers;
  for (const auto& ranks : ranks_of_) {
    const int leaf = graph.leaf_of(slot_of[static_cast<std::size_t>(ranks.front())]);
    known_ = known_ && leaf >= 0;
    leaf_.push_back(numbers.try_emplace(leaf, static_cast<int>(numbers.size())).first->second);
  }
  leaves_ = numbers.size();
  home_.resize(ranks_of_.size());
  std::iota(home_.begin(), home_.end(), 0);
  groups_of_.resize(ranks_of_.size());
  edges_.resize(ranks_of_.size());
  for (const AxisFlows& axis : flows) {
    if (axis.axis != Axis::kDp && axis.axis != Axis::kCp && axis.axis != Axis::kPp) continue;
    ++grid_axes_;
    const double weight = axis.flows.empty() ? 0 : axis.flows.front().bytes;
    for (const auto& ranks : axis.groups) {
      if (coordinates[static_cast<std::size_t>(ranks.front())].tp != 0) continue;
      Group group{{}, weight};
      for (const int rank : ranks) group.cells.push_back(cell_of[static_cast<std::size_t>(rank)]);
      for (std::size_t i = 0; i < group.cells.size(); ++i) {
        groups_of_[static_cast<std::size_t>(group.cells[i])].push_back(groups_.size());
        if (i + 1 == group.cells.size() && axis.axis == Axis::kPp) continue;
        const int next = group.cells[(i + 1) % group.cells.size()];
        edges_[static_cast<std::size_t>(group.cells[i])].push_back({next, weight});
        edges_[static_cast<std::size_t>(next)].push_back({group.cells[i], weight});
      }
      groups_.push_back(std::move(group));
    }
  }
  double heaviest = 0;
  for (const auto& group : groups_) heaviest = std::max(heaviest, group.weight);
  for (auto& edges : edges_)
    for (Edge& edge : edges) edge.weight /= std::max(heaviest, 1e-300);
  counts_.assign(groups_.size() * leaves_, 0);
  touched_.assign(groups_.size(), 0);
  for (std::size_t cell = 0; cell < leaf_.size(); ++cell) place(static_cast<int>(cell), leaf_[cell], 1);
}

void Tiling::place(int cell, int leaf, int sign) {
  for (const std::size_t group : groups_of_[static_cast<std::size_t>(cell)]) {
    int& here = count(group, leaf);
    if (sign > 0 && here == 0) ++touched_[group];
    here += sign;
    if (sign < 0 && here == 0) --touched_[group];
  }
}

int Tiling::spread() const { return touched_.empty() ? 0 : *std::max_element(touched_.begin(), touched_.end()); }

int Tiling::bound() const {
  std::vector<std::size_t> held(leaves_);
  for (const int leaf : leaf_) ++held[static_cast<std::size_t>(leaf)];
  std::sort(held.rbegin(), held.rend());
  std::size_t largest = 0;
  for (const Group& group : groups_) largest = std::max(largest, group.cells.size());
  int fewest = 0;
  for (std::size_t sum = 0, i = 0; sum < largest && i < held.size(); ++i, ++fewest) sum += held[i];
  if (grid_axes_ != 2) return fewest;
  double roots = 0;
  for (const std::size_t cells : held)
    roots += std::sqrt(static_cast<double>(cells) / static_cast<double>(leaf_.size()));
  return std::max(fewest, static_cast<int>(std::ceil(roots - 1e-9)));
}

double Tiling::edges_between_leaves(int cell) const {
  double sum = 0;
  for (const Edge& edge : edges_[static_cast<std::size_t>(cell)])
    if (leaf_[static_cast<std::size_t>(edge.cell)] != leaf_[static_cast<std::size_t>(cell)]) sum += edge.weight;
  return sum;
}

// What the exchange of two cells' leaves changes: leaves beyond the target, and edges between leaves. Done when it
// returns.
double Tiling::change(int a, int b, int target) {
  const auto excess = [&] {
    int sum = 0;
    for (const int cell : {a, b})
      for (const std::size_t group : groups_of_[static_cast<std::size_t>(cell)])
        sum += std::max(0, touched_[group] - target);
    return sum;
  };
  int &leaf_a = leaf_[static_cast<std::size_t>(a)], &leaf_b = leaf_[static_cast<std::size_t>(b)];
  const double before = kExcess * excess() + edges_between_leaves(a) + edges_between_leaves(b);
  place(a, leaf_a, -1);
  place(b, leaf_b, -1);
  std::swap(leaf_a, leaf_b);
  place(a, leaf_a, 1);
  place(b, leaf_b, 1);
  return kExcess * excess() + edges_between_leaves(a) + edges_between_leaves(b) - before;
}

bool Tiling::reach(int target) {
  const auto cells = leaf_.size();
  constexpr double kWarm = 2.0, kCold = 0.05;
  for (std::size_t step = 0; step < kExchanges; ++step) {
    const double heat = kWarm * std::pow(kCold / kWarm, static_cast<double>(step) / kExchanges);
    // Mostly cells of one group: an exchange within it changes other groups only.
    const auto a = static_cast<int>(random_.below(cells));
    int b = static_cast<int>(random_.below(cells));
    if (const auto& groups = groups_of_[static_cast<std::size_t>(a)]; !groups.empty() && random_.below(2) == 0) {
      const auto& group = groups_[groups[random_.below(groups.size())]].cells;
      b = group[random_.below(group.size())];
    }
    if (leaf_[static_cast<std::size_t>(a)] == leaf_[static_cast<std::size_t>(b)]) continue;
    const double worse = change(a, b, target);
    if (worse > 0 && random_.unit() >= std::exp(-worse / heat)) {
      (void)change(a, b, target);
      continue;
    }
    std::swap(home_[static_cast<std::size_t>(a)], home_[static_cast<std::size_t>(b)]);
  }
  return spread() <= target;
}

std::vector<int> Tiling::slots(const std::vector<int>& slot_of) const {
  std::vector<int> moved(slot_of.size());
  for (std::size_t cell = 0; cell < home_.size(); ++cell) {
    const auto& to = ranks_of_[cell];
    const auto& from = ranks_of_[static_cast<std::size_t>(home_[cell])];
    for (std::size_t i = 0; i < to.size(); ++i)
      moved[static_cast<std::size_t>(to[i])] = slot_of[static_cast<std::size_t>(from[i])];
  }
  return moved;
}

}  // namespace

std::optional<std::vector<int>> spread_over_fewer_leaves(const Layout& layout, const MachineGraph& graph,
                                                         const std::vector<AxisFlows>& flows,
                                                         const std::vector<int>& slot_of) {
  Tiling tiling(layout, graph, flows, slot_of);
  if (!tiling.known()) return std::nullopt;
  std::optional<std::vector<int>> best;
  const int bound = tiling.bound();
  for (int spread = tiling.spread(); spread > bound && tiling.reach(spread - 1); spread = tiling.spread())
    best = tiling.slots(slot_of);
  return best;
}

int least_spread(const Layout& layout, const MachineGraph& graph, const std::vector<AxisFlows>& flows,
                 const std::vector<int>& slot_of) {
  return Tiling(layout, graph, flows, slot_of).bound();
}

}  // namespace railyard::launch
