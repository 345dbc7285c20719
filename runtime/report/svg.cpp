// Line charts as SVG.
#include "runtime/report/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "runtime/report/format.hpp"
#include "runtime/report/series.hpp"

namespace railyard {
namespace {

constexpr double kLeft = 58, kRight = 12, kTop = 10, kBottom = 24;  // margins around the plot

// A tick's label: 1500000 -> 1.5M.
std::string short_number(double value) {
  const double size = std::abs(value);
  if (size == 0.0) return "0";
  if (size >= 1e12 || size < 1e-3) return format_learning_rate(value);
  static constexpr std::pair<double, const char*> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, letter] : kUnits)
    if (size >= unit) return fmt::format("{:.4g}{}", value / unit, letter);
  return fmt::format("{:.4g}", value);
}

struct Range {
  double low, high;
};

// What the y axis shows: all means and lines, and bands but for rare spikes, which run out of the picture.
Range y_range(const Chart& chart) {
  std::vector<double> values, bands;
  for (const ChartSeries& series : chart.series) {
    values.insert(values.end(), series.y.begin(), series.y.end());
    bands.insert(bands.end(), series.low.begin(), series.low.end());
    bands.insert(bands.end(), series.high.begin(), series.high.end());
  }
  std::erase_if(values, [](double y) { return !std::isfinite(y); });
  if (values.empty()) return {0.0, 1.0};
  // Single points far out (a spike of the gradient norm) must not flatten the rest.
  const double middle = quantile(values, 0.5), upper = quantile(values, 0.98), lower = quantile(values, 0.02);
  double low = *std::min_element(values.begin(), values.end()), high = *std::max_element(values.begin(), values.end());
  if (chart.from_zero && high - middle > 8.0 * (upper - middle) && upper > middle)
    high = upper + 2.0 * (upper - middle);
  if (!bands.empty()) {
    high = std::max(high, std::min(quantile(bands, 0.99), high + (high - low)));
    low = std::min({low, lower, std::max(quantile(bands, 0.01), low - (high - low))});
  }
  if (chart.from_zero) low = std::min(low, 0.0);
  double room = 0.05 * (high - low);
  if (room <= 0.0) room = high != 0.0 ? 0.1 * std::abs(high) : 1.0;
  return {chart.from_zero && low == 0.0 ? 0.0 : low - room, high + room};
}

struct Plot {
  Range x, y;
  double width, height;

  explicit Plot(const Chart& chart)
      : x{chart.x_begin, std::max(chart.x_end, chart.x_begin + 1.0)},
        y(y_range(chart)),
        width(chart.width - kLeft - kRight),
        height(chart.height - kTop - kBottom) {}
  [[nodiscard]] double px(double value) const { return kLeft + (value - x.low) / (x.high - x.low) * width; }
  [[nodiscard]] double py(double value) const {
    const double at = kTop + (y.high - value) / (y.high - y.low) * height;
    return std::clamp(at, -2000.0, 4000.0);
  }
};

// A line through the known points; a lone one becomes a dot-long stroke.
std::string line_path(const Plot& plot, std::span<const double> x, std::span<const double> y) {
  std::string path;
  bool drawing = false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(y[i])) {
      drawing = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", plot.px(x[i]), plot.py(y[i]));
    if (!drawing) path += "h.1";
    drawing = true;
  }
  return path;
}

std::string band_path(const Plot& plot, const ChartSeries& series) {
  std::string path;
  for (std::size_t begin = 0; begin < series.x.size();) {
    if (!std::isfinite(series.low[begin])) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < series.x.size() && std::isfinite(series.low[end])) ++end;
    for (std::size_t i = begin; i < end; ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == begin ? "M" : "L", plot.px(series.x[i]), plot.py(series.high[i]));
    for (std::size_t i = end; i-- > begin;)
      path += fmt::format("L{:.1f} {:.1f}", plot.px(series.x[i]), plot.py(series.low[i]));
    path += "Z";
    begin = end;
  }
  return path;
}

Json short_numbers(std::span<const double> values) {
  Json list = Json::array();
  for (double value : values) {
    if (std::isfinite(value))
      list.push_back(Json::parse(fmt::format("{:.6g}", value)));
    else
      list.push_back(nullptr);
  }
  return list;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') safe += c;
    }
  }
  // The JSON writer knows UTF-8: it replaces what is none.
  const std::string quoted = Json(safe).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

std::vector<double> axis_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(high > low) || count < 1) return ticks;
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power;
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough * 0.999) break;
  }
  const double first = std::ceil(low / step - 1e-9);
  for (double i = first; i * step <= high + step * 1e-9 && ticks.size() < 100; i += 1.0)
    ticks.push_back(i * step + 0.0);  // no -0
  return ticks;
}

std::string draw_chart(const Chart& chart) {
  const Plot plot(chart);
  std::string svg = fmt::format(
      "<figure class=\"card chart\" id=\"{0}\"><figcaption><b>{1}</b><span class=\"unit\">{2}</span><span "
      "class=\"read\"></span>"
      "</figcaption><svg viewBox=\"0 0 {3} {4}\" role=\"img\" aria-label=\"{1}\"><clipPath id=\"clip-{0}\"><rect "
      "x=\"{5}\" y=\"{6}\" "
      "width=\"{7}\" height=\"{8}\"/></clipPath><g class=\"axes\">",
      chart.id, escape_html(chart.title), escape_html(chart.unit), chart.width, chart.height, kLeft, kTop - 2,
      plot.width, plot.height + 4);
  for (double tick : axis_ticks(plot.y.low, plot.y.high, 5)) {
    const double y = plot.py(tick);
    const std::string label =
        chart.format == "percent" ? fmt::format("{:.4g} %", tick * 100.0 + 0.0) : short_number(tick);
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{:.0f} {:.1f}H{:.0f}\"/><text x=\"{:.0f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{}</text>",
        kLeft, y, kLeft + plot.width, kLeft - 8, y + 4, label);
  }
  for (double tick : axis_ticks(plot.x.low, plot.x.high, chart.width > 800 ? 10 : 5)) {
    if (tick != std::floor(tick)) continue;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", plot.px(tick), chart.height - 6,
                       short_number(tick));
  }
  svg += fmt::format("<path class=\"base\" d=\"M{:.0f} {:.1f}H{:.0f}\"/></g><g clip-path=\"url(#clip-{})\">", kLeft,
                     kTop + plot.height, kLeft + plot.width, chart.id);
  for (double mark : chart.marks)
    svg += fmt::format("<path class=\"mark\" d=\"M{:.1f} {}V{:.1f}\"><title>resumed at step {:.0f}</title></path>",
                       plot.px(mark), kTop, kTop + plot.height, mark);
  for (const ChartSeries& series : chart.series)
    if (!series.low.empty())
      svg += fmt::format("<path class=\"band {}\" d=\"{}\"/>", series.style, band_path(plot, series));
  for (const ChartSeries& series : chart.series) {
    if (series.draw != ChartSeries::Draw::kDots)
      svg += fmt::format("<path class=\"line {}\" d=\"{}\"/>", series.style, line_path(plot, series.x, series.y));
    if (series.draw == ChartSeries::Draw::kLine) continue;
    for (std::size_t i = 0; i < series.x.size(); ++i)
      if (std::isfinite(series.y[i]))
        svg += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", series.style,
                           plot.px(series.x[i]), plot.py(series.y[i]));
  }
  for (double at : chart.unknown_at)
    svg +=
        fmt::format("<path class=\"unknown\" d=\"M{:.1f} {:.1f}v-8\"><title>not finite at step {:.0f}</title></path>",
                    plot.px(at), kTop + plot.height, at);
  svg += "</g><path class=\"cross\" d=\"\"/></svg></figure>";
  return svg;
}

Json chart_data(const Chart& chart) {
  const Plot plot(chart);
  Json data = {{"id", chart.id},
               {"w", chart.width},
               {"left", kLeft},
               {"right", chart.width - kRight},
               {"top", kTop},
               {"bottom", kTop + plot.height},
               {"x0", plot.x.low},
               {"x1", plot.x.high},
               {"format", chart.format},
               {"series", Json::array()}};
  for (const ChartSeries& series : chart.series) {
    Json entry = {{"name", series.name}, {"style", series.style}, {"x", Json::array()}, {"y", short_numbers(series.y)}};
    for (double x : series.x) entry["x"].push_back(std::abs(x) < 9e15 ? Json(static_cast<std::int64_t>(x)) : Json(x));
    data["series"].push_back(std::move(entry));
  }
  return data;
}

}  // namespace railyard
