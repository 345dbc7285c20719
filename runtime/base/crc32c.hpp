// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78): the checksum of checkpoint chunks and TensorBoard records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace railyard {

// Extends the checksum `crc` of some bytes by the bytes of `data`; start with 0. Uses the SSE4.2 instruction where the
// machine has it. Known answer (RFC 3720): "123456789" gives 0xe3069283.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc = 0);

// The same by tables alone; what machines without the instruction use.
[[nodiscard]] std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t crc = 0);

}  // namespace railyard
