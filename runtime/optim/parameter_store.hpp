// All parameters of a rank in flat arrays: values in compute dtype, gradients in fp32. The arrays are cut into buckets,
// the unit of gradient reduction and of parameter gathering over data-parallel ranks (Rajbhandari et al. 2020, ZeRO-1).
#pragma once

#include <vector>

#include "runtime/model/rank_model.hpp"
#include "runtime/tensor/arena.hpp"

namespace railyard {

// A run of a parameter in the flat arrays. A dp rank's share of a bucket is a union of such runs.
struct ParameterRun {
  const Parameter* parameter = nullptr;
  std::int64_t begin = 0;  // within the parameter, in elements
  std::int64_t flat = 0;   // within the flat arrays
  std::int64_t count = 0;
};

struct Bucket {
  std::int64_t begin = 0, elements = 0;  // in the flat arrays; elements is a multiple of dp
  std::vector<int> layers;               // whose backward must be over; by position in `layers()` order
  bool at_end = false;                   // reduced after the last backward: vectors, and tied weights of two stages
};

class ParameterStore {
 public:
  // `bucket_elements` 0: chosen. Shards are `replicas` equal parts of each bucket.
  ParameterStore(RankModel& model, int replicas, std::int64_t bucket_elements);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  void plan(ArenaPlan& plan);
  // Takes the arrays, binds every layer's parameters and fills the initial values (a function of seed and logical
  // name). They are left in full precision in the gradient array too, where the optimizer takes its master weights
  // from.
  void take(const Arena& arena, Backend& backend, std::uint64_t seed);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  [[nodiscard]] const std::vector<Layer*>& layers() const { return layers_; }
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] const Tensor& values() const { return values_; }
  [[nodiscard]] const Tensor& gradients() const { return gradients_; }
  // Gradients to zero, before a step's first microbatch: of all parameters but those whose first product overwrites
  // them.
  void clear_gradients(Backend& backend) const;
  // Gradients [begin, begin + count) of parameters that each tp rank knows for its own tokens only.
  [[nodiscard]] Tensor gradients_to_sum_over_tp() const;
  // The tied weight's gradient when another stage holds the other copy; undefined otherwise.
  [[nodiscard]] Tensor tied_gradient() const;
  // The parameter runs inside flat range [begin, begin + count).
  [[nodiscard]] std::vector<ParameterRun> runs(std::int64_t begin, std::int64_t count) const;

 private:
  struct Entry {
    Parameter parameter;
    std::int64_t flat = 0;
    int layer = 0;
  };
  void lay_out(int replicas, std::int64_t bucket_elements);

  RankModel& model_;
  std::vector<Layer*> layers_;
  std::vector<Entry> entries_;              // by flat position
  std::vector<std::vector<int>> of_layer_;  // [layer][parameter] -> entry
  std::vector<Bucket> buckets_;
  std::int64_t elements_ = 0, sum_begin_ = 0, sum_count_ = 0;
  ArenaSlot value_slot_, gradient_slot_;
  Tensor values_, gradients_;
};

}  // namespace railyard
