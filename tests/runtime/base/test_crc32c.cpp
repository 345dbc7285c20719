// CRC-32C against its published answers, and both implementations against each other at every length and split.
#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

#include "runtime/base/crc32c.hpp"

namespace railyard {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Crc32c, PublishedAnswers) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c({}), 0U);
  const std::vector<std::byte> zeros(32), ones(32, std::byte{0xff});
  EXPECT_EQ(crc32c(zeros), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(ones), 0x62a8ab43U);
  EXPECT_EQ(crc32c_portable(bytes("123456789")), 0xe3069283U);
}

TEST(Crc32c, ImplementationsAgreeAndPiecesJoin) {
  std::mt19937 random(7);
  std::vector<std::byte> data(10000);
  for (std::byte& b : data) b = static_cast<std::byte>(random());
  const std::span<const std::byte> all(data);
  for (std::size_t size = 0; size < data.size(); size += size < 64 ? 1 : 97) {
    const std::uint32_t whole = crc32c_portable(all.first(size));
    ASSERT_EQ(crc32c(all.first(size)), whole) << size;
    const std::size_t cut = size == 0 ? 0 : random() % size;
    ASSERT_EQ(crc32c(all.subspan(cut, size - cut), crc32c(all.first(cut))), whole) << size << " " << cut;
  }
}

}  // namespace
}  // namespace railyard
