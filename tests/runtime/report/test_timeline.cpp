// timeline.json and its picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.hpp"
#include "runtime/report/svg.hpp"
#include "runtime/report/timeline.hpp"

namespace railyard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PipelineTimeline two_stages() {
  PipelineTimeline timeline;
  timeline.step = 5;
  timeline.stages = 2;
  timeline.rows = {{0, "forward", 0, 0, 0.0, 1.0},
                   {1, "forward", 0, 0, 1.0, 2.0},
                   {1, "backward", 0, 0, 2.0, 4.0},
                   {0, "backward", 0, 0, 4.0, 6.0}};
  return timeline;
}

TEST(PipelineTimeline, GoesThroughJson) {
  const Json document = two_stages().to_json();
  EXPECT_EQ(document["rows"][2].dump(),
            R"({"stage":1,"operation":"backward","microbatch":0,"chunk":0,"begin":2.0,"end":4.0})");
  const PipelineTimeline back = PipelineTimeline::from_json(document, "timeline.json");
  EXPECT_EQ(back.to_json(), document);
  EXPECT_EQ(back.length(), 6.0);
}

TEST(PipelineTimeline, IdleShareCountsOverlappingRowsOnce) {
  PipelineTimeline timeline = two_stages();
  EXPECT_DOUBLE_EQ(timeline.idle_share(), 0.5);
  timeline.rows.push_back({1, "forward", 1, 0, 2.5, 5.0});  // beside the backward that ends at 4
  EXPECT_DOUBLE_EQ(timeline.idle_share(), 5.0 / 12.0);
  EXPECT_EQ(PipelineTimeline().idle_share(), 0.0);
}

TEST(PipelineTimeline, RefusesWhatMakesNoSense) {
  const auto refuse = [](const char* text) {
    EXPECT_THROW(PipelineTimeline::from_json(Json::parse(text), "timeline.json"), UsageError) << text;
  };
  refuse("[]");
  refuse(R"({"stages": 0, "rows": []})");
  refuse(R"({"stages": 99999999, "rows": []})");
  refuse(R"({"stages": 1})");
  refuse(R"({"stages": 1, "rows": [{"stage": 1, "operation": "forward", "microbatch": 0, "begin": 0, "end": 1}]})");
  refuse(R"({"stages": 1, "rows": [{"stage": 0, "operation": "forward", "microbatch": 0, "begin": 2, "end": 1}]})");
  refuse(R"({"stages": 1, "rows": [{"stage": 0, "operation": "forward", "microbatch": 0, "begin": 0, "end": null}]})");
  refuse(R"({"stages": 1, "rows": [{"stage": 0, "operation": "forward", "microbatch": 0, "begin": 0, "end": 1e300}]})");
}

TEST(DrawTimeline, EachRowIsABarInItsStagesLane) {
  const std::string svg = draw_timeline(two_stages());
  EXPECT_THAT(svg, HasSubstr("measured at step 5"));
  EXPECT_THAT(svg, HasSubstr("stages idle 50.0 %"));
  EXPECT_THAT(svg, HasSubstr("stage 1, backward of microbatch 0: 2.00 s from 2.00 s"));
  EXPECT_EQ(draw_timeline(PipelineTimeline()), "");
  PipelineTimeline simulated = two_stages();
  simulated.step = 0;
  EXPECT_THAT(draw_timeline(simulated), Not(HasSubstr("measured")));
}

// A long schedule must not make a long page.
TEST(DrawTimeline, OfManyRowsOnlyTheBeginIsDrawn) {
  PipelineTimeline timeline;
  timeline.stages = 100;
  for (int stage = 0; stage < 100; ++stage)
    for (int i = 0; i < 2000; ++i)
      timeline.rows.push_back({stage, i % 2 == 0 ? "forward" : "backward", i / 2, 0, i * 0.001, i * 0.001 + 0.001});
  const std::string svg = draw_timeline(timeline);
  EXPECT_LT(svg.size(), 400000u);
  EXPECT_THAT(svg, HasSubstr("its begin; the first 64 of 100 stages"));
}

}  // namespace
}  // namespace railyard
