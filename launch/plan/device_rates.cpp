// Rates from data sheets, corrected by what was measured.
#include "launch/plan/device_rates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace railyard::launch {
namespace {

// Usual efficiencies where nothing was measured. Products: the share of the peak that large ones sustain (H100: 1,290
// of 1,979 TFLOP/s in 8 bits and about 0.71 in 16; A100: 257 of 312). Attention: of the 16-bit peak on long sequences.
// Memory: of the data sheet's bandwidth.
constexpr double kSustainedAmpere = 0.84, kSustained = 0.72, kSustainedFp8 = 0.66;
constexpr double kAttentionForward = 0.69, kAttentionBackward = 0.51, kAttentionRamp = 700;
constexpr double kMemoryShare = 0.9;
constexpr double kLaunch = 3e-6, kGap = 1.5e-6;
constexpr double kCpuSustained = 0.8;

struct Tile {
  double rows, columns, share;  // of the sustained rate that tiles of this size reach
};
constexpr std::array<Tile, 4> kTiles{{{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.95}, {64, 64, 0.6}}};
constexpr double kPrologue = 128;  // of k: filling and draining a tile's pipeline

// The ratio of measured to modelled rates at a point, from the nearest four entries in the logarithm of the extents,
// weighted by the inverse square of the distance.
struct Neighbour {
  double distance, ratio;
};
double correction(std::vector<Neighbour> neighbours) {
  if (neighbours.empty()) return 1.0;
  std::sort(neighbours.begin(), neighbours.end(),
            [](const Neighbour& a, const Neighbour& b) { return a.distance < b.distance; });
  if (neighbours.front().distance < 1e-9) return neighbours.front().ratio;
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, neighbours.size()); ++i) {
    const double weight = 1 / (neighbours[i].distance * neighbours[i].distance);
    sum += weight * std::log(neighbours[i].ratio);
    weights += weight;
  }
  return std::exp(sum / weights);
}

double log_distance(std::initializer_list<std::pair<double, double>> pairs) {
  double sum = 0;
  for (const auto& [a, b] : pairs) sum += std::log(a / b) * std::log(a / b);
  return std::sqrt(sum);
}

}  // namespace

DeviceRates::DeviceRates(const GpuSpec& spec, std::optional<Calibration> calibration)
    : spec_(spec), memory_gb_s_(spec.memory_gb_s * kMemoryShare), kernel_gap_(kGap) {
  apply(std::move(calibration));
}

DeviceRates DeviceRates::of_cpu(int threads, std::optional<Calibration> calibration) {
  DeviceRates rates;
  rates.cpu_ = true;
  rates.spec_.fp32_tflops = 0.08 * threads;  // 2.5 GHz x 2 units x 8 lanes x 2
  rates.memory_gb_s_ = 10.0 * threads;
  rates.apply(std::move(calibration));
  return rates;
}

void DeviceRates::apply(std::optional<Calibration> calibration) {
  if (!calibration) return;
  calibration_ = std::move(*calibration);
  if (calibration_.copy_gb_s) memory_gb_s_ = *calibration_.copy_gb_s;
}

std::vector<std::string> DeviceRates::unmeasured() const {
  std::vector<std::string> missing;
  if (calibration_.gemm.empty()) missing.emplace_back("products");
  if (calibration_.attention.empty()) missing.emplace_back("attention");
  if (!calibration_.copy_gb_s) missing.emplace_back("memory");
  return missing;
}

double DeviceRates::modelled_gemm(std::string_view dtype, double m, double n, double k) const {
  const bool eight_bit = dtype == "fp8" && spec_.fp8_tflops > 0, full = dtype == "fp32";
  const double peak = (eight_bit ? spec_.fp8_tflops : full || cpu_ ? spec_.fp32_tflops : spec_.bf16_tflops) * 1e12;
  const double operand = eight_bit ? 1 : full ? 4 : 2;
  const double memory = memory_seconds(operand * (m * k + k * n) + 2 * operand * m * n);
  if (cpu_) return std::max(2 * m * n * k / (peak * kCpuSustained), memory);
  const double sustained = eight_bit ? kSustainedFp8 : spec_.fp8_tflops > 0 ? kSustained : kSustainedAmpere;
  const double per_processor = peak * sustained / spec_.processors;
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double waves = std::ceil(tiles / spec_.processors);
    const double seconds = waves * 2 * tile.rows * tile.columns * (k + kPrologue) / (per_processor * tile.share);
    if (best == 0 || seconds < best) best = seconds;
  }
  return std::max(best, memory) + kLaunch;
}

double DeviceRates::gemm_seconds(std::string_view dtype, double m, double n, double k) const {
  const double modelled = modelled_gemm(dtype, m, n, k);
  std::vector<Neighbour> neighbours;
  for (const GemmRate& rate : calibration_.gemm) {
    if (rate.dtype != dtype) continue;
    const auto rm = static_cast<double>(rate.m), rn = static_cast<double>(rate.n), rk = static_cast<double>(rate.k);
    const double seconds = 2 * rm * rn * rk / (rate.tflops * 1e12);
    neighbours.push_back({log_distance({{m, rm}, {n, rn}, {k, rk}}), modelled_gemm(dtype, rm, rn, rk) / seconds});
  }
  return modelled / correction(std::move(neighbours));
}

double DeviceRates::modelled_attention(double tokens, double head_dim, bool backward) const {
  if (cpu_) return spec_.fp32_tflops * 1e12 * (backward ? 0.3 : 0.4);
  const double ramp = tokens / (tokens + kAttentionRamp), narrow = std::min(1.0, 0.6 + 0.4 * head_dim / 128);
  return spec_.bf16_tflops * 1e12 * (backward ? kAttentionBackward : kAttentionForward) * ramp * narrow;
}

double DeviceRates::attention_seconds(std::string_view dtype, std::int64_t tokens, std::int64_t heads,
                                      std::int64_t head_dim, double flops, bool backward) const {
  const auto length = static_cast<double>(tokens), width = static_cast<double>(head_dim);
  double rate = modelled_attention(length, width, backward);
  std::vector<Neighbour> neighbours;
  for (const AttentionRate& entry : calibration_.attention) {
    if (entry.dtype != dtype) continue;
    const auto other = static_cast<double>(entry.tokens), other_width = static_cast<double>(entry.head_dim);
    const double measured = (backward ? entry.backward_tflops : entry.forward_tflops) * 1e12;
    neighbours.push_back(
        {log_distance(
             {{length, other}, {width, other_width}, {static_cast<double>(heads), static_cast<double>(entry.heads)}}),
         measured / modelled_attention(other, other_width, backward)});
  }
  rate *= correction(std::move(neighbours));
  return flops * (backward ? 2.5 : 1.0) / rate + (cpu_ ? 0 : kLaunch);
}

}  // namespace railyard::launch
