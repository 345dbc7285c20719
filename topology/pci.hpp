// A PCI address, in the order in which devices are numbered.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace railyard::topology {

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
  std::uint32_t device = 0;
  std::uint32_t function = 0;
  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;

  // "dddd:bb:dd.f", also with an 8-digit domain (NVML) or without one. nullopt when the text is no such address.
  static std::optional<PciAddress> parse(std::string_view text);

  // NCCL's packed form: the hexadecimal digits of "dddd:bb:dd.f" without separators (0x68000 is 0000:68:00.0).
  static PciAddress from_packed(std::uint64_t packed);

  // "0000:34:00.0", lower case; what the kernel prints.
  [[nodiscard]] std::string text() const;
};

}  // namespace railyard::topology
