// Rotary positions and causal grouped-query attention, forward and backward, against the quadratic formula.
#include <bit>

#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class AttentionTest : public OperationTest {};

struct Reference {
  Numbers out, log_sum_exp, grad_packed;
};

// Per token: queries, keys, values of all heads side by side. first_keys: per token, or empty.
Reference reference(const AttentionShape& s, const Numbers& packed, const Numbers& grad_out, const Dropout& dropout,
                    const std::vector<std::int64_t>& samples, const std::vector<std::int32_t>& positions,
                    const std::vector<std::int32_t>& first_keys = {}) {
  const auto stride = static_cast<std::size_t>(s.packed_columns()),
             out_stride = static_cast<std::size_t>(s.output_columns());
  const auto tokens = static_cast<std::size_t>(s.batch * s.length);
  const auto qk = static_cast<std::size_t>(s.d_qk), dv = static_cast<std::size_t>(s.d_v);
  const auto length = static_cast<std::size_t>(s.length);
  Reference r{Numbers(tokens * out_stride), Numbers(tokens * static_cast<std::size_t>(s.q_heads)),
              Numbers(tokens * stride)};
  for (std::size_t sample = 0; sample < static_cast<std::size_t>(s.batch); ++sample)
    for (std::size_t head = 0; head < static_cast<std::size_t>(s.q_heads); ++head) {
      const std::size_t kv = head / static_cast<std::size_t>(s.q_heads / s.kv_heads);
      const std::size_t q_at = head * qk, k_at = (static_cast<std::size_t>(s.q_heads) + kv) * qk;
      const std::size_t v_at = static_cast<std::size_t>(s.q_heads + s.kv_heads) * qk + kv * dv;
      const std::uint64_t key = mix64(dropout.key + static_cast<std::uint64_t>(dropout.first_head) + head);
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t token = sample * length + i;
        std::size_t first =
            s.window > 0 && i + 1 > static_cast<std::size_t>(s.window) ? i + 1 - static_cast<std::size_t>(s.window) : 0;
        if (!first_keys.empty()) first = std::max(first, static_cast<std::size_t>(first_keys[token]));
        Numbers weights(length), factors(length, 1.0), grads(length);
        double maximum = -INFINITY, total = 0.0, delta = 0.0;
        for (std::size_t j = first; j <= i; ++j) {
          double dot = 0.0;
          for (std::size_t d = 0; d < qk; ++d)
            dot += packed[token * stride + q_at + d] * packed[(sample * length + j) * stride + k_at + d];
          weights[j] = dot * static_cast<double>(s.scale);
          maximum = std::max(maximum, weights[j]);
        }
        for (std::size_t j = first; j <= i; ++j) total += std::exp(weights[j] - maximum);
        r.log_sum_exp[(sample * static_cast<std::size_t>(s.q_heads) + head) * length + i] = maximum + std::log(total);
        for (std::size_t j = first; j <= i; ++j) {
          const std::size_t other = sample * length + j;
          weights[j] = std::exp(weights[j] - maximum) / total;
          if (dropout.probability > 0.0F)
            factors[j] = dropout_factor(dropout, samples[token], positions[token], static_cast<std::int64_t>(j), key);
          for (std::size_t d = 0; d < dv; ++d) {
            const double gradient = grad_out[token * out_stride + head * dv + d];
            r.out[token * out_stride + head * dv + d] += weights[j] * factors[j] * packed[other * stride + v_at + d];
            r.grad_packed[other * stride + v_at + d] += weights[j] * factors[j] * gradient;
            grads[j] += gradient * packed[other * stride + v_at + d] * factors[j];
          }
          delta += weights[j] * grads[j];
        }
        for (std::size_t j = first; j <= i; ++j) {
          const std::size_t other = sample * length + j;
          const double score = weights[j] * (grads[j] - delta) * static_cast<double>(s.scale);
          for (std::size_t d = 0; d < qk; ++d) {
            r.grad_packed[token * stride + q_at + d] += score * packed[other * stride + k_at + d];
            r.grad_packed[other * stride + k_at + d] += score * packed[token * stride + q_at + d];
          }
        }
      }
    }
  return r;
}

AttentionShape shape_of(std::int64_t batch, std::int64_t length, std::int64_t q_heads, std::int64_t kv_heads,
                        std::int64_t d_qk, std::int64_t d_v, std::int64_t window = 0) {
  AttentionShape shape;
  shape.batch = batch;
  shape.length = length;
  shape.q_heads = q_heads;
  shape.kv_heads = kv_heads;
  shape.d_qk = d_qk;
  shape.d_v = d_v;
  shape.window = window;
  shape.scale = 1.0F / std::sqrt(static_cast<float>(d_qk));
  return shape;
}

TEST_P(AttentionTest, ForwardAndBackward) {
  // Head sizes of 8 and more are multiples of 8, as accelerators want them; lengths are anything.
  const std::vector<AttentionShape> shapes{
      shape_of(1, 1, 1, 1, 8, 8),         shape_of(2, 5, 2, 1, 16, 16),     shape_of(1, 63, 2, 2, 32, 32),
      shape_of(1, 64, 4, 2, 64, 64),      shape_of(2, 65, 3, 3, 48, 48),    shape_of(1, 130, 6, 2, 32, 32),
      shape_of(1, 200, 2, 1, 128, 128),   shape_of(1, 97, 2, 2, 48, 32),    shape_of(1, 131, 2, 1, 32, 32, 17),
      shape_of(1, 150, 2, 2, 64, 64, 64), shape_of(1, 140, 2, 2, 32, 32, 1)};
  for (const AttentionShape& s : shapes)
    for (const auto& [probability, apart] : {std::pair{0.0F, false}, {0.2F, false}, {0.0F, true}, {0.2F, true}}) {
      const std::int64_t tokens = s.batch * s.length;
      const std::string what =
          fmt::format("attention {} x {}, {}/{} heads of {}/{}, window {}, dropout {}{}: ", s.batch, s.length,
                      s.q_heads, s.kv_heads, s.d_qk, s.d_v, s.window, probability, apart ? ", documents apart" : "");
      const Numbers packed = random_numbers(tokens * s.packed_columns(), 1, type());
      const Numbers grad_out = random_numbers(tokens * s.output_columns(), 2, type());
      std::vector<std::int64_t> samples;
      std::vector<std::int32_t> positions, first_keys;
      for (std::int64_t token = 0; token < tokens; ++token) {
        samples.push_back((std::int64_t{3} << 32U) + token / s.length);
        positions.push_back(static_cast<std::int32_t>(token % s.length));
        // Documents of 1, 2, 4, 8 ... tokens, other ones in each sample.
        const auto place = static_cast<std::uint32_t>(token % s.length + 1 + token / s.length);
        const auto start = static_cast<std::int64_t>(std::bit_floor(place)) - 1 - token / s.length;
        if (apart) first_keys.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, start)));
      }
      const Tensor firsts = apart ? upload_integers(first_keys, DType::kInt32) : Tensor{};
      Dropout dropout;
      dropout.probability = probability;
      dropout.key = 0x0123456789abcdefULL;
      dropout.first_head = 5;
      dropout.sample_ids = upload_integers(samples, DType::kInt64);
      dropout.positions = upload_integers(positions, DType::kInt32);
      const Reference want = reference(s, packed, grad_out, dropout, samples, positions, first_keys);

      const Tensor input = upload(packed, type(), Shape{tokens, s.packed_columns()});
      const Tensor out = unset(type(), Shape{tokens, s.output_columns()});
      const Tensor log_sum_exp = unset(DType::kFloat32, Shape{s.batch, s.q_heads, s.length});
      const auto forward_bytes = static_cast<std::int64_t>(backend().attention_workspace(s, type(), false));
      const auto backward_bytes = static_cast<std::int64_t>(backend().attention_workspace(s, type(), true));
      backend().attention_forward(s, input, dropout, firsts, out, log_sum_exp,
                                  allocate(DType::kUInt8, Shape{forward_bytes}));
      expect_close(download(out), want.out, type(), what + "out", 1e-5);
      expect_close(download(log_sum_exp), want.log_sum_exp, DType::kFloat32, what + "log_sum_exp", 1e-5);
      const Tensor grad_packed = unset(type(), Shape{tokens, s.packed_columns()});
      const Tensor workspace = allocate(DType::kUInt8, Shape{backward_bytes});
      const Tensor gradient = upload(grad_out, type(), Shape{tokens, s.output_columns()});
      backend().attention_backward(s, input, out, log_sum_exp, gradient, dropout, firsts, grad_packed, workspace);
      expect_close(download(grad_packed), want.grad_packed, type(), what + "grad_packed", 1e-5, 2e-2);

      const auto first = download_bytes(grad_packed);
      backend().attention_backward(s, input, out, log_sum_exp, gradient, dropout, firsts, grad_packed, workspace);
      EXPECT_EQ(download_bytes(grad_packed), first) << what << "again";
    }
}

// Scores far apart, as late in training: nothing may overflow.
TEST_P(AttentionTest, LargeScores) {
  const AttentionShape s = shape_of(1, 70, 1, 1, 16, 16);
  const Numbers packed = random_numbers(s.length * s.packed_columns(), 9, type(), 20.0);
  const Numbers grad_out = random_numbers(s.length * s.output_columns(), 2, type());
  const Reference want = reference(s, packed, grad_out, {}, {}, {});
  const Tensor out = unset(type(), Shape{s.length, s.output_columns()}),
               lse = unset(DType::kFloat32, Shape{1, 1, s.length});
  const auto bytes = static_cast<std::int64_t>(backend().attention_workspace(s, type(), false));
  backend().attention_forward(s, upload(packed, type(), Shape{s.length, s.packed_columns()}), {}, {}, out, lse,
                              allocate(DType::kUInt8, Shape{bytes}));
  expect_close(download(out), want.out, type(), "out", 2e-4);
  expect_close(download(lse), want.log_sum_exp, DType::kFloat32, "log_sum_exp", 1e-5);
}

TEST_P(AttentionTest, WorkspaceDoesNotGrowWithTheSquareOfTheLength) {
  const auto short_one = backend().attention_workspace(shape_of(1, 4096, 4, 2, 64, 64), type(), true);
  const auto long_one = backend().attention_workspace(shape_of(1, 32768, 4, 2, 64, 64), type(), true);
  EXPECT_LE(long_one, 10 * short_one + 4096);
}

TEST_P(AttentionTest, Rope) {
  for (const std::int64_t pairs : {4, 8, 16}) {
    const AttentionShape s = shape_of(2, 9, 3, 1, 32, 16);
    const std::int64_t tokens = s.batch * s.length, table_rows = 40;
    const Numbers packed = random_numbers(tokens * s.packed_columns(), 1, type());
    Numbers cosine, sine;
    for (std::int64_t position = 0; position < table_rows; ++position)
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const double angle =
            static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(pair) / static_cast<double>(pairs));
        cosine.push_back(round_to(std::cos(angle), DType::kFloat32));
        sine.push_back(round_to(std::sin(angle), DType::kFloat32));
      }
    std::vector<std::int32_t> positions;
    for (std::int64_t token = 0; token < tokens; ++token)
      positions.push_back(static_cast<std::int32_t>(token * 7 % table_rows));
    Numbers want = packed;
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::int64_t head = 0; head < s.q_heads + s.kv_heads; ++head)
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
          const auto low = static_cast<std::size_t>(token * s.packed_columns() + head * s.d_qk + pair);
          const std::size_t high = low + static_cast<std::size_t>(pairs);
          const auto entry = static_cast<std::size_t>(positions[static_cast<std::size_t>(token)] * pairs + pair);
          want[low] = packed[low] * cosine[entry] - packed[high] * sine[entry];
          want[high] = packed[high] * cosine[entry] + packed[low] * sine[entry];
        }
    const Tensor tensor = upload(packed, type(), Shape{tokens, s.packed_columns()});
    const Tensor cosines = upload(cosine, DType::kFloat32, Shape{table_rows, pairs});
    const Tensor sines = upload(sine, DType::kFloat32, Shape{table_rows, pairs});
    const Tensor where = upload_integers(positions, DType::kInt32);
    backend().rope(tensor, s, where, cosines, sines, false);
    expect_close(download(tensor), want, type(), "rope");
    backend().rope(tensor, s, where, cosines, sines, true);
    expect_close(download(tensor), packed, type(), "rope inverse");
  }
}

// RMSNorm of each head: what norm_forward and norm_backward give for its rows.
TEST_P(AttentionTest, HeadNorm) {
  for (const AttentionShape& s :
       {shape_of(1, 1, 1, 1, 8, 8), shape_of(2, 37, 4, 2, 48, 16), shape_of(1, 70, 3, 1, 128, 128),
        shape_of(1, 9, 2, 2, 7, 5), shape_of(1, 300, 8, 8, 16, 16)}) {
    const std::int64_t tokens = s.batch * s.length, heads = s.q_heads + s.kv_heads, d = s.d_qk;
    const Numbers packed = random_numbers(tokens * s.packed_columns(), 1, type(), 1.5, 0.2);
    const Numbers gradient = random_numbers(tokens * s.packed_columns(), 2, type());
    const Numbers weights[2] = {random_numbers(d, 3, type(), 0.3, 1.0), random_numbers(d, 4, type(), 0.3, 1.0)};
    Numbers normed = packed, raw, rstd, grad = gradient,
            sums[2] = {Numbers(weights[0].size(), 2.0), Numbers(weights[0].size(), 2.0)};
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto at = static_cast<std::size_t>(token * s.packed_columns() + head * d);
        const std::size_t kind = head < s.q_heads ? 0 : 1, width = weights[0].size();
        double squares = 0.0, product = 0.0;
        for (std::size_t i = 0; i < width; ++i) squares += packed[at + i] * packed[at + i];
        const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(d) + 1e-6);
        rstd.push_back(inverse);
        for (std::size_t i = 0; i < width; ++i) {
          const double x = packed[at + i] * inverse;
          raw.push_back(packed[at + i]);
          normed[at + i] = x * weights[kind][i];
          sums[kind][i] += gradient[at + i] * x;
          product += gradient[at + i] * weights[kind][i] * x / static_cast<double>(d);
        }
        for (std::size_t i = 0; i < width; ++i)
          grad[at + i] = inverse * (gradient[at + i] * weights[kind][i] - packed[at + i] * inverse * product);
      }
    const std::string what = fmt::format("{} x {}, {}/{} heads of {}: ", s.batch, s.length, s.q_heads, s.kv_heads, d);
    const Tensor in = upload(packed, type(), Shape{tokens, s.packed_columns()});
    const Tensor q = upload(weights[0], type(), Shape{d}), k = upload(weights[1], type(), Shape{d});
    const Tensor kept = unset(type(), Shape{tokens, heads * d}),
                 inverses = unset(DType::kFloat32, Shape{tokens, heads});
    backend().head_norm_forward(s, in, q, k, 1e-6F, kept, inverses);
    expect_close(download(in), normed, type(), what + "normed");
    expect_close(download(kept), raw, type(), what + "raw", 0.0, 0.0);
    expect_close(download(inverses), rstd, DType::kFloat32, what + "rstd");
    const Tensor grads = upload(gradient, type(), Shape{tokens, s.packed_columns()});
    const Tensor grad_q = upload(Numbers(weights[0].size(), 2.0), DType::kFloat32, Shape{d});
    const Tensor grad_k = upload(Numbers(weights[0].size(), 2.0), DType::kFloat32, Shape{d});
    backend().head_norm_backward(s, grads, kept, q, k, inverses, grad_q, grad_k);
    expect_close(download(grads), grad, type(), what + "grad", 1e-5);
    expect_close(download(grad_q), sums[0], DType::kFloat32, what + "grad_q_weight", 1e-5);
    expect_close(download(grad_k), sums[1], DType::kFloat32, what + "grad_k_weight", 1e-5);
  }
}

RAILYARD_OPERATION_TESTS(AttentionTest);

}  // namespace
}  // namespace railyard::test
