// Rank arithmetic of a layout.
#include "runtime/base/layout.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

std::vector<std::string> split_order(const std::string& order) {
  std::vector<std::string> names;
  std::stringstream in(order);
  for (std::string name; std::getline(in, name, '-');) names.push_back(name);
  return names;
}

void check_order(const std::string& order) {
  auto names = split_order(order);
  std::sort(names.begin(), names.end());
  if (names != std::vector<std::string>{"cp", "dp", "ep", "pp", "tp"})
    throw UsageError("parallel.order: \"{}\" must name tp, cp, ep, dp and pp once each, like \"tp-cp-ep-dp-pp\"",
                     order);
}

int positive(std::int64_t value, const char* key) {
  if (value < 1 || value > (1 << 20)) throw UsageError("parallel.{}: {} is not between 1 and 1048576", key, value);
  return static_cast<int>(value);
}

bool contains(const std::vector<Axis>& axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// The member for an axis, of anything that has one for each.
template <class Parts>
auto& part_of(Parts& parts, Axis axis) {
  switch (axis) {
    case Axis::kTp:
      return parts.tp;
    case Axis::kCp:
      return parts.cp;
    case Axis::kDp:
      return parts.dp;
    case Axis::kPp:
      return parts.pp;
    case Axis::kEtp:
      return parts.etp;
    case Axis::kEp:
      return parts.ep;
    case Axis::kEdp:
      return parts.edp;
  }
  check_failed("axis", __FILE__, __LINE__, "not an axis");
}

}  // namespace

std::string_view axis_name(Axis axis) {
  constexpr std::array<std::string_view, 7> names{"tp", "cp", "dp", "pp", "etp", "ep", "edp"};
  return names[static_cast<size_t>(axis)];
}

int Coordinate::at(Axis axis) const { return part_of(*this, axis); }

Layout Layout::resolve(const ParallelSpec& spec, int ranks) {
  Layout layout;
  layout.tp = positive(spec.tp, "tp");
  layout.cp = positive(spec.cp, "cp");
  layout.pp = positive(spec.pp, "pp");
  layout.vpp = positive(spec.vpp, "vpp");
  layout.ep = positive(spec.ep, "ep");
  layout.etp = spec.etp == 0 ? layout.tp : positive(spec.etp, "etp");
  layout.sequence_parallel = spec.sequence_parallel && layout.tp > 1;
  if (!spec.order.empty()) layout.order = spec.order;
  check_order(layout.order);
  const std::int64_t model_ranks = std::int64_t{layout.tp} * layout.cp * layout.pp;
  if (spec.dp == 0) {
    if (ranks == 0) throw UsageError("parallel.dp: \"fill\" needs the number of ranks; give --ranks or a number");
    if (ranks % model_ranks != 0)
      throw UsageError("parallel: tp {} x cp {} x pp {} = {} does not divide {} ranks", layout.tp, layout.cp, layout.pp,
                       model_ranks, ranks);
    layout.dp = static_cast<int>(ranks / model_ranks);
  } else {
    layout.dp = positive(spec.dp, "dp");
    if (ranks != 0 && model_ranks * layout.dp != ranks)
      throw UsageError("parallel: tp {} x cp {} x dp {} x pp {} = {} ranks, but {} were started", layout.tp, layout.cp,
                       layout.dp, layout.pp, model_ranks * layout.dp, ranks);
  }
  const std::int64_t expert_ranks = std::int64_t{layout.etp} * layout.ep;
  const std::int64_t stage_ranks = std::int64_t{layout.tp} * layout.cp * layout.dp;
  if (stage_ranks % expert_ranks != 0)
    throw UsageError("parallel: etp {} x ep {} = {} does not divide the {} ranks of a pipeline stage (tp x cp x dp)",
                     layout.etp, layout.ep, expert_ranks, stage_ranks);
  layout.edp = static_cast<int>(stage_ranks / expert_ranks);
  return layout;
}

int Layout::degree(Axis axis) const { return part_of(*this, axis); }

std::vector<Layout::Slot> Layout::attention_order() const {
  std::vector<Slot> slots;
  for (const auto& name : split_order(order)) {
    if (name == "tp") slots.push_back({Axis::kTp, tp});
    if (name == "cp") slots.push_back({Axis::kCp, cp});
    if (name == "dp") slots.push_back({Axis::kDp, dp});
    if (name == "pp") slots.push_back({Axis::kPp, pp});
  }
  return slots;
}

// As in Megatron-Core's expert RankGenerator: etp stands where tp does, edp where dp does, cp has degree 1.
std::vector<Layout::Slot> Layout::expert_order() const {
  std::vector<Slot> slots;
  for (const auto& name : split_order(order)) {
    if (name == "tp") slots.push_back({Axis::kEtp, etp});
    if (name == "ep") slots.push_back({Axis::kEp, ep});
    if (name == "dp") slots.push_back({Axis::kEdp, edp});
    if (name == "pp") slots.push_back({Axis::kPp, pp});
  }
  return slots;
}

Coordinate Layout::coordinate(int rank) const {
  Coordinate c;
  // The pp index of both orders agrees when pp stands in the same place relative to the product of the others, which
  // holds for the default order; for others the attention order decides and experts follow within the stage.
  int rest = rank;
  for (const Slot& slot : attention_order()) {
    part_of(c, slot.axis) = rest % slot.degree;
    rest /= slot.degree;
  }
  int within_stage = 0, stride = 1;
  for (const Slot& slot : attention_order()) {
    if (slot.axis == Axis::kPp) continue;
    within_stage += c.at(slot.axis) * stride;
    stride *= slot.degree;
  }
  for (const Slot& slot : expert_order()) {
    if (slot.axis == Axis::kPp) continue;
    part_of(c, slot.axis) = within_stage % slot.degree;
    within_stage /= slot.degree;
  }
  return c;
}

int Layout::rank_of(int tp_index, int cp_index, int dp_index, int pp_index) const {
  int rank = 0, stride = 1;
  for (const Slot& slot : attention_order()) {
    const int index = slot.axis == Axis::kTp   ? tp_index
                      : slot.axis == Axis::kCp ? cp_index
                      : slot.axis == Axis::kDp ? dp_index
                                               : pp_index;
    rank += index * stride;
    stride *= slot.degree;
  }
  return rank;
}

std::vector<int> Layout::group(int rank, const std::vector<Axis>& axes) const {
  const bool expert = contains(axes, Axis::kEtp) || contains(axes, Axis::kEp) || contains(axes, Axis::kEdp);
  const Coordinate mine = coordinate(rank);
  const auto slots = expert ? expert_order() : attention_order();
  std::vector<int> members;
  for (int other = 0; other < ranks(); ++other) {
    const Coordinate theirs = coordinate(other);
    const bool same = std::all_of(slots.begin(), slots.end(), [&](const Slot& slot) {
      return contains(axes, slot.axis) || mine.at(slot.axis) == theirs.at(slot.axis);
    });
    if (same) members.push_back(other);
  }
  return members;
}

Json Layout::to_json() const {
  return Json{{"tp", tp},      {"cp", cp},   {"dp", dp},
              {"pp", pp},      {"vpp", vpp}, {"ep", ep},
              {"etp", etp},    {"edp", edp}, {"sequence_parallel", sequence_parallel},
              {"order", order}};
}

}  // namespace railyard
