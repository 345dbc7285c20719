// Collectives and messages of groups.
#include "tests/runtime/comm/mpi/fixture.hpp"

namespace railyard::test {
namespace {

using Numbers = std::vector<double>;

// A small integer for (rank, index), exact in every type.
double value(int rank, std::int64_t index) { return static_cast<double>((rank * 7 + index * 3) % 11 - 5); }

Numbers values(int rank, std::int64_t count) {
  Numbers numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = value(rank, i);
  return numbers;
}

constexpr std::int64_t kCounts[] = {1, 7, 1000, 4099, 70001};

TEST_P(MpiTest, AllReduce) {
  const int size = group_->size();
  for (const std::int64_t count : kCounts)
    for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16})
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        const Tensor mine = tensor(values(group_->rank(), count), type);
        group_->all_reduce(mine, op).wait();
        Numbers want = values(0, count);
        for (int rank = 1; rank < size; ++rank)
          for (std::size_t i = 0; i < want.size(); ++i) {
            const double other = value(rank, static_cast<std::int64_t>(i));
            want[i] = op == ReduceOp::kSum ? want[i] + other : std::max(want[i], other);
          }
        EXPECT_EQ(numbers(mine), want) << dtype_name(type) << " x " << count;
      }
}

TEST_P(MpiTest, AllReduceOfIntegersKeepsEveryBit) {
  const std::int64_t big = (std::int64_t{1} << 53U) + 1;
  const Tensor mine = tensor(std::vector<std::int64_t>{big, -group_->rank()}, DType::kInt64);
  group_->all_reduce(mine, ReduceOp::kMax).wait();
  std::vector<std::int64_t> got(2);
  backend_->copy_to_host(mine, std::as_writable_bytes(std::span(got)));
  EXPECT_THAT(got, testing::ElementsAre(big, 0));
}

// 256 + 1 + 1 + 1 is 259 in fp32, so 260 in bf16; adding in bf16 would stay at 256.
TEST_P(MpiTest, BFloat16IsSummedInFp32) {
  const int size = group_->size();
  const double want = bf16_to_float(float_to_bf16(256.0F + static_cast<float>(size - 1)));
  const Tensor mine = tensor(Numbers(5, group_->rank() == 0 ? 256.0 : 1.0), DType::kBFloat16);
  group_->all_reduce(mine, ReduceOp::kSum).wait();
  EXPECT_EQ(numbers(mine), Numbers(5, want));
  const Tensor whole =
      tensor(Numbers(static_cast<std::size_t>(3 * size), group_->rank() == 0 ? 256.0 : 1.0), DType::kBFloat16);
  const Tensor part = tensor(Numbers(3), DType::kBFloat16);
  group_->reduce_scatter(whole, part).wait();
  EXPECT_EQ(numbers(part), Numbers(3, want));
}

TEST_P(MpiTest, AllGather) {
  const int rank = group_->rank(), size = group_->size();
  for (const std::int64_t count : kCounts)
    for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
      if (type == DType::kInt64 && count > 1000) continue;
      Numbers want;
      for (int other = 0; other < size; ++other)
        for (const double number : values(other, count)) want.push_back(number);
      std::vector<std::int64_t> integers;
      for (const double number : values(rank, count)) integers.push_back(static_cast<std::int64_t>(number));
      const Tensor part = type == DType::kInt64 ? tensor(integers, type) : tensor(values(rank, count), type);
      const Tensor gathered = type == DType::kInt64 ? tensor(std::vector<std::int64_t>(want.size(), 99), type)
                                                    : tensor(Numbers(want.size(), 99.0), type);
      group_->all_gather(part, gathered).wait();
      if (type == DType::kInt64) {
        std::vector<std::int64_t> got(want.size());
        backend_->copy_to_host(gathered, std::as_writable_bytes(std::span(got)));
        EXPECT_EQ(Numbers(got.begin(), got.end()), want);
        continue;
      }
      EXPECT_EQ(numbers(gathered), want);
      const Tensor in_place = tensor(Numbers(want.size(), 99.0), type);
      const Tensor own = in_place.flat(rank * count, count);
      backend_->copy(part, own);
      group_->all_gather(own, in_place).wait();
      EXPECT_EQ(numbers(in_place), want) << "in place";
    }
}

TEST_P(MpiTest, ReduceScatter) {
  const int rank = group_->rank(), size = group_->size();
  for (const std::int64_t count : kCounts)
    for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
      Numbers want(static_cast<std::size_t>(count));
      for (int other = 0; other < size; ++other)
        for (std::int64_t i = 0; i < count; ++i) want[static_cast<std::size_t>(i)] += value(other, rank * count + i);
      const Tensor whole = tensor(values(rank, size * count), type), part = tensor(Numbers(want.size(), 99.0), type);
      group_->reduce_scatter(whole, part).wait();
      EXPECT_EQ(numbers(part), want) << dtype_name(type) << " x " << count;
      const Tensor own = whole.flat(rank * count, count);
      group_->reduce_scatter(whole, own).wait();
      EXPECT_EQ(numbers(own), want) << "in place";
    }
}

// Longer than one round of messages, and a length that nothing divides; two at once, waited for in the other order.
TEST_P(MpiTest, LongSumsGoInPieces) {
  const int rank = group_->rank(), size = group_->size();
  const std::int64_t count = 2 * size * mpi::Reduction::kBlock + 12345;
  const Tensor first = tensor(values(rank, count), DType::kFloat32),
               second = tensor(values(rank, 5 * count / 7), DType::kBFloat16);
  Handle one = group_->all_reduce(first, ReduceOp::kSum), other = group_->all_reduce(second, ReduceOp::kSum);
  other.wait();
  one.wait();
  Numbers want(static_cast<std::size_t>(count));
  for (int member = 0; member < size; ++member)
    for (std::int64_t i = 0; i < count; ++i) want[static_cast<std::size_t>(i)] += value(member, i);
  EXPECT_EQ(numbers(first), want);
  want.resize(static_cast<std::size_t>(5 * count / 7));
  EXPECT_EQ(numbers(second), want);
  const std::int64_t piece = mpi::Reduction::kBlock + 77;
  const Tensor whole = tensor(values(rank, size * piece), DType::kFloat32);
  const Tensor part = tensor(Numbers(static_cast<std::size_t>(piece), 99.0), DType::kFloat32);
  group_->reduce_scatter(whole, part).wait();
  want.assign(static_cast<std::size_t>(piece), 0.0);
  for (int member = 0; member < size; ++member)
    for (std::int64_t i = 0; i < piece; ++i) want[static_cast<std::size_t>(i)] += value(member, rank * piece + i);
  EXPECT_EQ(numbers(part), want);
}

TEST_P(MpiTest, AllToAll) {
  const int rank = group_->rank(), size = group_->size();
  for (const std::int64_t count : kCounts) {
    const Tensor input = tensor(values(rank, size * count), DType::kFloat32);
    const Tensor output = tensor(Numbers(static_cast<std::size_t>(size * count), 99.0), DType::kFloat32);
    group_->all_to_all(input, output).wait();
    Numbers want;
    for (int other = 0; other < size; ++other)
      for (std::int64_t i = 0; i < count; ++i) want.push_back(value(other, rank * count + i));
    EXPECT_EQ(numbers(output), want);
  }
}

TEST_P(MpiTest, Broadcast) {
  for (const std::int64_t count : kCounts)
    for (int root = 0; root < group_->size(); ++root) {
      const Tensor mine = tensor(values(group_->rank(), count), DType::kBFloat16);
      group_->broadcast(mine, root).wait();
      EXPECT_EQ(numbers(mine), values(root, count));
    }
}

TEST_P(MpiTest, MessagesArriveInOrder) {
  const int rank = group_->rank(), size = group_->size();
  if (size == 1) return;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  std::vector<Handle> pending;
  std::vector<Tensor> received;
  for (const std::int64_t count : kCounts) {
    received.push_back(tensor(Numbers(static_cast<std::size_t>(count), 99.0), DType::kFloat32));
    pending.push_back(group_->receive(received.back(), previous));
  }
  // Both ways at once, large ones too: nobody may wait for the other to receive first.
  for (const std::int64_t count : kCounts)
    pending.push_back(group_->send(tensor(values(rank, count), DType::kFloat32), next));
  for (Handle& handle : pending) handle.wait();
  for (std::size_t i = 0; i < received.size(); ++i) EXPECT_EQ(numbers(received[i]), values(previous, kCounts[i]));
}

TEST_P(MpiTest, HandlesOverlapMoveAndWaitWhenDestroyed) {
  const int size = group_->size();
  const Tensor a = tensor(Numbers(1000, 1.0), DType::kFloat32), b = tensor(Numbers(50000, 2.0), DType::kFloat32);
  const Tensor c = tensor(Numbers(10, 3.0), DType::kBFloat16);
  Handle first = group_->all_reduce(a, ReduceOp::kSum);
  Handle second = group_->all_reduce(b, ReduceOp::kSum);
  { const Handle third = group_->all_reduce(c, ReduceOp::kSum); }
  EXPECT_EQ(numbers(c), Numbers(10, 3.0 * size));
  Handle moved = std::move(second);
  moved.wait();
  moved.wait();
  EXPECT_EQ(numbers(b), Numbers(50000, 2.0 * size));
  first = Handle{};
  EXPECT_EQ(numbers(a), Numbers(1000, 1.0 * size));
}

TEST_P(MpiTest, GroupsSplitTheWorld) {
  const int rank = world_->rank(), size = world_->size();
  std::vector<int> members;
  for (int other = rank % 2; other < size; other += 2) members.push_back(other);
  const auto half = world_->make_group(members, "half");
  EXPECT_EQ(half->size(), static_cast<int>(members.size()));
  EXPECT_EQ(half->rank(), rank / 2);
  const Tensor mine = tensor(Numbers{1.0, static_cast<double>(rank)}, DType::kFloat32);
  half->all_reduce(mine, ReduceOp::kSum).wait();
  EXPECT_EQ(numbers(mine), (Numbers{static_cast<double>(members.size()),
                                    static_cast<double>(std::accumulate(members.begin(), members.end(), 0))}));
  const auto alone = world_->make_group({rank}, "alone");
  EXPECT_EQ(alone->size(), 1);
  alone->all_reduce(mine, ReduceOp::kSum).wait();
}

INSTANTIATE_TEST_SUITE_P(Kinds, MpiTest,
                         testing::Values(CommunicatorCase{"host", false, mpi::kLargestCount},
                                         CommunicatorCase{"device", true, mpi::kLargestCount},
                                         CommunicatorCase{"small_counts", false, 1000}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace railyard::test
