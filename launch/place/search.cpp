// Candidates by nesting axes into the machine's tree, and local improvement.
#include "launch/place/search.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "launch/place/packing.hpp"
#include "launch/place/tiling.hpp"

namespace railyard::launch {
namespace {

constexpr std::array<Axis, 4> kNestedAxes{Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp};
constexpr std::size_t kExhaustiveSlots = 8;
constexpr std::size_t kImprovedRanks = 512;          // larger machines are left as nested
constexpr std::size_t kImprovementWork = 4'000'000;  // flow evaluations, about 0.1 s
// Kicks without gain before giving up: many where a pass over all exchanges is cheap.
constexpr int kFruitlessKicks = 6, kFruitlessKicksOfFew = 100;
constexpr std::size_t kFewRanks = 16;
constexpr std::size_t kNestingWork = 6'000'000;  // flow evaluations for split axes, about 0.2 s
constexpr std::size_t kStripWork = 3'000'000;    // and for strips
constexpr double kBetter = 1e-9;                 // relative gain below which two costs are equal

// A small deterministic generator (xorshift64*, Vigna 2016): the same input must give the same placement everywhere.
class Random {
 public:
  std::size_t below(std::size_t bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<std::size_t>((state_ * 0x2545F4914F6CDD1DULL) >> 33) % bound;
  }

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

}  // namespace

PlacementSearch::PlacementSearch(const Layout& layout, const MachineGraph& graph, const std::vector<AxisFlows>& flows)
    : layout_(layout), graph_(graph), flows_(flows), coordinates_(all_coordinates(layout)), cost_(graph, flows) {
  for (const auto& axis : flows) flow_count_ += axis.flows.size();
  flow_count_ = std::max<std::size_t>(flow_count_, 1);
  std::map<std::array<int, 3>, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < coordinates_.size(); ++rank)
    groups[{coordinates_[rank].cp, coordinates_[rank].dp, coordinates_[rank].pp}].push_back(static_cast<int>(rank));
  for (auto& [key, group] : groups) tp_groups_.push_back(std::move(group));
}

bool PlacementSearch::allowed(const std::vector<int>& slot_of) const {
  const auto model = [&](int rank) {
    return graph_.slots()[static_cast<std::size_t>(slot_of[static_cast<std::size_t>(rank)])].model;
  };
  return std::all_of(tp_groups_.begin(), tp_groups_.end(), [&](const std::vector<int>& group) {
    return std::all_of(group.begin(), group.end(), [&](int rank) { return model(rank) == model(group[0]); });
  });
}

bool PlacementSearch::consider(const std::vector<int>& slot_of) {
  if (!allowed(slot_of)) return false;
  const double cost = cost_.objective(slot_of);
  if (!best_ || cost < best_cost_ * (1 - kBetter)) {
    best_ = slot_of;
    best_cost_ = cost;
  }
  return true;
}

std::vector<int> PlacementSearch::assign(const Nesting& nesting) const {
  std::vector<int> factors;
  for (const Digit& digit : nesting) factors.push_back(digit.size);
  const auto packed = pack_slots(graph_, factors);
  if (packed.size() != coordinates_.size()) return {};
  std::vector<int> slot_of(coordinates_.size());
  for (std::size_t rank = 0; rank < coordinates_.size(); ++rank) {
    std::array<int, 4> rest{coordinates_[rank].tp, coordinates_[rank].cp, coordinates_[rank].dp, coordinates_[rank].pp};
    std::size_t index = 0, stride = 1;
    for (const Digit& digit : nesting) {
      int& value = rest[static_cast<std::size_t>(digit.axis)];  // kNestedAxes are the first of the enumeration
      index += static_cast<std::size_t>(value % digit.size) * stride;
      value /= digit.size;
      stride *= static_cast<std::size_t>(digit.size);
    }
    slot_of[rank] = packed[index];
  }
  return slot_of;
}

std::optional<double> PlacementSearch::try_nesting(const Nesting& nesting) {
  const auto slot_of = assign(nesting);
  if (slot_of.empty() || !allowed(slot_of)) return std::nullopt;
  const double cost = cost_.objective(slot_of);
  if (!best_ || cost < best_cost_ * (1 - kBetter)) {
    best_ = slot_of;
    best_cost_ = cost;
  }
  return cost;
}

void PlacementSearch::consider_nestings() {
  Nesting axes;
  for (const Axis axis : kNestedAxes)
    if (layout_.degree(axis) > 1) axes.push_back({axis, layout_.degree(axis)});
  if (axes.empty()) axes.push_back({Axis::kTp, 1});
  std::vector<std::size_t> order(axes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::pair<double, Nesting>> tried;
  do {
    Nesting nesting;
    for (const auto i : order) nesting.push_back(axes[i]);
    if (const auto cost = try_nesting(nesting)) tried.emplace_back(*cost, nesting);
  } while (std::next_permutation(order.begin(), order.end()));
  std::stable_sort(tried.begin(), tried.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // An axis split around the next one: its inner part fills a leaf, say, while the other axis stays near.
  std::size_t budget = std::max<std::size_t>(8, kNestingWork / flow_count_);
  for (std::size_t t = 0; t < std::min<std::size_t>(tried.size(), 4); ++t) {
    const Nesting nesting = tried[t].second;
    for (std::size_t i = 0; i + 1 < nesting.size(); ++i)
      for (int inner = 2; inner < nesting[i].size && budget > 0; ++inner) {
        if (nesting[i].size % inner != 0) continue;
        Nesting split = nesting;
        split[i].size = inner;
        split.insert(split.begin() + static_cast<std::ptrdiff_t>(i) + 2, {nesting[i].axis, nesting[i].size / inner});
        try_nesting(split);
        --budget;
      }
    // Two neighbouring axes, both split: blocks of a x b that fit a container of any size.
    for (std::size_t i = 0; i + 1 < nesting.size(); ++i)
      for (int a = 2; a < nesting[i].size; ++a)
        for (int b = 2; b < nesting[i + 1].size && budget > 0; ++b) {
          if (nesting[i].size % a != 0 || nesting[i + 1].size % b != 0) continue;
          Nesting split = nesting;
          split[i].size = a;
          split[i + 1].size = b;
          split.insert(split.begin() + static_cast<std::ptrdiff_t>(i) + 2,
                       {{nesting[i].axis, nesting[i].size / a}, {nesting[i + 1].axis, nesting[i + 1].size / b}});
          try_nesting(split);
          --budget;
        }
  }
}

// Leaves hold any number of nodes, so no split of an axis by a divisor fits them. Two axes A x B are cut into strips of
// b rows of B; a strip is walked along A, column by column, every other strip backwards, and the machine's cells are
// handed out leaf by leaf along this way: a leaf of n cells then holds a block of about n / b by b, and a group of A
// touches about b / B of the leaves, one of B about B / b of them.
void PlacementSearch::consider_strips() {
  const auto tp = static_cast<std::size_t>(layout_.tp);
  const std::size_t ranks = coordinates_.size(), cells = ranks / tp;
  if (cells < 4) return;
  const auto way = pack_slots(graph_, {layout_.tp, static_cast<int>(cells)});
  if (way.size() != ranks) return;
  std::size_t budget = std::max<std::size_t>(8, kStripWork / flow_count_);
  for (const auto& [along, across] : {std::pair(Axis::kDp, Axis::kPp), std::pair(Axis::kPp, Axis::kDp)}) {
    const int rows = layout_.degree(across);
    if (layout_.degree(along) < 2 || rows < 2) continue;
    // Every height of a low grid; of a high one those up to twice a square block's, then doubling.
    for (int height = 1; height <= rows && budget > 0; height = height < 16 ? height + 1 : height * 2, --budget) {
      std::vector<std::array<int, 6>> keys(ranks);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Coordinate& at = coordinates_[rank];
        const int strip = at.at(across) / height, column = at.at(along);
        keys[rank] = {
            strip, strip % 2 == 0 ? column : -column, at.at(across) % height, at.cp, at.tp, static_cast<int>(rank)};
      }
      std::sort(keys.begin(), keys.end());
      std::vector<int> slot_of(ranks);
      for (std::size_t i = 0; i < ranks; ++i) slot_of[static_cast<std::size_t>(keys[i][5])] = way[i];
      consider(slot_of);
    }
  }
}

void PlacementSearch::consider_tilings() {
  if (!best_) return;
  if (const auto tiled = spread_over_fewer_leaves(layout_, graph_, flows_, *best_)) consider(*tiled);
}

void PlacementSearch::consider_all() {
  const auto slots = graph_.slots().size(), ranks = coordinates_.size();
  if (slots > kExhaustiveSlots) return;
  // Permutations of the slots; of those beyond the ranks only the ascending order counts.
  std::vector<int> order(slots);
  std::iota(order.begin(), order.end(), 0);
  do {
    if (!std::is_sorted(order.begin() + static_cast<std::ptrdiff_t>(ranks), order.end())) continue;
    consider(std::vector<int>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(ranks)));
  } while (std::next_permutation(order.begin(), order.end()));
}

void PlacementSearch::improve() {
  if (!best_ || coordinates_.size() > kImprovedRanks || coordinates_.size() < 2 ||
      graph_.slots().size() <= kExhaustiveSlots)
    return;
  const std::size_t ranks = coordinates_.size();
  std::size_t budget = kImprovementWork / flow_count_;
  Random random;
  // The current assignment, with the idle slots behind it: any two positions may be exchanged.
  const auto with_idle = [&](std::vector<int> slots) {
    std::vector<bool> used(graph_.slots().size());
    for (const int slot : slots) used[static_cast<std::size_t>(slot)] = true;
    for (std::size_t slot = 0; slot < used.size(); ++slot)
      if (!used[slot]) slots.push_back(static_cast<int>(slot));
    return slots;
  };
  const auto cost_of = [&](const std::vector<int>& slots) {
    const std::vector<int> assigned(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(ranks));
    return allowed(assigned) ? cost_.objective(assigned) : 1e300;
  };
  std::vector<int> current = with_idle(*best_);
  double cost = best_cost_;
  const int patience = ranks <= kFewRanks ? kFruitlessKicksOfFew : kFruitlessKicks;
  for (int fruitless = 0; budget > 0 && fruitless < patience; ++fruitless) {
    bool better = true;
    while (better && budget > 0) {
      better = false;
      for (std::size_t a = 0; a < ranks && budget > 0; ++a)
        for (std::size_t b = a + 1; b < current.size() && budget > 0; ++b) {
          std::swap(current[a], current[b]);
          --budget;
          const double swapped = cost_of(current);
          if (swapped < cost * (1 - kBetter)) {
            cost = swapped;
            better = true;
          } else {
            std::swap(current[a], current[b]);
          }
        }
    }
    if (cost < best_cost_ * (1 - kBetter)) {
      fruitless = -1;
      best_cost_ = cost;
      best_ = std::vector<int>(current.begin(), current.begin() + static_cast<std::ptrdiff_t>(ranks));
    }
    // A kick out of the valley: a few random exchanges from the best.
    current = with_idle(*best_);
    const std::size_t kicks = 2 + random.below(4);
    for (std::size_t k = 0; k < kicks; ++k)
      std::swap(current[random.below(ranks)], current[random.below(current.size())]);
    cost = cost_of(current);
  }
}

}  // namespace railyard::launch
