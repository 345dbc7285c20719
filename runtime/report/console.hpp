// What a run prints while it trains: a live bar on a terminal, a line a step in a log, evaluations, notes.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/report/metrics.hpp"

namespace railyard {

enum class ConsoleFormat {
  kRailyard,  // step 120/2000 | loss 1.8857 | lr 1.00E-3 | grad norm 0.42 | ...
  kMegatron,  // the log lines of Megatron-LM, for those who grep them; never a bar
};

struct ConsoleOptions {
  ConsoleFormat format = ConsoleFormat::kRailyard;
  std::int64_t iterations = 0;  // of the whole run
  std::int64_t every = 1;       // print a line every so many steps (log.every), and of the first and the last step
  std::string device = "GPU";   // what one rank computes on, as in TFLOP/s/GPU
  int columns = 0;              // width of the terminal to draw the bar on; 0: none, plain lines
  bool colour = false;
  bool unicode = false;

  // Fills the last three: the width is what the launcher knows of the terminal at the far end (RankContext), taken back
  // on a dumb one; NO_COLOR and the locale decide the others.
  void set_terminal(int terminal_columns);
};

// Lines for people. Calls may come from several threads; nothing is thrown (a closed pipe is the reader's wish).
class Console {
 public:
  Console(std::FILE* stream, ConsoleOptions options);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  // finish()

  // One completed step. Loss, learning rate and gradient norm of a line are the step's; its speed and time are means
  // since the line before. (In Megatron's format the loss is such a mean too, as there.)
  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  // A line of its own, above the bar.
  void note(std::string_view text);
  // Leaves the last step as a plain line where the bar was. Nothing when there is none.
  void finish();

 private:
  // Sums since the last line.
  struct Interval {
    std::int64_t steps = 0, losses = 0;
    double seconds = 0.0, loss = 0.0;
  };

  void print(std::string_view line);
  void draw_bar();
  [[nodiscard]] StepRecord averaged() const;
  [[nodiscard]] double seconds_left() const;
  [[nodiscard]] std::string megatron_line(const StepRecord& record) const;

  std::FILE* stream_;
  ConsoleOptions options_;
  std::mutex mutex_;
  StepRecord last_;     // the latest step
  StepRecord printed_;  // the step of the last line
  Interval interval_;
  double typical_step_s_ = 0.0;  // a mean that forgets: early steps are slow
  double evaluation_s_ = 0.0;    // spent so far
  std::int64_t steps_ = 0;       // seen by this process
  bool bar_shown_ = false, last_is_printed_ = true;
  std::chrono::steady_clock::time_point drawn_at_{};
};

// `step 120/2000 | loss 1.8857 | lr 1.00E-3 | grad norm 0.42 | 61,564 tokens/s | 506.1 TFLOP/s/GPU | MFU 51.1 % | 51.0
// GiB | 0.27 s | ETA 00:08:12`; what is unknown is left out. With `columns`, the least important parts are left out
// until the line fits.
std::string step_line(const StepRecord& record, std::int64_t iterations, std::optional<double> seconds_left,
                      std::string_view device = "GPU", std::optional<int> columns = {});

}  // namespace railyard
