// Host-side calls, rank numbering, time-outs, and the shared object that the program loads.
#include <unistd.h>

#include "runtime/comm/load.hpp"
#include "tests/runtime/comm/mpi/fixture.hpp"

namespace railyard::test {
namespace {

class WorldTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  MpiWorld mpi_ = mpi::initialize();

  std::unique_ptr<mpi::MpiCommunicator> make(double timeout, std::vector<int> logical_ranks = {}) {
    CommunicatorOptions options;
    options.timeout = timeout;
    options.logical_ranks = std::move(logical_ranks);
    return std::make_unique<mpi::MpiCommunicator>(*backend_, options);
  }
};

TEST_F(WorldTest, HostSideCalls) {
  const auto world = make(30.0);
  const int rank = world->rank(), size = world->size();
  EXPECT_EQ(rank, mpi_.rank);
  EXPECT_EQ(size, mpi_.size);
  world->barrier();
  for (int root = 0; root < size; ++root) {
    const std::string mine(static_cast<std::size_t>(rank * 1000), static_cast<char>('a' + rank));
    EXPECT_EQ(world->broadcast(mine, root),
              std::string(static_cast<std::size_t>(root * 1000), static_cast<char>('a' + root)));
    const std::vector<std::string> all = world->gather(mine, root);
    if (rank != root) {
      EXPECT_TRUE(all.empty());
      continue;
    }
    ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
    for (int other = 0; other < size; ++other)
      EXPECT_EQ(all[static_cast<std::size_t>(other)],
                std::string(static_cast<std::size_t>(other * 1000), static_cast<char>('a' + other)));
  }
  EXPECT_EQ(world->all_reduce(rank + 1.0, ReduceOp::kSum), size * (size + 1) / 2.0);
  std::vector<double> numbers{static_cast<double>(rank), -static_cast<double>(rank)};
  world->all_reduce(std::span(numbers), ReduceOp::kMax);
  EXPECT_THAT(numbers, testing::ElementsAre(size - 1.0, 0.0));
}

TEST_F(WorldTest, RanksAreThoseOfThePlacement) {
  std::vector<int> reversed;
  for (int rank = 0; rank < mpi_.size; ++rank) reversed.push_back(mpi_.size - 1 - rank);
  const auto world = make(30.0, reversed);
  EXPECT_EQ(world->rank(), mpi_.size - 1 - mpi_.rank);
  EXPECT_EQ(world->broadcast(std::to_string(mpi_.rank), 0), std::to_string(mpi_.size - 1));
}

TEST_F(WorldTest, TheLoadedLibraryWorks) {
  EXPECT_EQ(initialize_mpi().rank, mpi_.rank);
  const auto world = make_mpi_communicator(*backend_, {});
  EXPECT_EQ(world->all_reduce(1.0, ReduceOp::kSum), mpi_.size);
}

// The last rank comes four seconds late, to ranks that wait one second.
TEST_F(WorldTest, ATimeoutNamesGroupOperationAndMissingRanks) {
  if (mpi_.size == 1) return;
  const auto world = make(1.0), after = make(30.0);
  std::vector<int> all(static_cast<std::size_t>(mpi_.size));
  std::iota(all.begin(), all.end(), 0);
  const auto group = world->make_group(all, "dp 0");
  std::vector<float> numbers(100, 1.0F);
  const Tensor tensor{numbers.data(), DType::kFloat32, Shape{100}};
  const int late = mpi_.size - 1;
  if (mpi_.rank == late) {
    sleep(4);
    try {
      group->all_reduce(tensor, ReduceOp::kSum).wait();
    } catch (const RunError&) {  // the others may have given up for good
    }
  } else {
    try {
      group->all_reduce(tensor, ReduceOp::kSum).wait();
      ADD_FAILURE() << "an all_reduce without rank " << late;
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("all_reduce of group dp 0"),
                                               testing::HasSubstr(fmt::format("missing: rank {} ", late)),
                                               testing::HasSubstr("no sign of life")));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr(fmt::format("rank {} (", (late + 1) % mpi_.size))));
    }
  }
  after->barrier();
}

// The last rank waits for something else: the message says for what.
TEST_F(WorldTest, ATimeoutSaysWhereAMissingRankWaits) {
  if (mpi_.size == 1) return;
  const auto world = make(1.5), after = make(30.0);
  std::vector<int> all(static_cast<std::size_t>(mpi_.size));
  std::iota(all.begin(), all.end(), 0);
  const auto group = world->make_group(all, "tp 0"), other = world->make_group(all, "pp 0");
  std::vector<float> numbers(100, 1.0F);
  const Tensor tensor{numbers.data(), DType::kFloat32, Shape{100}};
  const int stray = mpi_.size - 1;
  try {
    if (mpi_.rank == stray) {
      other->receive(tensor, 0).wait();
    } else {
      group->all_reduce(tensor, ReduceOp::kSum).wait();
    }
    ADD_FAILURE() << "nothing was missing";
  } catch (const RunError& error) {
    const std::string want = mpi_.rank == stray
                                 ? "rank 0 (waits in all_reduce of group tp 0 instead)"
                                 : fmt::format("rank {} (waits in receive from rank 0 of group pp 0 instead)", stray);
    if (mpi_.rank == 0 || mpi_.rank == stray) {
      EXPECT_THAT(error.what(), testing::HasSubstr(want));
    }
  }
  after->barrier();
}

}  // namespace
}  // namespace railyard::test
