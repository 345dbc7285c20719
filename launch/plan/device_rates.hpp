// How fast a device does each kind of work: from its calibration file where there is one, else from its data sheet with
// usual efficiencies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/plan/calibration.hpp"
#include "launch/plan/gpu_spec.hpp"

namespace railyard::launch {

class DeviceRates {
 public:
  // Of a GPU. `calibration` (may be absent) corrects the data sheet's figures.
  DeviceRates(const GpuSpec& spec, std::optional<Calibration> calibration);
  // Of one rank on `threads` cores. The figures without a calibration are those of a core with two 8-wide multiply-add
  // units at 2.5 GHz and 10 GB/s of memory bandwidth.
  static DeviceRates of_cpu(int threads, std::optional<Calibration> calibration);

  // Seconds of D [m, n] = A [m, k] B [k, n] (+ D) with operands of `dtype` ("bf16", "fp8", "fp32"). Without measured
  // shapes: output tiles in waves over the processors, an 8-bit or 16-bit tile at a sustained share of the peak; with
  // them: that figure times the ratio measured at the nearest shapes, exactly the measured rate at a measured shape.
  [[nodiscard]] double gemm_seconds(std::string_view dtype, double m, double n, double k) const;

  // Causal attention over sequences of `tokens`: `flops` of its forward pass (causal at half); the backward pass
  // has 2.5 times those.
  [[nodiscard]] double attention_seconds(std::string_view dtype, std::int64_t tokens, std::int64_t heads,
                                         std::int64_t head_dim, double flops, bool backward) const;

  // Work that waits for memory: `bytes` read plus written.
  [[nodiscard]] double memory_seconds(double bytes) const { return bytes / (memory_gb_s_ * 1e9); }

  // Between two kernels that follow one another.
  [[nodiscard]] double kernel_gap() const { return kernel_gap_; }

  // Dense bf16 peak, FLOP/s; 0 on a CPU.
  [[nodiscard]] double peak_flops() const { return spec_.bf16_tflops * 1e12; }
  // What was not measured: "products", "attention", "memory"; empty when all was.
  [[nodiscard]] std::vector<std::string> unmeasured() const;

 private:
  DeviceRates() = default;
  void apply(std::optional<Calibration> calibration);
  [[nodiscard]] double modelled_gemm(std::string_view dtype, double m, double n, double k) const;
  [[nodiscard]] double modelled_attention(double tokens, double head_dim, bool backward) const;

  GpuSpec spec_;
  bool cpu_ = false;
  double memory_gb_s_ = 0, kernel_gap_ = 0;
  Calibration calibration_;
};

}  // namespace railyard::launch
