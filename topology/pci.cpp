// Reads and writes PCI addresses.
#include "topology/pci.hpp"

#include <fmt/format.h>

#include <charconv>

namespace railyard::topology {
namespace {

std::optional<std::uint32_t> hex(std::string_view digits, std::size_t longest) {
  std::uint32_t value = 0;
  if (digits.empty() || digits.size() > longest) return std::nullopt;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<PciAddress> PciAddress::parse(std::string_view text) {
  const auto dot = text.rfind('.');
  const auto second = text.rfind(':', dot);
  if (dot == std::string_view::npos || second == std::string_view::npos || second > dot) return std::nullopt;
  const auto first = second == 0 ? std::string_view::npos : text.rfind(':', second - 1);
  const auto function = hex(text.substr(dot + 1), 1);
  const auto device = hex(text.substr(second + 1, dot - second - 1), 2);
  const auto bus_begin = first == std::string_view::npos ? 0 : first + 1;
  const auto bus = hex(text.substr(bus_begin, second - bus_begin), 2);
  const auto domain = first == std::string_view::npos ? std::optional<std::uint32_t>(0) : hex(text.substr(0, first), 8);
  if (!function || !device || !bus || !domain) return std::nullopt;
  return PciAddress{*domain, *bus, *device, *function};
}

PciAddress PciAddress::from_packed(std::uint64_t packed) {
  return {static_cast<std::uint32_t>(packed >> 20), static_cast<std::uint32_t>((packed >> 12) & 0xFF),
          static_cast<std::uint32_t>((packed >> 4) & 0xFF), static_cast<std::uint32_t>(packed & 0xF)};
}

std::string PciAddress::text() const { return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function); }

}  // namespace railyard::topology
