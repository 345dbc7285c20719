// The console of a run.
#include "runtime/report/console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "runtime/report/format.hpp"
#include "runtime/report/terminal.hpp"

namespace railyard {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(50);
constexpr double kForget = 0.05;  // weight of the newest step in the typical step time
constexpr int kBarCells = 20;

// A part of the line; the higher `rank`, the sooner it is left out.
struct Part {
  std::string text;
  int rank;
};

}  // namespace

void ConsoleOptions::set_terminal(int terminal_columns) {
  const char* term = std::getenv("TERM");
  columns = term != nullptr && std::strcmp(term, "dumb") == 0 ? 0 : std::max(terminal_columns, 0);
  colour = columns > 0 && colour_is_welcome();
  unicode = locale_is_utf8();
}

std::string step_line(const StepRecord& record, std::int64_t iterations, std::optional<double> seconds_left,
                      std::string_view device, std::optional<int> columns) {
  std::vector<Part> parts;
  parts.push_back(
      {iterations > 0 ? fmt::format("step {}/{}", record.step, iterations) : fmt::format("step {}", record.step), 0});
  parts.push_back({"loss " + format_loss(record.loss), 1});
  parts.push_back({"lr " + format_learning_rate(record.lr), 8});
  parts.push_back({fmt::format("grad norm {:.2f}", record.grad_norm), 7});
  if (std::isfinite(record.tokens_per_s)) parts.push_back({format_grouped(record.tokens_per_s) + " tokens/s", 3});
  if (std::isfinite(record.tflops_per_gpu))
    parts.push_back({fmt::format("{}/{}", format_tflops(record.tflops_per_gpu), device), 6});
  if (record.mfu) parts.push_back({fmt::format("MFU {:.1f} %", *record.mfu * 100.0), 5});
  if (record.mem_gib) parts.push_back({format_gib(*record.mem_gib), 9});
  if (std::isfinite(record.step_s)) parts.push_back({format_seconds(record.step_s), 4});
  if (seconds_left) parts.push_back({"ETA " + format_clock(*seconds_left), 2});

  const auto width = [&] {
    std::size_t sum = 0;
    for (const Part& part : parts) sum += part.text.size() + 3;
    return static_cast<int>(sum) - 3;
  };
  while (columns && width() > *columns && parts.size() > 1)
    parts.erase(
        std::max_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : " | ") + part.text;
  return line;
}

Console::Console(std::FILE* stream, ConsoleOptions options) : stream_(stream), options_(std::move(options)) {
  if (options_.format == ConsoleFormat::kMegatron) options_.columns = 0;
  options_.every = std::max<std::int64_t>(options_.every, 1);
}

Console::~Console() { finish(); }

void Console::step(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  const std::int64_t iterations = options_.iterations;
  last_ = record;
  last_is_printed_ = false;
  if (++steps_ == 1) {  // a resumed run counts on from what earlier starts had skipped
    const int bad = std::isfinite(record.loss) ? 0 : 1;
    printed_.skipped = std::max<std::int64_t>(record.skipped - bad, 0);
    printed_.nan = std::max<std::int64_t>(record.nan - bad, 0);
  }
  if (std::isfinite(record.step_s)) {
    // The first weights are larger, so that the mean starts from what is known.
    const double weight = std::max(kForget, 1.0 / static_cast<double>(steps_));
    typical_step_s_ += weight * (record.step_s - typical_step_s_);
    interval_.seconds += record.step_s;
  }
  ++interval_.steps;
  if (std::isfinite(record.loss)) {
    interval_.loss += record.loss;
    ++interval_.losses;
  }
  if (options_.columns > 0) {
    if (record.step == iterations || std::chrono::steady_clock::now() - drawn_at_ >= kRedraw) draw_bar();
    return;
  }
  if (steps_ > 1 && record.step % options_.every != 0 && record.step != iterations) return;
  print(options_.format == ConsoleFormat::kMegatron
            ? megatron_line(averaged())
            : step_line(averaged(), iterations, seconds_left(), options_.device));
  printed_ = last_;
  interval_ = {};
  last_is_printed_ = true;
}

void Console::evaluation(const EvaluationRecord& record) {
  const std::lock_guard lock(mutex_);
  evaluation_s_ += record.seconds;
  const double perplexity = std::exp(record.valid_loss);
  if (options_.format == ConsoleFormat::kMegatron) {
    print(fmt::format(" validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", record.step,
                      record.valid_loss, perplexity));
    return;
  }
  print(fmt::format("evaluation at step {}{} | valid loss {} | perplexity {:.2f} | {}", record.step,
                    options_.iterations > 0 ? fmt::format("/{}", options_.iterations) : "",
                    format_loss(record.valid_loss), perplexity, format_seconds(record.seconds)));
}

void Console::note(std::string_view text) {
  const std::lock_guard lock(mutex_);
  print(text);
}

void Console::finish() {
  const std::lock_guard lock(mutex_);
  if (options_.columns <= 0 || last_is_printed_) return;
  last_is_printed_ = true;
  bar_shown_ = false;
  std::fputs("\r\x1b[K", stream_);
  print(step_line(last_, options_.iterations, {}, options_.device));
}

// A whole line; the bar, if shown, is drawn again below it.
void Console::print(std::string_view line) {
  if (bar_shown_) std::fputs("\r\x1b[K", stream_);
  std::fwrite(line.data(), 1, line.size(), stream_);
  std::fputc('\n', stream_);
  if (bar_shown_) draw_bar();
  std::fflush(stream_);
}

void Console::draw_bar() {
  const double share =
      options_.iterations > 0 ? static_cast<double>(last_.step) / static_cast<double>(options_.iterations) : 0.0;
  const int columns = options_.columns - 1;  // a full row would wrap
  std::string line;
  const int bar_columns = kBarCells + 8;  // "[", "] ", "100 % "
  const bool with_bar = options_.iterations > 0 && columns >= bar_columns + 60;
  if (with_bar) {
    const std::string filled = progress_bar(share, kBarCells, options_.unicode);
    line = fmt::format("[{}{}{}] {:3.0f} % ", options_.colour ? "\x1b[36m" : "", filled,
                       options_.colour ? "\x1b[0m" : "", std::floor(share * 100.0));
  }
  line += step_line(averaged(), options_.iterations, seconds_left(), options_.device,
                    std::max(columns - (with_bar ? bar_columns + 1 : 0), 1));
  if (!with_bar && static_cast<int>(line.size()) > columns) line.resize(static_cast<std::size_t>(std::max(columns, 0)));
  line = "\r" + line + "\x1b[K";
  std::fwrite(line.data(), 1, line.size(), stream_);
  std::fflush(stream_);
  bar_shown_ = true;
  drawn_at_ = std::chrono::steady_clock::now();
}

// The latest step with the speed of the interval.
StepRecord Console::averaged() const {
  StepRecord record = last_;
  if (interval_.steps > 1 && interval_.seconds > 0.0 && std::isfinite(last_.step_s) && options_.columns <= 0) {
    const double mean = interval_.seconds / static_cast<double>(interval_.steps);
    // Every step of an interval does the same work but at a batch ramp, where this is the latest batch's speed.
    const double scale = last_.step_s / mean;
    record.step_s = mean;
    record.tokens_per_s *= scale;
    record.tokens_per_s_per_gpu *= scale;
    record.tflops_per_gpu *= scale;
    if (record.mfu) *record.mfu *= scale;
  }
  return record;
}

double Console::seconds_left() const {
  const double evaluation = evaluation_s_ / static_cast<double>(std::max<std::int64_t>(steps_, 1));
  return static_cast<double>(std::max<std::int64_t>(options_.iterations - last_.step, 0)) *
         (typical_step_s_ + evaluation);
}

std::string Console::megatron_line(const StepRecord& record) const {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S", &local);
  const double loss = interval_.losses > 0 ? interval_.loss / static_cast<double>(interval_.losses) : record.loss;
  return fmt::format(
      " [{}] iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): {:.1f} | "
      "throughput per GPU (TFLOP/s/GPU): {:.1f} | learning rate: {:.6E} | global batch size: {:5d} | lm loss: {:.6E} | "
      "loss scale: {:.1f} | grad norm: {:.3f} | number of skipped iterations: {:3d} | number of nan iterations: {:3d} "
      "|",
      time.data(), record.step, options_.iterations, record.consumed_samples, record.step_s * 1e3,
      record.tflops_per_gpu, record.lr, record.global_batch, loss, record.loss_scale, record.grad_norm,
      record.skipped - printed_.skipped, record.nan - printed_.nan);
}

}  // namespace railyard
