// Shortening, smoothing and slow steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/report/series.hpp"
#include "tests/runtime/report/fixture.hpp"

namespace railyard {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::vector<StepRecord> rows_with(const std::vector<double>& losses, std::int64_t first = 1) {
  std::vector<StepRecord> rows;
  for (double loss : losses) {
    StepRecord row;
    row.step = first++;
    row.loss = loss;
    rows.push_back(row);
  }
  return rows;
}

double loss_of(const StepRecord& row) { return row.loss; }

TEST(Shorten, FewStepsStayAsTheyAre) {
  const ShortSeries series = shorten(rows_with({3.0, kUnknown, 1.0}, 10), loss_of, 3);
  EXPECT_TRUE(series.whole);
  EXPECT_EQ(series.steps, (std::vector<double>{10, 11, 12}));
  EXPECT_EQ(series.mean[0], 3.0);
  EXPECT_TRUE(std::isnan(series.mean[1]));
}

TEST(Shorten, EachPointHasTheExtremesAndTheMeanOfItsSteps) {
  const ShortSeries series = shorten(rows_with({4, 2, 6, 1, kUnknown, 3, kUnknown, kUnknown, kUnknown}), loss_of, 3);
  EXPECT_FALSE(series.whole);
  EXPECT_EQ(series.steps, (std::vector<double>{3, 6, 9}));
  EXPECT_EQ(series.low[0], 2.0);
  EXPECT_EQ(series.mean[0], 4.0);
  EXPECT_EQ(series.high[0], 6.0);
  EXPECT_EQ(series.mean[1], 2.0);
  EXPECT_TRUE(std::isnan(series.mean[2]));
}

TEST(Shorten, NeverMorePointsThanAskedFor) {
  std::vector<double> losses(100003);
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = static_cast<double>(i % 100);
  losses[54321] = 9999.0;  // one strange step among the 167 of a point
  const ShortSeries series = shorten(rows_with(losses), loss_of, 600);
  EXPECT_LE(series.steps.size(), 600u);
  EXPECT_GE(series.steps.size(), 590u);
  EXPECT_EQ(series.steps.back(), 100003.0);
  for (std::size_t i = 0; i < series.steps.size(); ++i) {
    EXPECT_NEAR(series.low[i], 5.0, 5.0) << i;
    EXPECT_NEAR(series.high[i], 95.0, 5.0) << i;
  }
  EXPECT_TRUE(shorten({}, loss_of, 600).steps.empty());
}

TEST(Smooth, AConstantStaysAndAStepIsFollowed) {
  const std::vector<double> constant = smooth(rows_with({2, 2, kUnknown, 2}), loss_of, 10);
  EXPECT_EQ(constant, (std::vector<double>{2, 2, 2, 2}));
  EXPECT_TRUE(std::isnan(smooth(rows_with({kUnknown}), loss_of, 10)[0]));
  std::vector<double> values(400, 0.0);
  std::fill(values.begin() + 200, values.end(), 1.0);
  const std::vector<double> followed = smooth(rows_with(values), loss_of, 20);
  EXPECT_EQ(followed[199], 0.0);
  EXPECT_NEAR(followed[219], 1.0 - std::exp(-1.0), 1e-9);  // a span after the step: all but 1/e of it
}

TEST(Quantile, IgnoresWhatIsUnknown) {
  EXPECT_EQ(quantile({5, kUnknown, 1, 3}, 0.5), 3.0);
  EXPECT_EQ(quantile({5, 1, 3}, 1.0), 5.0);
  EXPECT_TRUE(std::isnan(quantile({kUnknown}, 0.5)));
}

TEST(SlowSteps, FindsHiccupsButNeitherNoiseNorStartUp) {
  std::vector<StepRecord> rows;
  for (int step = 1; step <= 1000; ++step) {
    StepRecord row;
    row.step = step;
    // Half way the batch doubles and so does the time: that is no hiccup.
    row.step_s = (step <= 500 ? 1.0 : 2.0) + 0.02 * std::sin(step * 1.7);
    rows.push_back(row);
  }
  rows[0].step_s = 30.0;    // start-up
  rows[699].step_s = 25.0;  // start-up after a resume
  rows[249].step_s = 3.0;
  rows[899].step_s = 2.9;
  std::vector<std::int64_t> found;
  for (const SlowStep& step : slow_steps(rows, std::vector<std::int64_t>{700})) found.push_back(step.step);
  EXPECT_EQ(found, (std::vector<std::int64_t>{250, 900}));
  EXPECT_NEAR(slow_steps(rows, {})[0].usual, 1.0, 0.02);
}

}  // namespace
}  // namespace railyard
