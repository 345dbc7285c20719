// Spares, lost nodes, and nodes that fail twice.
#include <gtest/gtest.h>

#include "launch/slurm/check_nodes.hpp"
#include "launch/slurm/node_pool.hpp"

namespace railyard::launch {
namespace {

using Names = std::vector<std::string>;

TEST(NodePool, SparesStandBy) {
  const NodePool pool({"a", "b", "c"}, 2);
  EXPECT_EQ(pool.choose(), (Names{"a", "b"}));
  EXPECT_EQ(pool.spares(), 1);
}

TEST(NodePool, ALostNodeIsReplaced) {
  NodePool pool({"a", "b", "c"}, 2);
  EXPECT_TRUE(pool.lose("a"));
  EXPECT_FALSE(pool.lose("a"));
  EXPECT_FALSE(pool.lose("elsewhere"));
  EXPECT_EQ(pool.choose(), (Names{"b", "c"}));
  EXPECT_TRUE(pool.lose("c"));
  EXPECT_FALSE(pool.choose());
  EXPECT_EQ(pool.usable(), (Names{"b"}));
}

TEST(NodePool, TheSecondFailureCounts) {
  NodePool pool({"a", "b", "c"}, 2);
  EXPECT_FALSE(pool.fail("b"));
  EXPECT_FALSE(pool.fail("a"));
  EXPECT_EQ(pool.choose(), (Names{"a", "b"}));
  EXPECT_TRUE(pool.fail("b"));
  EXPECT_EQ(pool.choose(), (Names{"a", "c"}));
  EXPECT_FALSE(pool.fail("b"));
  // No spare is left: the node stays.
  EXPECT_FALSE(pool.fail("a"));
  EXPECT_EQ(pool.choose(), (Names{"a", "c"}));
}

TEST(CheckNodes, ReadsWhereSrunCouldNotLaunch) {
  EXPECT_EQ(nodes_not_launched("srun: error: Task launch for StepId=5.1 failed on node node2: Communication connection "
                               "failure\nsrun: error: Application launch failed: Communication connection failure\n"),
            (Names{"node2"}));
  EXPECT_TRUE(nodes_not_launched("srun: error: node2: task 1: Killed").empty());
}

}  // namespace
}  // namespace railyard::launch
