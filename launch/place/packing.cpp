// Bottom-up packing of slots into nested cells.
#include "launch/place/packing.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace railyard::launch {
namespace {

using Cell = std::vector<int>;                 // slots in order
using Homes = std::vector<std::vector<Cell>>;  // per container, the cells made there

// The narrowest bandwidth of the cell's ring, in its order; cells of one have no ring.
double ring_bandwidth(const MachineGraph& graph, const Cell& cell) {
  double narrowest = 1e18;
  for (std::size_t i = 0; cell.size() > 1 && i < cell.size(); ++i)
    narrowest = std::min(narrowest, graph.pair_bandwidth(cell[i], cell[(i + 1) % cell.size()]));
  return narrowest;
}

// Sum over cells of their ring bandwidth, the narrowest cell counting most.
double score(const MachineGraph& graph, const std::vector<int>& slots, std::size_t size) {
  double sum = 0, worst = 1e18;
  for (std::size_t begin = 0; begin + size <= slots.size(); begin += size) {
    const double bandwidth = ring_bandwidth(graph, Cell(slots.begin() + static_cast<std::ptrdiff_t>(begin),
                                                        slots.begin() + static_cast<std::ptrdiff_t>(begin + size)));
    sum += bandwidth;
    worst = std::min(worst, bandwidth);
  }
  return sum + 100 * worst;
}

// Arranges a node's slots so that consecutive cells of `size` are joined best: from index order, the best exchange of
// two slots until none helps. Nodes have up to 16 GPUs, so each pass is short; nodes whose pairs are all alike are
// left.
std::vector<int> arrange(const MachineGraph& graph, std::vector<int> slots, std::size_t size) {
  if (size < 2 || slots.size() < size || slots.size() > 64) return slots;
  bool alike = true;
  const double first = graph.pair_bandwidth(slots[0], slots[1]);
  for (std::size_t a = 0; a < slots.size() && alike; ++a)
    for (std::size_t b = 0; b < slots.size() && alike; ++b)
      alike = a == b || graph.pair_bandwidth(slots[a], slots[b]) == first;
  if (alike) return slots;
  // GPUs that are joined tightest begin next to each other: start from several seeds, keep the best.
  std::vector<int> best;
  double best_score = -1;
  for (std::size_t seed = 0; seed < std::min<std::size_t>(slots.size(), 8); ++seed) {
    std::vector<int> order;
    std::vector<int> rest = slots;
    std::rotate(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(seed), rest.end());
    while (!rest.empty()) {
      std::size_t next = 0;
      const std::size_t within = order.size() % size;
      for (std::size_t i = 1; within > 0 && i < rest.size(); ++i) {
        const auto joined = [&](int slot) {
          double narrowest = 1e18;
          for (std::size_t k = order.size() - within; k < order.size(); ++k)
            narrowest = std::min(narrowest, graph.pair_bandwidth(order[k], slot));
          return narrowest;
        };
        if (joined(rest[i]) > joined(rest[next])) next = i;
      }
      order.push_back(rest[next]);
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(next));
    }
    double current = score(graph, order, size);
    for (bool better = slots.size() <= 16; better;) {
      better = false;
      for (std::size_t a = 0; a < order.size(); ++a)
        for (std::size_t b = a + 1; b < order.size(); ++b) {
          std::swap(order[a], order[b]);
          const double swapped = score(graph, order, size);
          if (swapped > current * (1 + 1e-12)) {
            current = swapped;
            better = true;
          } else {
            std::swap(order[a], order[b]);
          }
        }
    }
    if (current > best_score) {
      best_score = current;
      best = order;
    }
  }
  return best;
}

// Joins `count` cells at a time out of the leftovers of several parts: the largest leftovers first, completed by the
// part that fits exactly, else by the largest that fits, else by a piece of the next. Joined cells go to `made`, the
// rest stay.
void join_leftovers(std::vector<std::vector<Cell>>& parts, std::size_t count, std::vector<Cell>& made) {
  std::size_t total = 0;
  for (const auto& part : parts) total += part.size();
  while (total >= count) {
    std::vector<Cell> taken;
    while (taken.size() < count) {
      const std::size_t need = count - taken.size();
      std::size_t chosen = parts.size();
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const auto size = parts[p].size();
        if (size == 0) continue;
        if (chosen == parts.size()) {
          chosen = p;
          continue;
        }
        const auto other = parts[chosen].size();
        const bool fits = size <= need, other_fits = other <= need;
        // The largest that fits; where none does, the smallest, so that the piece left is small.
        if (fits != other_fits ? fits : fits ? size > other : size < other) chosen = p;
      }
      auto& part = parts[chosen];
      const auto take = static_cast<std::ptrdiff_t>(std::min(need, part.size()));
      taken.insert(taken.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.begin() + take));
      part.erase(part.begin(), part.begin() + take);
    }
    total -= count;
    Cell joined;
    for (const auto& cell : taken) joined.insert(joined.end(), cell.begin(), cell.end());
    made.push_back(std::move(joined));
  }
}

class Packer {
 public:
  explicit Packer(const MachineGraph& graph) : graph_(graph) {
    // Containers from the bottom up: children come after parents when they are made.
    order_.resize(graph.containers().size());
    std::iota(order_.rbegin(), order_.rend(), 0);
  }

  // Cells of `size` slots. The leftovers of nodes go up, apart by model.
  Homes first_cells(std::size_t size) {
    Homes homes(order_.size());
    std::vector<std::map<int, std::vector<std::vector<Cell>>>> rest(order_.size());  // per container and model, parts
    std::map<std::string, std::vector<int>> arrangements;                            // per kind of node, positions
    for (const int c : order_) {
      const auto& container = graph_.containers()[static_cast<std::size_t>(c)];
      if (container.level == 0) {
        std::map<int, std::vector<int>> by_model;
        const int node = graph_.slots()[static_cast<std::size_t>(container.slots[0])].node;
        const auto [it, fresh] = arrangements.try_emplace(graph_.signature(node));
        if (fresh) {
          for (const int slot : arrange(graph_, container.slots, size)) it->second.push_back(slot - container.slots[0]);
        }
        for (const int position : it->second) {
          const int slot = container.slots[0] + position;
          by_model[graph_.slots()[static_cast<std::size_t>(slot)].model].push_back(slot);
        }
        for (auto& [model, slots] : by_model) {
          std::size_t begin = 0;
          for (; begin + size <= slots.size(); begin += size)
            homes[static_cast<std::size_t>(c)].emplace_back(slots.begin() + static_cast<std::ptrdiff_t>(begin),
                                                            slots.begin() + static_cast<std::ptrdiff_t>(begin + size));
          std::vector<Cell> left;
          for (; begin < slots.size(); ++begin) left.push_back({slots[begin]});
          if (!left.empty()) rest[static_cast<std::size_t>(c)][model].push_back(std::move(left));
        }
      }
      for (auto& [model, parts] : rest[static_cast<std::size_t>(c)]) {
        join_leftovers(parts, size, homes[static_cast<std::size_t>(c)]);
        if (container.parent < 0) continue;
        std::vector<Cell> left;
        for (auto& part : parts) left.insert(left.end(), part.begin(), part.end());
        if (!left.empty()) rest[static_cast<std::size_t>(container.parent)][model].push_back(std::move(left));
      }
    }
    return homes;
  }

  // `count` cells each to a larger one.
  Homes join(Homes cells, std::size_t count) {
    Homes homes(order_.size());
    std::vector<std::vector<std::vector<Cell>>> parts(order_.size());
    for (const int c : order_) {
      auto& own = cells[static_cast<std::size_t>(c)];
      auto& here = parts[static_cast<std::size_t>(c)];
      std::size_t whole = 0;
      for (; whole + count <= own.size(); whole += count) {
        Cell joined;
        for (std::size_t i = whole; i < whole + count; ++i) joined.insert(joined.end(), own[i].begin(), own[i].end());
        homes[static_cast<std::size_t>(c)].push_back(std::move(joined));
      }
      if (whole < own.size()) here.emplace_back(own.begin() + static_cast<std::ptrdiff_t>(whole), own.end());
      join_leftovers(here, count, homes[static_cast<std::size_t>(c)]);
      const int parent = graph_.containers()[static_cast<std::size_t>(c)].parent;
      std::vector<Cell> left;
      for (auto& part : here) left.insert(left.end(), part.begin(), part.end());
      if (parent >= 0 && !left.empty()) parts[static_cast<std::size_t>(parent)].push_back(std::move(left));
    }
    return homes;
  }

 private:
  const MachineGraph& graph_;
  std::vector<int> order_;
};

}  // namespace

std::vector<int> pack_slots(const MachineGraph& graph, const std::vector<int>& factors) {
  Packer packer(graph);
  Homes homes = packer.first_cells(static_cast<std::size_t>(factors[0]));
  for (std::size_t level = 1; level < factors.size(); ++level)
    homes = packer.join(std::move(homes), static_cast<std::size_t>(factors[level]));
  for (const auto& cells : homes)
    if (!cells.empty()) return cells[0];
  return {};
}

}  // namespace railyard::launch
