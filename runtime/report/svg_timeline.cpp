// The pipeline timeline as SVG: time to the right, one lane a stage.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/report/format.hpp"
#include "runtime/report/svg.hpp"

namespace railyard {
namespace {

constexpr double kWidth = 1140, kLeft = 70, kRight = 12, kAxis = 26;
constexpr std::size_t kMostSingleRows = 1500;  // beyond this a row has neither number nor text under the pointer
constexpr std::size_t kMostRows = 8000;        // beyond this only the begin of the step is drawn
constexpr int kMostStages = 64;

// The class of the style sheet for an operation, and what the legend calls it.
std::pair<const char*, const char*> look_of(const std::string& operation) {
  if (operation == "forward") return {"f", "forward"};
  if (operation == "backward") return {"b", "backward"};
  if (operation == "backward_input") return {"bi", "backward, input"};
  if (operation == "backward_weight") return {"bw", "backward, weight"};
  if (operation == "update") return {"o", "gradient sums and update"};
  return {"o", "other"};
}

}  // namespace

std::string draw_timeline(const PipelineTimeline& timeline) {
  const int stages = std::min(timeline.stages, kMostStages);
  std::vector<PipelineTimeline::Row> rows;
  for (const PipelineTimeline::Row& row : timeline.rows)
    if (row.stage < stages) rows.push_back(row);
  double shown = timeline.length();
  if (rows.empty() || shown <= 0.0) return {};
  if (rows.size() > kMostRows) {
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    rows.resize(kMostRows);
    shown = rows.back().begin > 0.0 ? rows.back().begin : shown;
  }
  const double lane = stages <= 8 ? 30 : stages <= 16 ? 22 : 12;
  const double height = stages * lane + kAxis, width = kWidth - kLeft - kRight;
  const auto px = [&](double seconds) { return kLeft + std::min(seconds / shown, 1.0) * width; };

  std::string lanes, bars, axis, names;
  for (int stage = 0; stage < stages; ++stage) {
    const double y = stage * lane;
    lanes += fmt::format("<rect class=\"lane\" x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", kLeft,
                         y + 1, width, lane - 2);
    if (lane >= 20 || stage % 4 == 0)
      lanes += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">stage {}</text>", kLeft - 8,
                           y + lane / 2 + 4, stage);
  }
  std::map<std::string, const char*> legend;    // class -> name
  std::map<std::string, std::string> together;  // class -> the path of all its bars
  for (const PipelineTimeline::Row& row : rows) {
    const auto [style, name] = look_of(row.operation);
    const bool whole_step = row.operation == "update";
    const std::string kind = fmt::format("{} c{}", style, std::clamp(row.chunk, 0, 3));
    legend[style] = name;
    const double begin = px(row.begin), bar = std::max(px(row.end) - begin - 0.5, 0.4), y = row.stage * lane;
    if (rows.size() > kMostSingleRows) {
      together[kind] += fmt::format("M{:.1f} {:.0f}h{:.1f}v{:.0f}h-{:.1f}z", begin, y + 1, bar, lane - 2, bar);
      continue;
    }
    bars += fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"2\"><title>stage {}, "
        "{}{}{}: {} from {}</title></rect>",
        kind, begin + 0.25, y + 1, bar, lane - 2, row.stage, name,
        whole_step ? "" : fmt::format(" of microbatch {}", row.microbatch),
        row.chunk > 0 ? fmt::format(", chunk {}", row.chunk) : "", format_seconds(row.end - row.begin),
        format_seconds(row.begin));
    if (whole_step) continue;
    const std::string number = std::to_string(row.microbatch);
    if (bar >= 7.0 * static_cast<double>(number.size()) + 2.0 && lane >= 20)
      bars += fmt::format("<text class=\"n\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                          begin + bar / 2, y + lane / 2 + 4, number);
  }
  for (const auto& [kind, path] : together) bars += fmt::format("<path class=\"{}\" d=\"{}\"/>", kind, path);
  for (double tick : axis_ticks(0.0, shown, 8))
    axis += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
                        std::min(px(tick), kWidth - kRight - 16), height - 8, tick == 0.0 ? "0" : format_seconds(tick));
  for (const char* style : {"f", "b", "bi", "bw", "o"})
    if (const auto found = legend.find(style); found != legend.end())
      names += fmt::format("<span class=\"key {}\"></span>{} ", style, found->second);

  std::string about = timeline.step > 0 ? fmt::format("measured at step {}", timeline.step)
                                        : "simulated: a backward is taken as two forwards, handing over as free";
  about += fmt::format("; {} long, stages idle {:.1f} % of it", format_seconds(timeline.length()),
                       timeline.idle_share() * 100.0);
  if (shown < timeline.length()) about += "; its begin";
  if (timeline.stages > stages) about += fmt::format("; the first {} of {} stages", stages, timeline.stages);
  return fmt::format(
      "<figure class=\"card chart\"><figcaption><b>Pipeline timeline</b><span class=\"unit\">{}</span><span "
      "class=\"legend\">{}</span>"
      "</figcaption><svg class=\"timeline\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"Pipeline "
      "timeline\">{}{}{}</svg></figure>",
      about, names, kWidth, height, lanes, bars, axis);
}

}  // namespace railyard
