// Blends as megatron/core/datasets/blended_dataset.py and helpers.cpp build them.
#include "runtime/data/blended_dataset.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"

namespace railyard::data {
namespace {

// numpy.sum of doubles: pairwise, with eight running sums in blocks of up to 128.
double numpy_sum(std::span<const double> x) {
  if (x.size() < 8) {
    double sum = 0.0;
    for (const double value : x) sum += value;
    return sum;
  }
  if (x.size() <= 128) {
    double r[8];
    std::copy_n(x.begin(), 8, r);
    std::size_t i = 8;
    for (; i + 8 <= x.size(); i += 8)
      for (std::size_t j = 0; j < 8; ++j) r[j] += x[i + j];
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < x.size(); ++i) sum += x[i];
    return sum;
  }
  std::size_t half = x.size() / 2;
  half -= half % 8;
  return numpy_sum(x.first(half)) + numpy_sum(x.subspan(half));
}

}  // namespace

std::vector<double> normalised(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> out(weights.begin(), weights.end());
  for (double& weight : out) weight /= sum;
  return out;
}

BlendIndex build_blend_index(std::span<const double> weights, std::int64_t size) {
  RAILYARD_CHECK(!weights.empty() && weights.size() < 32767 && size > 0);
  std::vector<std::int16_t> datasets(static_cast<std::size_t>(size));
  std::vector<std::int64_t> samples(static_cast<std::size_t>(size));
  std::vector<std::int64_t> counts(weights.size(), 0);
  for (std::int64_t s = 0; s < size; ++s) {
    const double scale = std::max(static_cast<double>(s), 1.0);
    std::size_t chosen = 0;
    double largest = weights[0] * scale - static_cast<double>(counts[0]);
    for (std::size_t d = 1; d < weights.size(); ++d) {
      const double error = weights[d] * scale - static_cast<double>(counts[d]);
      if (error > largest) {
        largest = error;
        chosen = d;
      }
    }
    datasets[static_cast<std::size_t>(s)] = static_cast<std::int16_t>(chosen);
    samples[static_cast<std::size_t>(s)] = counts[chosen]++;
  }
  return {IntArray(std::move(datasets)), IntArray(std::move(samples)), std::move(counts)};
}

BlendedDataset::BlendedDataset(std::int64_t seq_length, std::vector<std::unique_ptr<Dataset>> parts, BlendIndex index,
                               std::vector<double> weights, SampleRules rules)
    : Dataset(seq_length, static_cast<std::int64_t>(index.datasets.size()), rules),
      parts_(std::move(parts)),
      index_(std::move(index)),
      weights_(std::move(weights)) {
  for (std::size_t d = 0; d < parts_.size(); ++d)
    RAILYARD_CHECK(index_.counts[d] == 0 || (parts_[d] && parts_[d]->size() >= index_.counts[d]));
}

const Dataset& BlendedDataset::part(std::int64_t number) const {
  return *parts_[static_cast<std::size_t>(index_.datasets[static_cast<std::size_t>(number)])];
}

std::int64_t BlendedDataset::window(std::int64_t number, std::span<std::int32_t> tokens) const {
  return part(number).window(part_sample(number), tokens);
}

std::string BlendedDataset::place(std::int64_t number) const { return part(number).place(part_sample(number)); }

Json BlendedDataset::order() const {
  Json parts = Json::array();
  for (const auto& part : parts_) parts.push_back(part ? part->order() : Json(nullptr));
  return Json{{"weights", weights_}, {"parts", std::move(parts)}};
}

bool BlendedDataset::has_padding() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part && part->has_padding(); });
}

}  // namespace railyard::data
