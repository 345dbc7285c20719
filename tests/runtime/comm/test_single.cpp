// The world of one rank, and what the loader says when a part is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/error.hpp"
#include "runtime/comm/load.hpp"
#include "runtime/compute/backend.hpp"

namespace railyard {
namespace {

TEST(SingleCommunicator, CopiesAndReturns) {
  const auto backend = make_cpu_backend({.threads = 1});
  const auto world = make_single_communicator(*backend);
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  world->barrier();
  EXPECT_EQ(world->broadcast("text", 0), "text");
  EXPECT_THAT(world->gather("mine", 0), testing::ElementsAre("mine"));
  EXPECT_EQ(world->all_reduce(2.5, ReduceOp::kMax), 2.5);

  const auto group = world->make_group({0}, "tp 0");
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->name(), "tp 0");
  std::vector<float> a{1.0F, 2.0F, 3.0F}, b(3);
  const Tensor from{a.data(), DType::kFloat32, Shape{3}}, to{b.data(), DType::kFloat32, Shape{3}};
  group->all_reduce(from, ReduceOp::kSum).wait();
  group->all_gather(from, to).wait();
  EXPECT_EQ(b, a);
  b.assign(3, 0.0F);
  group->reduce_scatter(from, to).wait();
  EXPECT_EQ(b, a);
  b.assign(3, 0.0F);
  group->all_to_all(from, to).wait();
  EXPECT_EQ(b, a);
  group->broadcast(from, 0).wait();
}

TEST(Loader, SaysWhatIsMissingAndWhatToDo) {
  if (std::filesystem::exists(std::filesystem::path(RAILYARD_BINARY_DIR) / "librailyard_cuda.so"))
    GTEST_SKIP() << "the CUDA part is built";
  try {
    make_cuda_backend({});
    FAIL() << "a backend came from nowhere";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("librailyard_cuda.so"), testing::HasSubstr("build Railyard")));
  }
}

}  // namespace
}  // namespace railyard
