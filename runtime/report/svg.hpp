// Pictures of a report, as SVG text whose colours the page's style sheet decides (light and dark).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/report/timeline.hpp"

namespace railyard {

// Text made safe for HTML, inside an element and inside an attribute; bytes that are no UTF-8 are replaced.
std::string escape_html(std::string_view text);

struct ChartSeries {
  std::string name;
  std::string style;              // class of the style sheet: "train", "smooth", "valid", "plain"
  std::vector<double> x, y;       // NaN in y: a gap
  std::vector<double> low, high;  // a band around y; empty: none
  enum class Draw { kLine, kDots, kBoth } draw = Draw::kLine;
};

struct Chart {
  std::string id, title, unit;
  std::string format = "number";  // of values: "number", "loss", "rate", "grouped", "seconds", "percent"
  std::vector<ChartSeries> series;
  std::vector<double> marks;       // vertical lines: resumes
  std::vector<double> unknown_at;  // ticks on the x axis: values that were not finite
  double x_begin = 0.0, x_end = 1.0;
  bool from_zero = false;  // y begins at 0
  int width = 560, height = 240;
};

// A card with the title, the values under the pointer (the last ones until there is one) and the chart.
std::string draw_chart(const Chart& chart);
// What the page's script needs of a chart to show values under the pointer: {"id","x0","x1",...,"series":[...]}.
Json chart_data(const Chart& chart);

// One bar a row, a lane a stage. Of a step with very many rows only the begin is drawn. Empty when there is nothing to
// draw.
std::string draw_timeline(const PipelineTimeline& timeline);

// Round values that cover [low, high] in about `count` steps of 1, 2 or 5 times a power of ten.
std::vector<double> axis_ticks(double low, double high, int count);

}  // namespace railyard
