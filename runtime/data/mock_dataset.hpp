// Made-up tokens for trials of speed and of layouts: learnable, and a pure function of (seed, split, number).
#pragma once

#include "runtime/data/dataset.hpp"

namespace railyard::data {

// Each sample counts through the vocabulary from a random place in steps of 1 to 8, so that a model can learn it.
class MockDataset : public Dataset {
 public:
  MockDataset(const char* split, std::uint64_t seed, std::int64_t seq_length, std::int64_t samples, SampleRules rules);
  std::int64_t window(std::int64_t number, std::span<std::int32_t> tokens) const override;
  [[nodiscard]] std::string place(std::int64_t number) const override;
  [[nodiscard]] Json order() const override;

 private:
  const char* split_;
  std::uint64_t seed_;
  std::uint64_t key_;
  std::uint32_t vocab_;
};

}  // namespace railyard::data
