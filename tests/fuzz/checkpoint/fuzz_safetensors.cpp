// libFuzzer: any bytes as a safetensors header; only UsageError may come out.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // The first two bytes say how much data follows the header.
  const std::uint64_t data_bytes = data[0] | (std::uint64_t{data[1]} << 8);
  const std::string_view json(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    const auto header = railyard::SafetensorsHeader::parse(json, data_bytes, "fuzz");
    std::uint64_t end = 0;
    for (const auto& tensor : header.tensors()) {
      RAILYARD_CHECK(tensor.begin == end && header.find(tensor.name) == &tensor, "{}", tensor.name);
      end = tensor.end;
    }
    RAILYARD_CHECK(end == data_bytes, "a byte that no tensor has");
  } catch (const railyard::UsageError&) {
  }
  return 0;
}
