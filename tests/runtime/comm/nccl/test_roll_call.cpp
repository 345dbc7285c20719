// The roll call between ranks that are threads of this process.
#include <gtest/gtest.h>

#include <atomic>

#include "runtime/comm/nccl/roll_call.hpp"
#include "tests/support/thread_world.hpp"

namespace railyard::nccl {
namespace {

TEST(RollCall, NamesWhoHasNotCome) {
  std::atomic<bool> asked = false;
  std::string all, some;
  test::run_threads(3, [&](Communicator& host) {
    RollCall call(host);
    const Line line = line_of("tp 0", {0, 1, 2}), other = line_of("dp 0", {0, 1, 2});
    for (int i = 0; i < 4; ++i) call.come(line);
    EXPECT_EQ(call.come(other), 1);
    if (host.rank() != 1) {
      EXPECT_EQ(call.come(line), 5);
    }
    host.barrier();
    if (host.rank() == 0) {
      all = call.missing(line, 4, {0, 1, 2});
      some = call.missing(line, 5, {0, 1, 2});
      asked = true;
    }
    while (!asked) call.answer(5);
    host.barrier();
  });
  EXPECT_EQ(all, "");
  EXPECT_EQ(some, "rank 1 (has done 4 of 5)");
}

TEST(RollCall, NamesWhoDoesNotAnswer) {
  std::string missing;
  test::run_threads(2, [&](Communicator& host) {
    RollCall call(host);
    if (host.rank() == 0) missing = call.missing(line_of("tp 0", {0, 1}), 1, {0, 1});
    host.barrier();
  });
  EXPECT_EQ(missing, "rank 1 (does not answer: stopped, dead or not reachable)");
}

TEST(RollCall, LinesDifferByNameAndRanks) {
  EXPECT_NE(line_of("tp 0", {0, 1}), line_of("tp 1", {0, 1}));
  EXPECT_NE(line_of("tp 0", {0, 1}), line_of("tp 0", {0, 2}));
  EXPECT_NE(line_of("messages", {0, 1}), line_of("messages", {1, 0}));
  EXPECT_EQ(line_of("tp 0", {0, 1}), line_of("tp 0", {0, 1}));
}

}  // namespace
}  // namespace railyard::nccl
