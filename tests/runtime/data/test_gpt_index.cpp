// GPT indices against vectors made by Megatron-Core's own code.
#include <gmock/gmock.h>

#include "runtime/base/error.hpp"
#include "runtime/data/gpt_index.hpp"
#include "runtime/data/numpy_shuffle.hpp"
#include "runtime/data/split.hpp"

namespace railyard::data {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

const std::vector<std::int32_t> kLengths{5, 3, 8, 1, 13, 2, 7, 4, 9, 6};

std::vector<std::int64_t> values(const IntArray& array) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < array.size(); ++i) out.push_back(array[i]);
  return out;
}

GptIndexRequest request(std::optional<std::int64_t> samples) {
  GptIndexRequest r;
  r.last = 10;
  r.seq_length = 8;
  r.samples = samples;
  return r;
}

TEST(GptIndex, OneEpochEqualsMegatron) {
  const GptIndex index = build_gpt_index(kLengths, request(std::nullopt));
  EXPECT_THAT(values(index.documents), ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
  EXPECT_THAT(values(index.samples), ElementsAre(0, 0, 1, 4, 2, 4, 4, 3, 5, 6, 6, 5, 7, 0, 8, 6));
  EXPECT_THAT(values(index.shuffle), ElementsAre(6, 4, 0, 5, 3, 2, 1));
  EXPECT_EQ(index.shuffle.type(), IntArray::Type::kUInt32);
  EXPECT_EQ(index.samples.type(), IntArray::Type::kInt32);
}

TEST(GptIndex, SeparateLastEpochEqualsMegatron) {
  const GptIndex index = build_gpt_index(kLengths, request(16));
  EXPECT_EQ(index.epochs, 3);
  EXPECT_TRUE(index.separate_last_epoch);
  EXPECT_THAT(values(index.documents), ElementsAre(3, 3, 2, 6, 4, 5, 4, 0, 8, 8, 7, 1, 0, 9, 7, 1, 9, 2, 6, 5,  //
                                                   8, 1, 7, 6, 9, 5, 4, 3, 0, 2));
  EXPECT_THAT(values(index.samples),
              ElementsAre(0, 0, 2, 6, 3, 6, 4, 7, 6, 0, 6, 8, 7, 3, 8, 6, 9, 5, 11, 0, 13, 0, 14, 2, 16, 3, 17, 5, 18,
                          5, 20, 4, 22, 0, 23, 4, 24, 5, 26, 5, 27, 0, 29, 2));
  EXPECT_THAT(values(index.shuffle),
              ElementsAre(10, 5, 13, 6, 1, 4, 8, 2, 3, 12, 9, 0, 11, 7, 15, 14, 19, 16, 18, 17, 20));
}

TEST(GptIndex, LastPartialSampleCountsOnRequest) {
  GptIndexRequest r = request(std::nullopt);
  r.drop_last_partial = false;  // 58 tokens: 57 / 8 leaves one token
  const GptIndex index = build_gpt_index(kLengths, r);
  ASSERT_EQ(index.shuffle.size(), 8U);
  EXPECT_EQ(index.samples[16], 9);  // ends in the last document, at its last token
  EXPECT_EQ(index.samples[17], 0);
}

TEST(GptIndex, EmptySplitIsAnError) {
  GptIndexRequest r = request(100);
  r.first = r.last = 4;
  EXPECT_THROW(build_gpt_index(kLengths, r), UsageError);
  const std::vector<std::int32_t> nothing(10, 0);
  EXPECT_THROW(build_gpt_index(nothing, request(100)), UsageError);
}

TEST(GptIndex, TooShortForOneSampleIsAnError) {
  const std::vector<std::int32_t> short_file{3, 3};
  GptIndexRequest r = request(std::nullopt);
  r.last = 2;
  EXPECT_THROW(build_gpt_index(short_file, r), UsageError);
}

TEST(NumpyShuffle, EqualsNumpy) {
  // numpy.random.RandomState(1234).shuffle(numpy.arange(10))
  std::vector<int> x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  NumpyRandomState(1234).shuffle(std::span(x));
  EXPECT_THAT(x, ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
  std::vector<int> one{7}, none;
  NumpyRandomState(1).shuffle(std::span(one));
  NumpyRandomState(1).shuffle(std::span(none));
  EXPECT_THAT(one, ElementsAre(7));
}

TEST(Split, RoundsHalvesToEvenAsMegatron) {
  const auto fractions = parse_split("969,30,1");
  const auto sizes = [&](std::int64_t n) {
    const auto b = split_bounds(fractions, n, SplitRounding::kHalfToEven);
    return std::vector<std::int64_t>{b[1] - b[0], b[2] - b[1], b[3] - b[2]};
  };
  EXPECT_THAT(sizes(10), ElementsAre(10, 0, 0));
  EXPECT_THAT(sizes(33), ElementsAre(32, 1, 0));
  EXPECT_THAT(sizes(50), ElementsAre(48, 2, 0));
  EXPECT_THAT(sizes(100), ElementsAre(97, 3, 0));
  EXPECT_THAT(sizes(1000), ElementsAre(969, 30, 1));
  EXPECT_THAT(sizes(12345), ElementsAre(11962, 371, 12));
}

TEST(Split, CutsDownForTexts) {
  const auto bounds = split_bounds(parse_split("90,10"), 1115394, SplitRounding::kDown);
  EXPECT_THAT(bounds, ElementsAre(0, 1003854, 1115394, 1115394));
}

TEST(Split, RefusesNonsense) {
  for (const char* bad : {"", "a", "0,0", "1,2,3,4", "1..2", ".", "1,-1"})
    EXPECT_THROW(parse_split(bad), UsageError) << bad;
}

}  // namespace
}  // namespace railyard::data
