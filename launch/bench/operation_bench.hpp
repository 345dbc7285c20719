// Rates of a device's products, attention and copies, and of a world's collectives: what the calibration file holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launch/plan/calibration.hpp"
#include "runtime/comm/group.hpp"
#include "runtime/compute/backend.hpp"

namespace railyard::launch {

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;  // D [m, n] = A [m, k] B [k, n]
};
// "8192x4096x14336". UsageError for anything else.
[[nodiscard]] GemmShape parse_gemm_shape(const std::string& text);
// The layers of well-known models at a microbatch of their usual size, fewer tokens on a CPU.
[[nodiscard]] std::vector<GemmShape> usual_gemm_shapes(bool cuda);

struct AttentionCase {
  std::int64_t samples = 0, tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;  // tokens of one sample
};
[[nodiscard]] std::vector<AttentionCase> usual_attention_cases(bool cuda);

// Each returns the median of several timings on random normal numbers (zeros draw less power than training does).
// `dtype`: "fp32", "bf16", "fp8" (products: e4m3 with one scale per tensor).
[[nodiscard]] GemmRate measure_gemm(Backend& backend, const std::string& dtype, const GemmShape& shape);
[[nodiscard]] AttentionRate measure_attention(Backend& backend, const std::string& dtype, const AttentionCase& which);
// GB/s read plus written by a copy within the device.
[[nodiscard]] double measure_copy(Backend& backend);

// Collective over `world`: the rates of one group of `ranks`, its first ones, for each operation and size; the other
// ranks take no part. `tell` is called on rank 0 for each. Sizes from 64 KiB to `largest` bytes.
void measure_collectives(Backend& backend, Communicator& world, int ranks, std::int64_t largest,
                         const std::string& link_class, const std::function<void(const CommRate&)>& tell);

}  // namespace railyard::launch
