// libFuzzer: any text as a manifest, with a checksum that fits; only UsageError may come out.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  const std::string text =
      fmt::format("{{\"crc32c\":\"{:08x}\",\n{}", railyard::crc32c(std::as_bytes(std::span(body))), body);
  try {
    const auto manifest = railyard::Manifest::parse(text, "fuzz");
    const std::string again = manifest.to_text();
    RAILYARD_CHECK(railyard::Manifest::parse(again, "again").to_text() == again, "not the same when written again");
  } catch (const railyard::UsageError&) {
  }
  return 0;
}
