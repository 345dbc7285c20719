// The lines of `railyard status`.
#include "runtime/report/status_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/report/format.hpp"
#include "runtime/report/series.hpp"
#include "runtime/report/terminal.hpp"

namespace railyard {
namespace {

constexpr std::size_t kRecent = 50;    // steps whose median speed is what the run does now
constexpr double kSilence = 60.0;      // seconds without a row before anything is said of it
constexpr double kSilentSteps = 10.0;  // and as many usual steps

const char* colour_of(const std::string& state) {
  if (state == "running" || state == "starting") return "\x1b[36m";
  if (state == "done") return "\x1b[32m";
  if (state == "failed" || state == "died") return "\x1b[31m";
  return "\x1b[33m";
}

std::string painted(const std::string& text, const char* colour, const StatusStyle& style) {
  return style.colour ? colour + text + "\x1b[0m" : text;
}

// Control characters of a name or message would otherwise reach the terminal.
std::string plain(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

// `text` cut to `columns` characters (not bytes).
std::string cut(const std::string& text, int columns) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++seen > std::max(columns, 1)) return text.substr(0, i);
  }
  return text;
}

double recent(const RunView& run, const StepValue& value) {
  std::vector<double> values;
  const auto& steps = run.metrics.steps;
  for (std::size_t i = steps.size() > kRecent ? steps.size() - kRecent : 0; i < steps.size(); ++i)
    values.push_back(value(steps[i]));
  return quantile(std::move(values), 0.5);
}

// The last step with the speed of the recent ones.
StepRecord present(const RunView& run) {
  StepRecord row = run.metrics.steps.back();
  row.tokens_per_s = recent(run, [](const StepRecord& step) { return step.tokens_per_s; });
  row.tflops_per_gpu = recent(run, [](const StepRecord& step) { return step.tflops_per_gpu; });
  row.step_s = recent(run, [](const StepRecord& step) { return step.step_s; });
  if (const double mfu = recent(run, [](const StepRecord& step) { return step.mfu.value_or(NAN); }); std::isfinite(mfu))
    row.mfu = mfu;
  return row;
}

double seconds_left(const RunView& run) {
  return static_cast<double>(std::max<std::int64_t>(run.iterations() - run.metrics.steps.back().step, 0)) *
         present(run).step_s;
}

std::string count(std::int64_t number) { return format_grouped(static_cast<double>(number)); }

}  // namespace

std::string status_text(const RunView& run, const StatusStyle& style, std::optional<double> row_age) {
  const std::string state = run.state();
  const int columns = std::max(style.columns, 20);
  std::string text;
  const auto line = [&](const std::string& label, const std::string& value) {
    const std::string whole = cut(plain(fmt::format("{:<12}{}", label, value)), columns);
    const auto name = std::min<std::size_t>(12, whole.size());
    text += (style.colour ? "\x1b[2m" + whole.substr(0, name) + "\x1b[0m" + whole.substr(name) : whole) + "\n";
  };
  const std::string name = cut(plain(run.name), columns - static_cast<int>(state.size()) - 2);
  text += painted(name, "\x1b[1m", style) + "  " + painted(state, colour_of(state), style) + "\n";

  const std::int64_t total = run.iterations();
  if (!run.metrics.steps.empty()) {
    const StepRecord row = present(run);
    if (total > 0) {
      const double share = static_cast<double>(row.step) / static_cast<double>(total);
      const std::string rest = fmt::format(
          "] {:3.0f} %  step {} of {}{}", std::floor(std::min(share, 1.0) * 100.0), count(row.step), count(total),
          run.owner == RunView::Owner::kLive ? "  ETA " + format_clock(seconds_left(run)) : "");
      const int cells = std::clamp(columns - 1 - static_cast<int>(rest.size()), 0, 40);
      text += cut("[" + progress_bar(share, cells, style.unicode) + rest, columns) + "\n";
    } else {
      line("step", count(row.step));
    }
    std::string loss = fmt::format("{}   lr {}   grad norm {:.2f}", format_loss(row.loss), format_learning_rate(row.lr),
                                   row.grad_norm);
    line("loss", loss);
    if (!run.metrics.evaluations.empty()) {
      const EvaluationRecord& last = run.metrics.evaluations.back();
      line("valid loss", fmt::format("{} at step {}", format_loss(last.valid_loss), count(last.step)));
    }
    std::string speed;
    const auto add = [&](const std::string& part) { speed += (speed.empty() ? "" : "   ") + part; };
    if (std::isfinite(row.tokens_per_s)) add(format_grouped(row.tokens_per_s) + " tokens/s");
    if (std::isfinite(row.tflops_per_gpu)) add(format_tflops(row.tflops_per_gpu) + " a rank");
    if (row.mfu) add(fmt::format("MFU {:.1f} %", *row.mfu * 100.0));
    if (std::isfinite(row.step_s)) add(format_seconds(row.step_s) + " a step");
    if (row.mem_gib) add(format_gib(*row.mem_gib));
    if (!speed.empty()) line("speed", speed);
    if (style.unicode && run.metrics.steps.size() > 8) {
      std::vector<double> losses;
      for (const StepRecord& step : run.metrics.steps) losses.push_back(step.loss);
      line("", fmt::format("{} {}", sparkline(losses, std::min(columns - 36, 60)),
                           fmt::format("last {} steps", count(static_cast<std::int64_t>(losses.size())))));
    }
    if (run.owner == RunView::Owner::kLive && row_age) {
      const double usual = std::isfinite(row.step_s) ? row.step_s : 0.0;
      if (*row_age > std::max(kSilence, kSilentSteps * usual))
        text += painted(cut(fmt::format("{:<12}no step for {}", "silent", format_clock(*row_age)), columns), "\x1b[33m",
                        style) +
                "\n";
    }
  } else {
    line("step", "none completed yet");
  }

  if (const auto checkpoints = run.checkpoints(); !checkpoints.empty())
    line("checkpoint", fmt::format("step {}{}", count(checkpoints.back()),
                                   checkpoints.size() > 1 ? fmt::format(" and {} older", checkpoints.size() - 1) : ""));
  else
    line("checkpoint", "none");
  if (const std::string why = run.state_text(); !why.empty())
    line(run.owner == RunView::Owner::kLive ? "owner" : "why", why);
  line("directory", run.path.string());
  for (const std::string& problem : run.problems) line("problem", problem);
  return text;
}

std::string status_line(const RunView& run, const StatusStyle& style) {
  const std::string state = run.state();
  std::string progress = "no step yet";
  if (!run.metrics.steps.empty()) {
    const StepRecord row = present(run);
    progress = run.iterations() > 0 ? fmt::format("step {} of {}", count(row.step), count(run.iterations()))
                                    : "step " + count(row.step);
    progress += ", loss " + format_loss(row.loss);
    if (run.owner == RunView::Owner::kLive && run.iterations() > 0)
      progress += ", ETA " + format_clock(seconds_left(run));
  }
  const std::string name = plain(run.name);
  const std::string line = cut(fmt::format("{:<24}  {:<11}  {}", name, state, progress), std::max(style.columns, 20));
  if (!style.colour) return line + "\n";
  const auto at = line.find(state, std::min(name.size(), line.size()));
  if (at == std::string::npos) return line + "\n";
  return line.substr(0, at) + painted(state, colour_of(state), style) + line.substr(at + state.size()) + "\n";
}

}  // namespace railyard
