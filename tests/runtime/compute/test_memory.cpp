// Allocation and copies.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class MemoryTest : public OperationTest {};

TEST_P(MemoryTest, CountsWhatIsAllocated) {
  const std::size_t before = backend().memory_in_use();
  {
    const Buffer buffer = backend().allocate(1000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
    EXPECT_GE(backend().memory_in_use(), before + 1000);
    const Buffer shared = buffer;
    EXPECT_EQ(shared.data(), buffer.data());
  }
  EXPECT_EQ(backend().memory_in_use(), before);
  EXPECT_FALSE(backend().description().empty());
}

TEST_P(MemoryTest, RefusesMoreThanThereIs) {
  try {
    backend().allocate(std::size_t{1} << 50U);
    FAIL() << "a pebibyte was given";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("memory"), std::string::npos) << error.what();
  }
}

TEST_P(MemoryTest, CopiesAnyType) {
  const std::vector<std::int64_t> numbers{1, -2, 3, std::int64_t{1} << 40U};
  const Tensor a = upload_integers(numbers, DType::kInt64), b = allocate(DType::kInt64, Shape{4});
  backend().copy(a, b);
  EXPECT_EQ(download_bytes(a), download_bytes(b));
  const Tensor c = upload(random_numbers(1001, 1, type()), type(), Shape{1001}), d = unset(type(), Shape{1001});
  backend().copy(c, d);
  EXPECT_EQ(download_bytes(c), download_bytes(d));
}

RAILYARD_OPERATION_TESTS(MemoryTest);

}  // namespace
}  // namespace railyard::test
