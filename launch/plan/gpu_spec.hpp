// Data-sheet figures of GPUs: what is known of a card before `railyard bench` has measured it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace railyard::launch {

// Dense rates, without sparsity. A rate of 0: the card cannot do it.
struct GpuSpec {
  std::string name;        // of the family, as site files spell it: "H100-SXM5-80GB"
  double memory_gib = 0;   // as the driver shows it
  double bf16_tflops = 0;  // MFU is measured against this
  double fp8_tflops = 0;
  double fp32_tflops = 0;  // without TF32
  double memory_gb_s = 0;  // of the card's own memory
  int processors = 0;      // streaming multiprocessors
  int nvlinks = 0;         // 0: joined by PCIe only
  double nvlink_gb_s = 0;  // of all links together, per direction
  double pcie_gb_s = 0;    // per direction, as measured by copies
  std::string source;      // where the figures are from
};

// By any name in use: a site's ("H100-SXM5-80GB"), the driver's ("NVIDIA H100 80GB HBM3"), nvidia-smi's. nullopt: not
// in the table.
[[nodiscard]] std::optional<GpuSpec> find_gpu(std::string_view name);

}  // namespace railyard::launch
