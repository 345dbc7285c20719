// Puts the page of a run together.
#include "runtime/report/report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "runtime/report/format.hpp"
#include "runtime/report/series.hpp"
#include "runtime/report/svg.hpp"

namespace railyard {
namespace {

constexpr std::size_t kPoints = 600;  // of a curve
constexpr std::size_t kMostEvaluations = 500;
constexpr std::size_t kMostMarks = 100;
constexpr std::size_t kMostRanks = 1024;  // rows of the placement table
constexpr std::size_t kMostNodes = 128;   // lines of the placement picture
constexpr std::size_t kLongestText = 128 * 1024;

double loss_of(const StepRecord& row) { return row.loss; }

std::string clipped(std::string_view text) {
  if (text.size() <= kLongestText) return escape_html(text);
  return escape_html(text.substr(0, kLongestText)) + fmt::format("\n... ({} more bytes)", text.size() - kLongestText);
}

// A value of a document in one line.
std::string inline_value(const Json& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return clipped(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return clipped(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Values of all steps but those that are not known.
std::vector<double> known(const std::vector<StepRecord>& rows, const StepValue& value, std::size_t last_rows) {
  std::vector<double> values;
  for (std::size_t i = rows.size() > last_rows ? rows.size() - last_rows : 0; i < rows.size(); ++i)
    if (const double x = value(rows[i]); std::isfinite(x)) values.push_back(x);
  return values;
}

class Page {
 public:
  explicit Page(const RunView& run) : run_(run), rows_(run.metrics.steps) {}

  std::string html() {
    header();
    notes();
    tiles();
    curves();
    if (run_.timeline) {
      if (const std::string picture = draw_timeline(*run_.timeline); !picture.empty())
        body_ += "<h2>Pipeline</h2>" + picture;
    }
    slow();
    placement();
    settings();
    footer();
    std::string data = Json(data_).dump(-1, ' ', true, Json::error_handler_t::replace);
    for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) data.replace(at, 1, "\\u003c");
    return fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"><title>{} · "
        "Railyard</title><style>{}</style></head>\n<body><main>{}</main>\n"
        "<script type=\"application/json\" id=\"data\">{}</script><script>{}</script></body></html>\n",
        escape_html(run_.name), kPageStyle, body_, data, kPageScript);
  }

 private:
  void header() {
    const std::string state = run_.state();
    const char* tone = state == "running" || state == "starting" ? "busy"
                       : state == "done"                         ? "good"
                       : state == "failed" || state == "died"    ? "bad"
                                                                 : "idle";
    body_ += fmt::format("<header><h1>{}</h1><span class=\"pill {}\">{}</span>", escape_html(run_.name), tone, state);
    std::vector<std::string> parts;
    const auto integer = [&](const std::string& pointer) { return run_.integer(pointer); };
    if (integer("/model/layers") > 0)
      parts.push_back(fmt::format("{} layers × {} hidden, sequences of {}", integer("/model/layers"),
                                  integer("/model/hidden"),
                                  format_grouped(static_cast<double>(integer("/model/seq_length")))));
    std::string layout;
    for (const char* axis : {"tp", "cp", "dp", "pp", "vpp", "ep"})
      if (const auto degree = integer(std::string("/parallel/") + axis); degree > 1)
        layout += fmt::format("{}{} {}", layout.empty() ? "" : " × ", axis, degree);
    if (!layout.empty()) parts.push_back(layout);
    if (integer("/train/global_batch") > 0)
      parts.push_back(fmt::format("global batch {}", integer("/train/global_batch")));
    const Json::json_pointer precision("/train/precision");
    if (run_.job.is_object() && run_.job.contains(precision)) parts.push_back(inline_value(run_.job[precision]));
    if (run_.starts > 1) parts.push_back(fmt::format("started {} times", run_.starts));
    std::string line;
    for (const std::string& part : parts) line += (line.empty() ? "" : " · ") + part;
    body_ += fmt::format("<div class=\"sub\">{}</div></header>", line);
    if (const std::int64_t total = run_.iterations(); total > 0 && !rows_.empty())
      body_ +=
          fmt::format("<div class=\"progress\"><i style=\"width:{:.1f}%\"></i></div>",
                      std::min(100.0, 100.0 * static_cast<double>(rows_.back().step) / static_cast<double>(total)));
  }

  void notes() {
    const std::string state = run_.state(), text = run_.state_text();
    const char* tone = state == "failed" || state == "died" ? " bad" : state == "done" ? " good" : "";
    if (!text.empty() && state != "running" && state != "starting")
      body_ += fmt::format("<div class=\"card note{}\">{}</div>", tone, clipped(text));
    for (const std::string& problem : run_.problems)
      body_ += fmt::format("<div class=\"card note\">{}</div>", clipped(problem));
  }

  void tile(const std::string& label, const std::string& value, const std::string& more = {}) {
    body_ += fmt::format("<div class=\"card tile\"><span>{}</span><b>{}{}</b></div>", label, value,
                         more.empty() ? "" : " <small>" + more + "</small>");
  }

  void tiles() {
    if (rows_.empty()) {
      body_ += "<div class=\"card note\">No step has been completed yet.</div>";
      return;
    }
    body_ += "<div class=\"tiles\">";
    const StepRecord& last = rows_.back();
    const std::int64_t total = run_.iterations();
    tile("step", format_grouped(static_cast<double>(last.step)),
         total > 0 ? "of " + format_grouped(static_cast<double>(total)) : "");
    tile("loss", std::isfinite(last.loss) ? format_loss(last.loss) : "not finite");
    const auto best = std::min_element(run_.metrics.evaluations.begin(), run_.metrics.evaluations.end(),
                                       [](const auto& a, const auto& b) { return a.valid_loss < b.valid_loss; });
    if (best != run_.metrics.evaluations.end() && std::isfinite(best->valid_loss))
      tile("best valid loss", format_loss(best->valid_loss), "at " + format_grouped(static_cast<double>(best->step)));
    if (last.tokens > 0) tile("tokens", short_count(static_cast<double>(last.tokens)));
    // The median of the last steps is what the run does now; an evaluation or a hiccup does not move it.
    const auto now = [&](const StepValue& value) { return quantile(known(rows_, value, 200), 0.5); };
    const double tokens_per_s = now([](const StepRecord& row) { return row.tokens_per_s; });
    if (std::isfinite(tokens_per_s)) tile("tokens/s", format_grouped(tokens_per_s));
    const double tflops = now([](const StepRecord& row) { return row.tflops_per_gpu; });
    if (std::isfinite(tflops)) tile("model FLOPs of a rank", format_tflops(tflops));
    const double mfu = now([](const StepRecord& row) { return row.mfu.value_or(NAN); });
    if (std::isfinite(mfu)) tile("MFU", fmt::format("{:.1f} %", mfu * 100.0));
    const double seconds = now([](const StepRecord& row) { return row.step_s; });
    if (std::isfinite(seconds)) tile("time of a step", format_seconds(seconds));
    const std::vector<double> memory = known(
        rows_, [](const StepRecord& row) { return row.mem_gib.value_or(NAN); }, rows_.size());
    if (!memory.empty()) tile("peak memory of a rank", format_gib(*std::max_element(memory.begin(), memory.end())));
    double trained = 0.0;
    for (const StepRecord& row : rows_)
      if (std::isfinite(row.step_s)) trained += row.step_s;
    tile("time in steps", format_clock(trained));
    if (total > last.step && std::isfinite(seconds))
      tile(run_.owner == RunView::Owner::kLive ? "left" : "left when resumed",
           format_clock(static_cast<double>(total - last.step) * seconds));
    body_ += "</div>";
  }

  static std::string short_count(double value) {
    static constexpr std::array<std::pair<double, const char*>, 3> kUnits = {{{1e12, " T"}, {1e9, " B"}, {1e6, " M"}}};
    for (const auto& [unit, letter] : kUnits)
      if (value >= unit) return fmt::format("{:.2f}{}", value / unit, letter);
    return format_grouped(value);
  }

  Chart empty_chart(const char* id, const char* title, const char* unit, const char* format) const {
    Chart chart{.id = id, .title = title, .unit = unit, .format = format};
    chart.x_begin = static_cast<double>(rows_.front().step - 1);
    chart.x_end = static_cast<double>(rows_.back().step);
    for (std::size_t i = 0; i < std::min(run_.metrics.resumes.size(), kMostMarks); ++i)
      chart.marks.push_back(static_cast<double>(run_.metrics.resumes[i]));
    return chart;
  }

  static ChartSeries shortened(const ShortSeries& series, const char* name, const char* style) {
    ChartSeries out{.name = name, .style = style, .x = series.steps, .y = series.mean};
    if (!series.whole) {
      out.low = series.low;
      out.high = series.high;
    }
    return out;
  }

  void add(const Chart& chart, bool wide = false) {
    body_ += wide ? "<div class=\"wide\">" + draw_chart(chart) + "</div>" : draw_chart(chart);
    data_.push_back(chart_data(chart));
  }

  // A chart of one quantity; nothing when it is never known.
  void simple(const char* id, const char* title, const char* unit, const char* format, bool from_zero,
              const StepValue& value, ChartSeries more = {}) {
    const ShortSeries series = shorten(rows_, value, kPoints);
    if (std::none_of(series.mean.begin(), series.mean.end(), [](double y) { return std::isfinite(y); })) return;
    Chart chart = empty_chart(id, title, unit, format);
    chart.from_zero = from_zero;
    chart.series.push_back(shortened(series, "", "plain"));
    if (!more.x.empty()) chart.series.push_back(std::move(more));
    add(chart);
  }

  void curves() {
    if (rows_.empty()) return;
    body_ += "<h2>Curves</h2><div class=\"charts\">";
    loss();
    simple("lr", "Learning rate", "", "rate", true, [](const StepRecord& row) { return row.lr; });
    simple("grad", "Gradient norm", gradient_note().c_str(), "number", true,
           [](const StepRecord& row) { return row.grad_norm; });
    simple("speed", "Throughput", "tokens/s", "grouped", true, [](const StepRecord& row) { return row.tokens_per_s; });
    if (std::any_of(rows_.begin(), rows_.end(), [](const StepRecord& row) { return row.mfu.has_value(); }))
      simple("mfu", "Model FLOPs utilization", "of the dense bf16 peak", "percent", true,
             [](const StepRecord& row) { return row.mfu.value_or(NAN); });
    else
      simple("tflops", "Model FLOPs", "TFLOP/s per rank", "number", true,
             [](const StepRecord& row) { return row.tflops_per_gpu; });
    slow_ = slow_steps(rows_, run_.metrics.resumes);
    std::sort(slow_.begin(), slow_.end(),
              [](const SlowStep& a, const SlowStep& b) { return a.seconds - a.usual > b.seconds - b.usual; });
    ChartSeries dots{.name = "slow", .style = "slow", .draw = ChartSeries::Draw::kDots};
    std::vector<SlowStep> shown(slow_.begin(),
                                slow_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(slow_.size(), 200)));
    std::sort(shown.begin(), shown.end(), [](const SlowStep& a, const SlowStep& b) { return a.step < b.step; });
    for (const SlowStep& step : shown) {
      dots.x.push_back(static_cast<double>(step.step));
      dots.y.push_back(step.seconds);
    }
    simple(
        "time", "Time of a step", "", "seconds", true, [](const StepRecord& row) { return row.step_s; },
        std::move(dots));
    simple("memory", "Peak memory of the worst rank", "GiB", "number", true,
           [](const StepRecord& row) { return row.mem_gib.value_or(NAN); });
    body_ += "</div>";
  }

  [[nodiscard]] std::string gradient_note() const {
    const StepRecord* highest = nullptr;
    for (const StepRecord& row : rows_)
      if (std::isfinite(row.grad_norm) && (highest == nullptr || row.grad_norm > highest->grad_norm)) highest = &row;
    if (highest == nullptr) return {};
    return fmt::format("before clipping; highest {} at step {}", format_significant(highest->grad_norm),
                       format_grouped(static_cast<double>(highest->step)));
  }

  // The whole curve; and, where the fall at the begin leaves the rest flat, the rest by itself.
  void loss() {
    const double span = std::clamp(static_cast<double>(rows_.size()) / 50.0, 2.0, 1000.0);
    const std::vector<double> smoothed = smooth(rows_, loss_of, span);
    loss_of_rows("loss", "Loss", 0, smoothed, span);
    const std::size_t tenth = rows_.size() / 10;
    const auto range = [&](std::size_t from) {
      const std::vector<double> values(smoothed.begin() + static_cast<std::ptrdiff_t>(from), smoothed.end());
      return quantile(values, 1.0) - quantile(values, 0.0);
    };
    if (rows_.size() >= 100 && range(tenth) < 0.4 * range(0))
      loss_of_rows("late-loss", "Loss without the first tenth", tenth, smoothed, span);
  }

  void loss_of_rows(const char* id, const char* title, std::size_t from, const std::vector<double>& smoothed,
                    double span) {
    const std::span<const StepRecord> rows = std::span(rows_).subspan(from);
    Chart chart = empty_chart(id, title, "", "loss");
    chart.width = 1150;
    chart.height = from == 0 ? 320 : 240;
    chart.x_begin = static_cast<double>(rows.front().step - 1);
    chart.unit = fmt::format("smoothed over {:.0f} steps", span);
    const ShortSeries mean = shorten(
        rows, [&](const StepRecord& row) { return smoothed[static_cast<std::size_t>(&row - rows_.data())]; }, kPoints);
    chart.series.push_back({.name = "smoothed", .style = "smooth", .x = mean.steps, .y = mean.mean});
    chart.series.push_back(shortened(shorten(rows, loss_of, kPoints), "train", "train"));
    std::vector<EvaluationRecord> evaluations;
    for (const EvaluationRecord& row : run_.metrics.evaluations)
      if (from == 0 || row.step >= rows.front().step) evaluations.push_back(row);
    if (!evaluations.empty()) {
      ChartSeries valid{.name = "valid", .style = "valid"};
      const std::size_t stride = (evaluations.size() + kMostEvaluations - 1) / kMostEvaluations;
      for (std::size_t i = 0; i < evaluations.size(); ++i) {
        if (i % stride != 0 && i + 1 != evaluations.size()) continue;
        valid.x.push_back(static_cast<double>(evaluations[i].step));
        valid.y.push_back(evaluations[i].valid_loss);
      }
      chart.x_begin = std::min(chart.x_begin, valid.x.front());
      chart.x_end = std::max(chart.x_end, valid.x.back());
      valid.draw = valid.x.size() <= 60 ? ChartSeries::Draw::kBoth : ChartSeries::Draw::kLine;
      chart.series.push_back(std::move(valid));
    }
    for (const StepRecord& row : rows) {
      if (chart.unknown_at.size() >= kMostMarks) break;
      if (!std::isfinite(row.loss)) chart.unknown_at.push_back(static_cast<double>(row.step));
    }
    if (!chart.marks.empty()) chart.unit += "; dashed: resumed from a checkpoint";
    if (!chart.unknown_at.empty()) chart.unit += "; red: not finite";
    add(chart, true);
  }

  void slow() {
    if (slow_.empty()) return;
    double lost = 0.0, total = 0.0;
    for (const SlowStep& step : slow_) lost += step.seconds - step.usual;
    for (const StepRecord& row : rows_)
      if (std::isfinite(row.step_s)) total += row.step_s;
    body_ += fmt::format(
        "<h2>Slow steps</h2><div class=\"card scroll\"><table><caption style=\"text-align:left;padding:10px 12px "
        "4px\">{} of {} steps took much "
        "longer than their neighbours: {} in all, {:.2f} % of the time in steps.</caption><tr><th "
        "class=\"num\">step</th><th "
        "class=\"num\">time</th><th class=\"num\">usual</th><th class=\"num\">times</th><th>beside</th></tr>",
        format_grouped(static_cast<double>(slow_.size())), format_grouped(static_cast<double>(rows_.size())),
        lost >= 120.0 ? format_clock(lost) : format_seconds(lost), total > 0.0 ? 100.0 * lost / total : 0.0);
    const std::int64_t every = run_.integer("/checkpoint/every");
    std::set<std::int64_t> evaluated;
    for (const EvaluationRecord& row : run_.metrics.evaluations) evaluated.insert(row.step);
    for (std::size_t i = 0; i < std::min<std::size_t>(slow_.size(), 10); ++i) {
      const SlowStep& step = slow_[i];
      std::string beside;
      const auto near = [&](std::int64_t at) { return at == step.step || at + 1 == step.step; };
      if (every > 0 && near(step.step - step.step % every)) beside = "checkpoint";
      if (evaluated.contains(step.step) || evaluated.contains(step.step - 1))
        beside += beside.empty() ? "evaluation" : ", evaluation";
      body_ += fmt::format(
          "<tr><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td "
          "class=\"num\">{:.1f}</td><td>{}</td></tr>",
          format_grouped(static_cast<double>(step.step)), format_seconds(step.seconds), format_seconds(step.usual),
          step.seconds / step.usual, beside);
    }
    body_ += "</table></div>";
  }

  // The list of ranks in a placement: the document itself, or its first member that is a list of objects.
  [[nodiscard]] const Json* ranks() const {
    const auto is_list = [](const Json& value) {
      return value.is_array() && !value.empty() && value.front().is_object();
    };
    if (is_list(run_.placement)) return &run_.placement;
    if (run_.placement.is_object())
      for (const Json& member : run_.placement)
        if (is_list(member)) return &member;
    return nullptr;
  }

  void placement() {
    const Json* list = ranks();
    if (list == nullptr) return;
    body_ += fmt::format("<h2>Placement{}</h2>", run_.starts > 1 ? fmt::format(" of start {}", run_.starts) : "");
    placement_picture(*list);
    std::vector<std::string> columns;
    for (std::size_t i = 0; i < std::min(list->size(), kMostRanks); ++i)
      if ((*list)[i].is_object())
        for (const auto& [key, value] : (*list)[i].items())
          if (std::find(columns.begin(), columns.end(), key) == columns.end() && columns.size() < 24)
            columns.push_back(key);
    body_ += "<details class=\"card\"><summary>Ranks</summary><div class=\"scroll\"><table><tr>";
    for (const std::string& column : columns) body_ += "<th>" + clipped(column) + "</th>";
    body_ += "</tr>";
    for (std::size_t i = 0; i < std::min(list->size(), kMostRanks); ++i) {
      body_ += "<tr>";
      for (const std::string& column : columns) {
        const Json& row = (*list)[i];
        body_ +=
            "<td>" + (row.is_object() && row.contains(column) ? inline_value(row[column]) : std::string("–")) + "</td>";
      }
      body_ += "</tr>";
    }
    if (list->size() > kMostRanks)
      body_ += fmt::format("<tr><td colspan=\"{}\">and {} more</td></tr>", columns.size(), list->size() - kMostRanks);
    body_ += "</table></div></details>";
  }

  // A line a node, a cell a rank, its colour the pipeline stage.
  void placement_picture(const Json& list) {
    std::vector<std::string> order;
    std::map<std::string, std::vector<const Json*>> nodes;
    for (const Json& row : list) {
      if (!row.is_object() || !row.contains("node")) continue;
      const std::string node = inline_value(row["node"]);
      if (!nodes.contains(node)) order.push_back(node);
      nodes[node].push_back(&row);
    }
    if (order.empty()) return;
    const auto integer = [](const Json& row, const char* key) {
      const bool known = row.contains(key) && row[key].is_number_integer();
      return known ? std::clamp<std::int64_t>(row[key].get<std::int64_t>(), 0, 1 << 30) : 0;
    };
    std::int64_t stages = 1;
    for (const Json& row : list)
      if (row.is_object()) stages = std::max(stages, integer(row, "pp") + 1);
    body_ += "<div class=\"card nodes\">";
    for (std::size_t i = 0; i < std::min(order.size(), kMostNodes); ++i) {
      body_ += "<div class=\"node\"><b>" + order[i] + "</b>";
      for (const Json* row : nodes[order[i]]) {
        std::string text;
        for (const auto& [key, value] : row->items())
          text += fmt::format("{}{} {}", text.empty() ? "" : ", ", clipped(key), inline_value(value));
        const double hue = 215.0 + 290.0 * static_cast<double>(integer(*row, "pp")) / static_cast<double>(stages);
        body_ += fmt::format(
            "<span class=\"gpu\" style=\"background:hsl({:.0f} 45% 41%)\" title=\"{}\"><b>{}</b><br>tp{} dp{}{}</span>",
            std::fmod(hue, 360.0), text, integer(*row, "rank"), integer(*row, "tp"), integer(*row, "dp"),
            stages > 1 ? fmt::format(" pp{}", integer(*row, "pp")) : "");
      }
      body_ += "</div>";
    }
    if (order.size() > kMostNodes) body_ += fmt::format("<div>and {} more nodes</div>", order.size() - kMostNodes);
    body_ += "</div>";
  }

  void settings() {
    if (run_.job.is_object() && !run_.job.empty()) {
      body_ += "<h2>Settings</h2><div class=\"groups\">";
      std::string loose;
      for (const auto& [key, value] : run_.job.items()) {
        if (!value.is_object()) {
          loose += fmt::format("<tr><td>{}</td><td>{}</td></tr>", clipped(key), inline_value(value));
          continue;
        }
        std::string table;
        flatten(value, "", table);
        if (!table.empty())
          body_ += fmt::format("<div class=\"card\"><h3>{}</h3><table>{}</table></div>", clipped(key), table);
      }
      if (!loose.empty()) body_ += fmt::format("<div class=\"card\"><h3>job</h3><table>{}</table></div>", loose);
      body_ += "</div>";
    }
    if (!run_.job_text.empty())
      body_ += "<details class=\"card\"><summary>job.lua</summary><pre>" + clipped(run_.job_text) + "</pre></details>";
    if (run_.why.is_object() && !run_.why.empty()) {
      std::string table;
      flatten(run_.why, "", table);
      body_ +=
          "<details class=\"card\"><summary>why.json: how the last start ended</summary><div class=\"scroll\"><table>" +
          table + "</table></div></details>";
    }
  }

  // Rows "a.b | value" of everything that is set.
  static void flatten(const Json& object, const std::string& prefix, std::string& table) {
    for (const auto& [key, value] : object.items()) {
      const std::string path = prefix.empty() ? key : prefix + "." + key;
      if (value.is_object())
        flatten(value, path, table);
      else if (!value.is_null() && !(value.is_array() && value.empty()) &&
               !(value.is_string() && value.get<std::string>().empty()))
        table += fmt::format("<tr><td>{}</td><td>{}</td></tr>", clipped(path), inline_value(value));
    }
  }

  void footer() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    std::array<char, 64> time{};
    std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S %z", &local);
    body_ += fmt::format("<footer>railyard report of {} at {}</footer>", escape_html(run_.path.string()), time.data());
  }

  const RunView& run_;
  const std::vector<StepRecord>& rows_;
  std::vector<SlowStep> slow_;
  std::string body_;
  Json data_ = Json::array();
};

}  // namespace

std::string report_page(const RunView& run) { return Page(run).html(); }

}  // namespace railyard
