// Philox4x32-10 against the known-answer vectors published with Random123.
#include <gtest/gtest.h>

#include <set>

#include "runtime/base/philox.hpp"

namespace railyard {
namespace {

void expect_block(const PhiloxBlock& got, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  EXPECT_EQ(got.x[0], a);
  EXPECT_EQ(got.x[1], b);
  EXPECT_EQ(got.x[2], c);
  EXPECT_EQ(got.x[3], d);
}

TEST(Philox, KnownAnswers) {
  expect_block(philox4x32(0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect_block(philox4x32(~0U, ~0U, ~0U, ~0U, ~0ULL), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  expect_block(philox4x32(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0x299f31d0a4093822ULL), 0xd16cfe09,
               0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(Philox, UniformNeverReachesItsEnds) {
  EXPECT_GT(uniform_open(0), 0.0F);
  EXPECT_LT(uniform_open(~0U), 1.0F);
}

TEST(Philox, StreamsOfDifferentNamesAndSeedsDiffer) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (const char* name : {"", "a", "b", "ab", "ba", "layers.0.mlp.up.weight"}) keys.insert(stream_key(seed, name));
  EXPECT_EQ(keys.size(), 60U);
}

}  // namespace
}  // namespace railyard
