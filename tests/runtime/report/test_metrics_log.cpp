// metrics.jsonl: what is written, and what a reader makes of a file that was written to, killed and resumed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/base/error.hpp"
#include "runtime/report/metrics_log.hpp"
#include "tests/runtime/report/fixture.hpp"

namespace railyard {
namespace {

using test::example_step;
using test::ScratchFolder;
using test::write_text;

TEST(MetricsLog, RowsHaveTheKeysOfTheContractInItsOrder) {
  StepRecord record = example_step(120);
  record.loss = 1.8857;
  record.mfu.reset();
  EXPECT_EQ(metrics_row(record).dump(),
            R"({"step":120,"loss":1.8857,"lr":0.001,"grad_norm":0.42,"tokens":1966080,"tokens_per_s":61564.0,)"
            R"("tokens_per_s_per_gpu":30782.0,"tflops_per_gpu":506.1,"mfu":null,"mem_gib":51.0,"step_s":0.266})");
  EXPECT_EQ(metrics_row(EvaluationRecord{500, 1.75, 2.5}).dump(), R"({"step":500,"valid_loss":1.75,"valid_s":2.5})");
}

TEST(MetricsLog, MoreKeysFollowAndWhatIsNotFiniteIsNull) {
  StepRecord record = example_step(1);
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  const Json row = metrics_row(record, Json{{"aux_loss", 0.25}});
  EXPECT_TRUE(row["loss"].is_null());
  EXPECT_TRUE(row["grad_norm"].is_null());
  EXPECT_TRUE(row.dump().ends_with(R"("step_s":0.266,"aux_loss":0.25})"));
}

TEST(MetricsLog, ReadsBackWhatWasWritten) {
  const ScratchFolder folder;
  {
    MetricsLog log(folder / "metrics.jsonl");
    log.append(EvaluationRecord{0, 4.5, 1.0});
    for (int step = 1; step <= 3; ++step) log.append(example_step(step), Json{{"expert_load_max_over_mean", 1.5}});
    log.sync();
  }
  const MetricsHistory history = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(history.steps.size(), 3u);
  EXPECT_EQ(history.skipped_lines, 0);
  const StepRecord expected = example_step(2), &row = history.steps[1];
  EXPECT_EQ(row.step, expected.step);
  EXPECT_EQ(row.loss, expected.loss);
  EXPECT_EQ(row.lr, expected.lr);
  EXPECT_EQ(row.grad_norm, expected.grad_norm);
  EXPECT_EQ(row.tokens, expected.tokens);
  EXPECT_EQ(row.tokens_per_s, expected.tokens_per_s);
  EXPECT_EQ(row.tokens_per_s_per_gpu, expected.tokens_per_s_per_gpu);
  EXPECT_EQ(row.tflops_per_gpu, expected.tflops_per_gpu);
  EXPECT_EQ(row.mfu, expected.mfu);
  EXPECT_EQ(row.mem_gib, expected.mem_gib);
  EXPECT_EQ(row.step_s, expected.step_s);
  ASSERT_EQ(history.evaluations.size(), 1u);
  EXPECT_EQ(history.evaluations[0].step, 0);
  EXPECT_EQ(history.evaluations[0].valid_loss, 4.5);
}

TEST(MetricsLog, ATornLastLineIsClosedFirst) {
  const ScratchFolder folder;
  write_text(folder / "metrics.jsonl", "{\"step\":1,\"loss\":4.0}\n{\"step\":2,\"lo");
  MetricsLog(folder / "metrics.jsonl").append(example_step(2));
  const MetricsHistory history = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(history.steps.size(), 2u);
  EXPECT_EQ(history.steps[1].loss, example_step(2).loss);
  EXPECT_EQ(history.skipped_lines, 1);
}

TEST(MetricsLog, LaterRowsWinAndAReturnIsSeen) {
  const ScratchFolder folder;
  write_text(
      folder / "metrics.jsonl",
      "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n{\"step\":3,\"loss\":3}\n{\"step\":2,\"valid_loss\":9}\n"
      "{\"step\":2,\"loss\":4.5}\n{\"step\":2,\"valid_loss\":8}\n{\"step\":4,\"loss\":2}\n");
  const MetricsHistory history = read_metrics(folder / "metrics.jsonl");
  std::vector<std::pair<std::int64_t, double>> rows;
  for (const StepRecord& row : history.steps) rows.emplace_back(row.step, row.loss);
  EXPECT_EQ(rows, (std::vector<std::pair<std::int64_t, double>>{{1, 5.0}, {2, 4.5}, {3, 3.0}, {4, 2.0}}));
  EXPECT_EQ(history.resumes, std::vector<std::int64_t>{2});
  ASSERT_EQ(history.evaluations.size(), 1u);
  EXPECT_EQ(history.evaluations[0].valid_loss, 8.0);
}

TEST(MetricsLog, LinesThatAreNoRowsAreCountedAndUnknownKeysIgnored) {
  const ScratchFolder folder;
  const std::string deep(5000, '[');
  const std::string long_line(3 << 20, 'x');
  const std::vector<std::string> bad = {"null",
                                        "5",
                                        "\"step\"",
                                        "[1]",
                                        "{}",
                                        "{\"step\":3}",
                                        "{\"loss\":1}",
                                        "{\"step\":\"3\",\"loss\":1}",
                                        "{\"step\":-1,\"loss\":1}",
                                        "{\"step\":1.5,\"loss\":1}",
                                        "{\"step\":1,\"loss\":1} x",
                                        "{\"step\":1,\"loss\":[1]}",
                                        "{\"step\":1,\"loss\":true}",
                                        "{\"step\":1,\"loss\":1e999}",
                                        std::string("\0\0\0", 3),
                                        "\xff\xfe",
                                        "{\"a\":" + deep,
                                        long_line};
  std::string text =
      "{\"step\":7,\"loss\":2.5,\"mfu\":null,\"new\":{\"loss\":99,\"list\":[1,{\"step\":4}]},\"text\":\"x\",\"flag\":"
      "true}\n";
  for (const std::string& line : bad) text += line + "\n";
  text += "{\"step\":8,\"loss\":null}\n\n";
  write_text(folder / "metrics.jsonl", text);
  const MetricsHistory history = read_metrics(folder / "metrics.jsonl");
  EXPECT_EQ(history.skipped_lines, static_cast<std::int64_t>(bad.size()));
  ASSERT_EQ(history.steps.size(), 2u);
  EXPECT_EQ(history.steps[0].step, 7);
  EXPECT_EQ(history.steps[0].loss, 2.5);
  EXPECT_FALSE(history.steps[0].mfu.has_value());
  EXPECT_TRUE(std::isnan(history.steps[0].step_s));
  EXPECT_TRUE(std::isnan(history.steps[1].loss));
}

TEST(MetricsLog, TheTailBeginsAtAWholeLine) {
  const ScratchFolder folder;
  std::string text;
  for (int step = 1; step <= 100; ++step) text += metrics_row(example_step(step)).dump() + "\n";
  write_text(folder / "metrics.jsonl", text);
  const std::size_t row = metrics_row(example_step(100)).dump().size() + 1;
  EXPECT_EQ(read_metrics_tail(folder / "metrics.jsonl", static_cast<std::int64_t>(row)).steps.size(), 1u);
  EXPECT_EQ(read_metrics_tail(folder / "metrics.jsonl", static_cast<std::int64_t>(row) - 1).steps.size(), 0u);
  const MetricsHistory tail = read_metrics_tail(folder / "metrics.jsonl", 2000);
  ASSERT_FALSE(tail.steps.empty());
  EXPECT_EQ(tail.steps.back().step, 100);
  EXPECT_EQ(tail.skipped_lines, 0);
  EXPECT_EQ(read_metrics_tail(folder / "metrics.jsonl", 1 << 30).steps.size(), 100u);
}

TEST(MetricsLog, MissingIsEmptyAndUnreadableIsAnError) {
  const ScratchFolder folder;
  EXPECT_TRUE(read_metrics(folder / "metrics.jsonl").steps.empty());
  EXPECT_THROW(read_metrics(folder.path()), UsageError);
  EXPECT_THROW(MetricsLog(folder / "none/metrics.jsonl"), RunError);
}

// Every write to /dev/full says that the disk is full.
TEST(MetricsLog, AFullDiskIsAnErrorThatNamesTheFile) {
  try {
    AppendFile("/dev/full").append("row\n");
    FAIL() << "nothing was thrown";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/full: cannot append: No space left"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace railyard
