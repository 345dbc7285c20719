// NCCL with one rank: every call of a group and of the world. More ranks need more GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.hpp"
#include "runtime/comm/load.hpp"

namespace railyard {
namespace {

class NcclTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      backend_ = make_cuda_backend({});
    } catch (const RunError& error) {
      GTEST_SKIP() << "no GPU to test NCCL with: " << error.what();
    }
    host_ = make_single_communicator(*backend_);
    world_ = make_nccl_communicator(*backend_, *host_, {.timeout = 30.0});
  }
  Tensor tensor(DType type, std::int64_t count, float deviation = 1.0F) {
    Tensor t{nullptr, type, Shape{count}};
    memory_.push_back(backend_->allocate(t.bytes()));
    t.data = memory_.back().data();
    if (deviation > 0.0F)
      backend_->fill_normal(t.view(Shape{1, count}), memory_.size(), 0, 0, count, 0.0F, deviation);
    else
      backend_->zero(t);
    return t;
  }
  std::vector<std::byte> bytes(const Tensor& t) {
    std::vector<std::byte> host(t.bytes());
    backend_->copy_to_host(t, host);
    return host;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> host_, world_;
  std::vector<Buffer> memory_;
};

TEST_F(NcclTest, TheWorld) {
  EXPECT_EQ(world_->rank(), 0);
  EXPECT_EQ(world_->size(), 1);
  world_->barrier();
  EXPECT_EQ(world_->broadcast("text", 0), "text");
  EXPECT_THAT(world_->gather("mine", 0), testing::ElementsAre("mine"));
  EXPECT_EQ(world_->all_reduce(2.5, ReduceOp::kMax), 2.5);
}

TEST_F(NcclTest, Collectives) {
  const auto group = world_->make_group({0}, "tp 0");
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->name(), "tp 0");
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor from = tensor(type, 4099);
    const std::vector<std::byte> want = bytes(from);
    group->all_reduce(from, ReduceOp::kSum).wait();
    EXPECT_EQ(bytes(from), want);
    const Tensor gathered = tensor(type, 4099, 0.0F), part = tensor(type, 4099, 0.0F),
                 changed = tensor(type, 4099, 0.0F);
    group->all_gather(from, gathered).wait();
    EXPECT_EQ(bytes(gathered), want);
    group->reduce_scatter(from, part).wait();
    EXPECT_EQ(bytes(part), want);
    group->all_to_all(from, changed).wait();
    EXPECT_EQ(bytes(changed), want);
    group->broadcast(from, 0).wait();
    EXPECT_EQ(bytes(from), want);
  }
}

// Work behind a handle sees its result without the host in between.
TEST_F(NcclTest, HandlesOrderTheDevice) {
  const auto group = world_->make_group({0}, "dp 0"), other = world_->make_group({0}, "tp 0");
  const Tensor a = tensor(DType::kFloat32, 1 << 22), b = tensor(DType::kFloat32, 1 << 22, 0.0F);
  for (int i = 0; i < 50; ++i) {
    backend_->fill(a, static_cast<float>(i));
    backend_->fill(b, -1.0F);
    {
      Handle gathering = group->all_gather(a, b);
      Handle reducing = other->all_reduce(a, ReduceOp::kMax);
      gathering.wait();
    }
    backend_->add(a, b, b);
  }
  const std::vector<std::byte> got = bytes(b);
  const auto* numbers = reinterpret_cast<const float*>(got.data());
  EXPECT_THAT(std::vector<float>(numbers, numbers + (1 << 22)), testing::Each(98.0F));
}

}  // namespace
}  // namespace railyard
