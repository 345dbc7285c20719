// Which device each rank of a node takes, from what it sees.
#include <gmock/gmock.h>

#include "launch/bootstrap/devices.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

VisibleDevices seen(int count, const std::string& mask = "", int on_node = 8, int openable = 8) {
  return {.count = count, .mask = mask, .on_node = on_node, .openable = openable};
}

TEST(DeviceOrdinals, RanksThatSeeAllDivideThem) {
  EXPECT_THAT(device_ordinals("n", {seen(4), seen(4), seen(4)}), testing::ElementsAre(0, 1, 2));
}

TEST(DeviceOrdinals, AMaskOfItsOwnGivesItsFirst) {
  EXPECT_THAT(device_ordinals("n", {seen(1, "3"), seen(1, "1"), seen(1, "7")}), testing::ElementsAre(0, 0, 0));
}

TEST(DeviceOrdinals, RefusesToShareWithoutBeingAsked) {
  EXPECT_THROW((void)device_ordinals("n", {seen(1), seen(1)}), UsageError);
  EXPECT_THROW((void)device_ordinals("n", {seen(2, "0,1"), seen(2, "0,2")}), UsageError);
}

TEST(DeviceOrdinals, SharesInTurnWhenAskedButNeverMig) {
  EXPECT_THAT(device_ordinals("n", {seen(2), seen(2), seen(2), seen(2)}, true), testing::ElementsAre(0, 1, 0, 1));
  EXPECT_THROW((void)device_ordinals("n", {seen(1, "MIG-a"), seen(1, "MIG-a")}, true), UsageError);
  EXPECT_THROW((void)device_ordinals("n", {seen(0), seen(0)}, true), UsageError);
}

}  // namespace
}  // namespace railyard::launch
