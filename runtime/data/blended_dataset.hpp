// Several data sets mixed by weight, in the order of Megatron-Core's BlendedDataset.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/int_array.hpp"

namespace railyard::data {

// w / sum(w), with the sum taken in NumPy's order so that the last bits agree.
[[nodiscard]] std::vector<double> normalised(std::span<const double> weights);

struct BlendIndex {
  IntArray datasets;                 // int16: the part that sample s comes from
  IntArray samples;                  // int64: the number of the sample in that part
  std::vector<std::int64_t> counts;  // samples taken from each part
};

// Sample s goes to the part d with the largest weights[d] * max(s, 1) - taken[d], the first of equals. `weights` sum
// to 1.
BlendIndex build_blend_index(std::span<const double> weights, std::int64_t size);

class BlendedDataset : public Dataset {
 public:
  // parts[d] has at least index.counts[d] samples of seq_length; it may be null where none is taken.
  BlendedDataset(std::int64_t seq_length, std::vector<std::unique_ptr<Dataset>> parts, BlendIndex index,
                 std::vector<double> weights, SampleRules rules);

  std::int64_t window(std::int64_t number, std::span<std::int32_t> tokens) const override;
  [[nodiscard]] std::string place(std::int64_t number) const override;
  [[nodiscard]] Json order() const override;
  [[nodiscard]] bool has_padding() const override;

 private:
  [[nodiscard]] const Dataset& part(std::int64_t number) const;
  [[nodiscard]] std::int64_t part_sample(std::int64_t number) const {
    return index_.samples[static_cast<std::size_t>(number)];
  }

  std::vector<std::unique_ptr<Dataset>> parts_;
  BlendIndex index_;
  std::vector<double> weights_;
};

}  // namespace railyard::data
