// The lines of the console, byte for byte, in a log and on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <memory>

#include "runtime/report/console.hpp"
#include "runtime/report/format.hpp"
#include "tests/runtime/report/fixture.hpp"

namespace railyard {
namespace {

using test::example_step;
using ::testing::HasSubstr;
using ::testing::Not;

// A stream in memory.
class Captured {
 public:
  Captured() : stream_(::open_memstream(&text_, &size_), &std::fclose) {}
  ~Captured() {
    stream_.reset();
    std::free(text_);
  }
  [[nodiscard]] std::FILE* stream() const { return stream_.get(); }
  [[nodiscard]] std::string text() const {
    std::fflush(stream_.get());
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_;
};

ConsoleOptions options(std::int64_t every = 1) {
  ConsoleOptions result;
  result.iterations = 2000;
  result.every = every;
  return result;
}

TEST(Format, Numbers) {
  EXPECT_EQ(format_learning_rate(1e-3), "1.00E-3");
  EXPECT_EQ(format_learning_rate(2.5e-12), "2.50E-12");
  EXPECT_EQ(format_learning_rate(0.0), "0.00E0");
  EXPECT_EQ(format_learning_rate(12.0), "1.20E1");
  EXPECT_EQ(format_grouped(999.4), "999");
  EXPECT_EQ(format_grouped(61564), "61,564");
  EXPECT_EQ(format_grouped(-1234567), "-1,234,567");
  EXPECT_EQ(format_significant(506.07), "506.1");
  EXPECT_EQ(format_significant(5.06), "5.06");
  EXPECT_EQ(format_significant(0.00512), "0.00512");
  EXPECT_EQ(format_seconds(0.266), "0.27 s");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(31.44), "31.4 s");
  EXPECT_EQ(format_clock(492), "00:08:12");
  EXPECT_EQ(format_clock(2 * 86400 + 3 * 3600 + 245), "2d 03:04:05");
  EXPECT_EQ(format_clock(std::numeric_limits<double>::quiet_NaN()), "unknown");
  EXPECT_EQ(format_gib(51.0), "51.0 GiB");
  EXPECT_EQ(format_gib(0.0283), "29.0 MiB");
  EXPECT_EQ(format_tflops(506.07), "506.1 TFLOP/s");
  EXPECT_EQ(format_tflops(9.674e-6), "9.67 MFLOP/s");
  EXPECT_EQ(format_bytes(1000), "1000 B");
  EXPECT_EQ(format_bytes(54760833024.0), "51.0 GiB");
}

TEST(Console, PrintsTheLineThatUsersKnow) {
  const Captured out;
  StepRecord record = example_step(120);
  record.loss = 1.8857;
  Console(out.stream(), options()).step(record);
  EXPECT_EQ(
      out.text(),
      "step 120/2000 | loss 1.8857 | lr 1.00E-3 | grad norm 0.42 | 61,564 tokens/s | 506.1 TFLOP/s/GPU | MFU 51.1 % | "
      "51.0 GiB | 0.27 s | ETA 00:08:20\n");
}

TEST(Console, LeavesOutWhatIsUnknownAndNamesTheDevice) {
  const Captured out;
  StepRecord record = example_step(1);
  record.mfu.reset();
  record.mem_gib.reset();
  record.tflops_per_gpu = 0.0213;
  ConsoleOptions cpu = options();
  cpu.device = "rank";
  Console(out.stream(), cpu).step(record);
  EXPECT_THAT(out.text(), HasSubstr(" tokens/s | 21.3 GFLOP/s/rank | 0.27 s | ETA"));
}

TEST(Console, ALogHoldsTheFirstStepEachTenthAndTheLast) {
  const Captured out;
  Console console(out.stream(), options(10));
  for (int step = 1; step <= 20; ++step) console.step(example_step(step));
  console.step(example_step(2000));
  std::string expected_steps;
  std::istringstream lines(out.text());
  for (std::string line; std::getline(lines, line);) expected_steps += line.substr(0, line.find(" |")) + ";";
  EXPECT_EQ(expected_steps, "step 1/2000;step 10/2000;step 20/2000;step 2000/2000;");
  EXPECT_THAT(out.text(), Not(HasSubstr("\x1b")));
}

TEST(Console, ALineGivesTheMeanSpeedSinceTheLineBefore) {
  const Captured out;
  Console console(out.stream(), options(2));
  StepRecord record = example_step(1);
  console.step(record);
  record.step = 2;  // the line for 2 covers step 2 alone, that for 4 covers 3 and 4
  console.step(record);
  record.step = 3;
  record.step_s = 3.0;
  console.step(record);
  record.step = 4;
  record.step_s = 1.0;
  record.tokens_per_s = 16384.0;
  console.step(record);
  EXPECT_THAT(out.text(), HasSubstr("step 4/2000 | loss "));
  EXPECT_THAT(out.text(), HasSubstr("| 8,192 tokens/s |"));
  EXPECT_THAT(out.text(), HasSubstr("| 2.00 s |"));
}

TEST(Console, EvaluationsAndNotesAreLines) {
  const Captured out;
  Console console(out.stream(), options());
  console.evaluation({500, 1.7421, 3.2});
  console.note("checkpoint 500 written");
  EXPECT_EQ(out.text(),
            "evaluation at step 500/2000 | valid loss 1.7421 | perplexity 5.71 | 3.20 s\ncheckpoint 500 written\n");
}

TEST(Console, MegatronsFormatIsGreppedAsThere) {
  const Captured out;
  ConsoleOptions megatron = options(2);
  megatron.format = ConsoleFormat::kMegatron;
  megatron.columns = 120;  // must not bring the bar back
  Console console(out.stream(), megatron);
  StepRecord record = example_step(101);
  record.loss = 2.0;
  record.nan = record.skipped = 7;
  console.step(record);
  record.step = 103;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.nan = record.skipped = 8;
  console.step(record);
  record.step = 104;
  record.loss = 4.0;
  record.consumed_samples = 1664;
  console.step(record);
  console.evaluation({104, 1.7421, 3.2});
  const std::string text = out.text();
  EXPECT_THAT(text, HasSubstr("] iteration      101/    2000 | "));
  EXPECT_THAT(text, HasSubstr("number of skipped iterations:   0 | number of nan iterations:   0 |\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "] iteration      104/    2000 | consumed samples:         1664 | elapsed time per iteration (ms): 266.0 | "
          "throughput per GPU (TFLOP/s/GPU): 506.1 | learning rate: 1.000000E-03 | global batch size:    16 | "
          "lm loss: 4.000000E+00 | loss scale: 1.0 | grad norm: 0.420 | number of skipped iterations:   1 | "
          "number of nan iterations:   1 |\n"));
  EXPECT_THAT(text, HasSubstr(" validation loss at iteration 104 | lm loss value: 1.742100E+00 | lm loss PPL: "));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Console, TheBarIsRedrawnInPlaceAndEndsAsALine) {
  const Captured out;
  ConsoleOptions terminal = options();
  terminal.columns = 200;
  Console console(out.stream(), terminal);
  console.step(example_step(500));
  const std::string first = out.text();
  EXPECT_TRUE(first.starts_with("\r[#####               ]  25 % step 500/2000 | loss ")) << first;
  EXPECT_TRUE(first.ends_with("\x1b[K"));
  EXPECT_EQ(first.find('\n'), std::string::npos);
  console.note("a note");
  EXPECT_THAT(out.text(), HasSubstr("\r\x1b[Ka note\n\r[#####"));
  console.finish();
  console.finish();
  const std::string text = out.text();
  EXPECT_TRUE(text.ends_with(" | 0.27 s\n")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

// Whatever the width, a drawn line never wraps: it would leave rubbish at each redrawing.
TEST(Console, TheBarFitsAnyWidth) {
  for (int columns : {1, 5, 20, 40, 60, 69, 80, 100, 140, 300}) {
    const Captured out;
    ConsoleOptions terminal = options();
    terminal.columns = columns;
    Console(out.stream(), terminal).step(example_step(500));
    const std::string text = out.text();
    const auto end = text.find("\x1b[K");
    ASSERT_NE(end, std::string::npos);
    EXPECT_LE(end - 1, static_cast<std::size_t>(std::max(columns - 1, 0))) << columns;
    EXPECT_EQ(text.find("step 500/2000") < end, columns >= 20) << columns;
    EXPECT_EQ(text.find("ETA") < end, columns >= 60) << columns;
  }
}

TEST(Console, TheEnvironmentDecidesOnBarAndColour) {
  ConsoleOptions detected;
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  detected.set_terminal(132);
  EXPECT_EQ(detected.columns, 132);
  EXPECT_TRUE(detected.colour);
  ::setenv("NO_COLOR", "1", 1);
  detected.set_terminal(132);
  EXPECT_EQ(detected.columns, 132);
  EXPECT_FALSE(detected.colour);
  ::setenv("TERM", "dumb", 1);
  detected.set_terminal(132);
  EXPECT_EQ(detected.columns, 0);
}

}  // namespace
}  // namespace railyard
