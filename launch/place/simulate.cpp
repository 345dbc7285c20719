// Max-min fair flows.
#include "launch/place/simulate.hpp"

#include <algorithm>
#include <queue>

namespace railyard::launch {
namespace {

constexpr double kTogether = 1.02;

struct Moving {
  Route route;
  double left = 0, rate = 0;
  bool frozen = false;
};

class Simulation {
 public:
  Simulation(const MachineGraph& graph, const AxisFlows& axis, const std::vector<int>& slot_of)
      : capacities_(graph.capacities()), on_link_(capacities_.size()) {
    for (const Flow& flow : axis.flows) {
      Moving moving{
          graph.route(slot_of[static_cast<std::size_t>(flow.from)], slot_of[static_cast<std::size_t>(flow.to)]),
          flow.bytes, 0, false};
      if (moving.route.count > 0) flows_.push_back(moving);
    }
  }

  double run() {
    double now = 0;
    while (!flows_.empty()) {
      share();
      double next = 1e300;
      for (const Moving& flow : flows_) next = std::min(next, flow.left / flow.rate);
      const double step = next * kTogether;
      for (Moving& flow : flows_) flow.left -= flow.rate * step;
      std::erase_if(flows_, [](const Moving& flow) { return flow.left <= 0; });
      now += flows_.empty() ? next : step;
    }
    return now;
  }

 private:
  // Progressive filling: the link that offers least to each of its flows fixes them; repeat with what is left.
  void share() {
    for (auto& list : on_link_) list.clear();
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      flows_[f].frozen = false;
      for (int i = 0; i < flows_[f].route.count; ++i)
        on_link_[static_cast<std::size_t>(flows_[f].route.links[static_cast<std::size_t>(i)])].push_back(f);
    }
    std::vector<double> room(capacities_);
    std::vector<std::size_t> open(capacities_.size());
    using Offer = std::pair<double, std::size_t>;
    std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers;
    for (std::size_t link = 0; link < on_link_.size(); ++link) {
      open[link] = on_link_[link].size();
      if (open[link] > 0) offers.emplace(room[link] / static_cast<double>(open[link]), link);
    }
    while (!offers.empty()) {
      const auto [offer, link] = offers.top();
      offers.pop();
      if (open[link] == 0) continue;
      const double current = room[link] / static_cast<double>(open[link]);
      if (current > offer * (1 + 1e-12)) {  // its flows were fixed elsewhere meanwhile: it offers more now
        offers.emplace(current, link);
        continue;
      }
      for (const auto f : on_link_[link]) {
        Moving& flow = flows_[f];
        if (flow.frozen) continue;
        flow.frozen = true;
        flow.rate = current;
        for (int i = 0; i < flow.route.count; ++i) {
          const auto other = static_cast<std::size_t>(flow.route.links[static_cast<std::size_t>(i)]);
          if (other != link) room[other] = std::max(0.0, room[other] - current);
          --open[other];
        }
      }
      room[link] = 0;
    }
  }

  const std::vector<double>& capacities_;
  std::vector<Moving> flows_;
  std::vector<std::vector<std::size_t>> on_link_;
};

}  // namespace

std::vector<std::pair<Axis, double>> simulate(const MachineGraph& graph, const std::vector<AxisFlows>& flows,
                                              const std::vector<int>& slot_of) {
  std::vector<std::pair<Axis, double>> seconds;
  for (const AxisFlows& axis : flows) seconds.emplace_back(axis.axis, Simulation(graph, axis, slot_of).run());
  return seconds;
}

double simulated_seconds(const MachineGraph& graph, const std::vector<AxisFlows>& flows,
                         const std::vector<int>& slot_of) {
  double sum = 0;
  for (const auto& [axis, seconds] : simulate(graph, flows, slot_of)) sum += seconds;
  return sum;
}

}  // namespace railyard::launch
