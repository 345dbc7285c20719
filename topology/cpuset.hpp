// A set of small numbers (CPUs or NUMA nodes) and the three ways in which tools write one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::topology {

class CpuSet {
 public:
  // Larger numbers are refused by the parsers: no machine has them, and a typing error must not take the memory.
  static constexpr int kLimit = 1 << 16;

  // "0-3,8,10-11", as the kernel, nvidia-smi and Slurm write it; "" is the empty set. nullopt when malformed.
  static std::optional<CpuSet> parse_list(std::string_view text);

  // 32-bit hexadecimal words, highest first, as hwloc ("0xff,,0x1") and NCCL ("00ff,ffff0000") write them; an empty
  // word is 0. hwloc's "0xf...f" (an infinite set) is refused.
  static std::optional<CpuSet> parse_mask(std::string_view text);

  void add(int number);
  [[nodiscard]] bool contains(int number) const;
  [[nodiscard]] bool empty() const;
  [[nodiscard]] int count() const;
  [[nodiscard]] std::vector<int> members() const;
  [[nodiscard]] CpuSet operator&(const CpuSet& other) const;
  [[nodiscard]] CpuSet operator|(const CpuSet& other) const;
  [[nodiscard]] bool subset_of(const CpuSet& other) const { return (*this & other) == *this; }
  [[nodiscard]] std::string list() const;  // "0-3,8"
  friend bool operator==(const CpuSet&, const CpuSet&) = default;

 private:
  void trim();
  std::vector<std::uint64_t> words_;  // no trailing zero words, so that equality is memberwise
};

}  // namespace railyard::topology
