// Run directories, whole and broken, as report and status show them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.hpp"
#include "runtime/report/metrics_log.hpp"
#include "runtime/report/report_page.hpp"
#include "runtime/report/status_text.hpp"
#include "runtime/report/svg.hpp"
#include "tests/runtime/report/fixture.hpp"

namespace railyard {
namespace {

using test::example_step;
using test::ScratchFolder;
using test::write_text;
using ::testing::HasSubstr;
using ::testing::Not;

// A failure names what is missing, without the page.
::testing::AssertionResult shows(const std::string& page, const std::string& part) {
  if (page.find(part) != std::string::npos) return ::testing::AssertionSuccess() << "the page shows: " << part;
  return ::testing::AssertionFailure() << "the page does not show: " << part;
}

// A run of 2,000 steps of which `steps` are done, on two nodes.
void write_run(const std::filesystem::path& path, int steps) {
  std::string metrics = metrics_row(EvaluationRecord{0, 4.6, 1.0}).dump() + "\n";
  for (int step = 1; step <= steps; ++step) metrics += metrics_row(example_step(step)).dump() + "\n";
  metrics += metrics_row(EvaluationRecord{steps, 1.75, 1.0}).dump() + "\n";
  write_text(path / "metrics.jsonl", metrics);
  write_text(
      path / "job.json",
      R"({"name": "first", "model": {"layers": 4, "hidden": 256, "seq_length": 512}, "parallel": {"tp": 2, "pp": 1},
                 "train": {"iterations": 2000, "global_batch": 16, "precision": "bf16"}, "checkpoint": {"dir": "ckpt", "every": 100}})");
  write_text(path / "job.lua", "return job { name = \"first\" }  -- <script>alert(1)</script>\n");
  write_text(path / "placement-1.json", "[]");
  write_text(path / "placement-2.json",
             R"({"schema": 1, "ranks": [{"rank": 0, "node": "node1", "gpu": 0, "tp": 0, "dp": 0, "pp": 0},
                                        {"rank": 1, "node": "node2", "gpu": 0, "tp": 1, "dp": 0, "pp": 0}]})");
  std::filesystem::create_directories(path / "ckpt/step-100");
  std::filesystem::create_directories(path / "ckpt/step-200");
  std::filesystem::create_directories(path / "ckpt/.trash");
}

TEST(RunView, ReadsWhatIsThere) {
  const ScratchFolder folder;
  write_run(folder.path(), 20);
  const RunView run = view_run(folder.path());
  EXPECT_EQ(run.name, "first");
  EXPECT_EQ(run.iterations(), 2000);
  EXPECT_EQ(run.starts, 2);
  EXPECT_EQ(run.metrics.steps.size(), 20u);
  EXPECT_EQ(run.checkpoints(), (std::vector<std::int64_t>{100, 200}));
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.state(), "ended");
}

TEST(RunView, StatesFollowTheOwnerThenWhyJson) {
  const ScratchFolder folder;
  write_run(folder.path(), 20);
  const auto state_with = [&](const char* why) {
    write_text(folder / "why.json", why);
    return view_run(folder.path()).state();
  };
  EXPECT_EQ(state_with(R"({"exit": 0, "reason": "finished", "detail": "all iterations done"})"), "done");
  EXPECT_EQ(state_with(R"({"exit": 75, "reason": "signal", "detail": "stopped early with a checkpoint"})"), "stopped");
  EXPECT_EQ(state_with(R"({"exit": 1, "reason": "not_finite", "detail": "the loss of step 21 is not finite"})"),
            "failed");
  RunView run = view_run(folder.path());
  EXPECT_EQ(run.state_text(), "the loss of step 21 is not finite");
  run.owner = RunView::Owner::kLive;
  EXPECT_EQ(run.state(), "running");
  run.owner = RunView::Owner::kDead;
  EXPECT_EQ(run.state(), "died");
}

TEST(RunView, BrokenFilesAreProblemsNotErrors) {
  const ScratchFolder folder;
  write_text(folder / "job.json", "{\"name\": ");
  write_text(folder / "metrics.jsonl", "nonsense\n{\"step\":1,\"loss\":2.0}\n");
  write_text(folder / "why.json", "[1, 2");
  write_text(folder / "log/timeline.json", "{\"stages\": -1, \"rows\": []}");
  write_text(folder / "placement-99999999999999999999.json", "{}");
  std::filesystem::create_directories(folder / "job.lua");
  const RunView run = view_run(folder.path());
  EXPECT_EQ(run.problems.size(), 5u) << ::testing::PrintToString(run.problems);
  EXPECT_EQ(run.metrics.steps.size(), 1u);
  const std::string page = report_page(run);
  EXPECT_TRUE(shows(page, "metrics.jsonl: 1 line is torn or not a row, left out"));
  EXPECT_THAT(status_text(run, {}), HasSubstr("loss        2.0000"));
}

TEST(RunView, AnythingButARunDirectoryIsRefused) {
  const ScratchFolder folder;
  EXPECT_THROW(view_run(folder / "none"), UsageError);
  EXPECT_THROW(view_run(folder.path()), UsageError);
  write_text(folder / "file", "x");
  EXPECT_THROW(view_run(folder / "file"), UsageError);
}

TEST(RunView, OddDocumentsAreSurvived) {
  const ScratchFolder folder;
  for (const char* text :
       {"null", "3", "\"x\"", "[]", "[[1]]", "{\"train\": 3, \"parallel\": [], \"name\": {}}",
        "{\"ranks\": [{\"node\": {}}, 3, {\"rank\": \"x\", \"pp\": 1e300, \"node\": \"n\", \"tp\": -5}]}",
        "{\"train\": {\"iterations\": 1e300}, \"exit\": \"x\", \"checkpoint\": {\"every\": -3, \"dir\": 4}}"}) {
    write_text(folder / "job.json", text);
    write_text(folder / "why.json", text);
    write_text(folder / "placement-1.json", text);
    write_text(folder / "metrics.jsonl",
               "{\"step\":9223372036854775807,\"loss\":1e308}\n{\"step\":0,\"loss\":-1e308}\n");
    const RunView run = view_run(folder.path());
    EXPECT_TRUE(shows(report_page(run), "</html>")) << text;
    EXPECT_THAT(status_text(run, {}), HasSubstr("directory")) << text;
  }
}

TEST(ReportPage, StandsAloneAndShowsEverything) {
  const ScratchFolder folder;
  write_run(folder.path(), 300);
  RunView run = view_run(folder.path());
  run.timeline = PipelineTimeline{.step = 3, .stages = 1, .rows = {{0, "forward", 0, 0, 0.0, 1.0}}};
  const std::string page = report_page(run);
  for (const char* part :
       {"<title>first · Railyard</title>", "id=\"loss\"", "id=\"lr\"", "id=\"grad\"", "id=\"speed\"", "id=\"mfu\"",
        "id=\"time\"", "id=\"memory\"", "Pipeline timeline", "Placement of start 2", "node2", "global_batch", "tp 2"})
    EXPECT_TRUE(shows(page, part));
  for (const char* part : {"http://", "https://", "<link", "src=", "@import", "url(h", "<script>alert", "nan", "inf"})
    EXPECT_FALSE(shows(page, part));
}

TEST(ReportPage, StaysSmallForALongRun) {
  const ScratchFolder folder;
  write_run(folder.path(), 1);
  RunView run = view_run(folder.path());
  run.metrics.steps.clear();
  for (int step = 1; step <= 200000; ++step) {
    StepRecord row = example_step(step);
    row.loss += 0.1 * std::sin(step * 0.7);
    row.grad_norm += 0.1 * std::sin(step * 0.3);
    row.step_s += step % 50 == 0 ? 3.0 : 0.0;
    run.metrics.steps.push_back(row);
    if (step % 10 == 0) run.metrics.evaluations.push_back({step, row.loss, 1.0});
  }
  Json ranks = Json::array();
  for (int rank = 0; rank < 4096; ++rank)
    ranks.push_back({{"rank", rank}, {"node", fmt::format("n{}", rank / 8)}, {"pp", rank % 8}});
  run.placement = ranks;
  const std::string page = report_page(run);
  EXPECT_LT(page.size(), 1000000u);
  EXPECT_TRUE(shows(page, "and 3072 more"));
  EXPECT_TRUE(shows(page, "4,000 of 200,000 steps took much longer"));
}

TEST(ReportPage, ARunWithoutStepsSaysSo) {
  const ScratchFolder folder;
  write_text(folder / "job.json", "{\"name\": \"new\"}");
  EXPECT_TRUE(shows(report_page(view_run(folder.path())), "No step has been completed yet."));
}

TEST(EscapeHtml, MakesTextHarmless) {
  EXPECT_EQ(escape_html("<a b='c'>\"&\x01\n"), "&lt;a b=&#39;c&#39;&gt;&quot;&amp;\n");
  EXPECT_EQ(escape_html("\xff\xc3\xa9"), "\xef\xbf\xbd\xc3\xa9");
}

TEST(AxisTicks, AreRound) {
  EXPECT_EQ(axis_ticks(0.0, 10.0, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_ticks(-1.0, 1.0, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_TRUE(axis_ticks(1.0, 1.0, 4).empty());
  EXPECT_LE(axis_ticks(0.0, 1e308, 4).size(), 100u);
}

TEST(StatusText, SaysHowALiveRunIsDoing) {
  const ScratchFolder folder;
  write_run(folder.path(), 500);
  RunView run = view_run(folder.path(), {.whole = false});
  run.owner = RunView::Owner::kLive;
  run.owner_text = "anna on node3 (process 4711)";
  const std::string text = status_text(run, {.columns = 100}, 2.0);
  EXPECT_THAT(text, HasSubstr("first  running\n"));
  EXPECT_THAT(text, HasSubstr("[##########"));
  EXPECT_THAT(text, HasSubstr("]  25 %  step 500 of 2,000  ETA 00:06:39\n"));
  EXPECT_THAT(text, HasSubstr("loss        1.5000   lr 1.00E-3   grad norm 0.42\n"));
  EXPECT_THAT(text, HasSubstr("valid loss  1.7500 at step 500\n"));
  EXPECT_THAT(
      text, HasSubstr("speed       61,564 tokens/s   506.1 TFLOP/s a rank   MFU 51.1 %   0.27 s a step   51.0 GiB\n"));
  EXPECT_THAT(text, HasSubstr("checkpoint  step 200 and 1 older\n"));
  EXPECT_THAT(text, HasSubstr("owner       held by anna on node3 (process 4711)\n"));
  EXPECT_THAT(text, Not(HasSubstr("silent")));
  EXPECT_THAT(status_text(run, {.columns = 100}, 300.0), HasSubstr("silent      no step for 00:05:00\n"));
  EXPECT_EQ(status_line(run, {.columns = 100}),
            "first                     running      step 500 of 2,000, loss 1.5000, ETA 00:06:39\n");
}

TEST(StatusText, FitsTheTerminalAndPassesNoControlCharacters) {
  const ScratchFolder folder;
  write_run(folder.path(), 50);
  write_text(folder / "why.json", R"({"exit": 1, "detail": "\u001b[2Jbad\n)" + std::string(500, 'x') + "\"}");
  const RunView run = view_run(folder.path());
  for (int columns : {1, 20, 40, 80}) {
    std::istringstream lines(status_text(run, {.columns = columns}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(columns, 20)));
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace railyard
