// Puts the samples of a step on the device. Which sample belongs to which microbatch of which data-parallel rank
// follows Megatron-Core: consecutive blocks of micro_batch x dp samples are one microbatch each, cut in dp pieces; so a
// global batch is the same set of samples in any layout.
#pragma once

#include <future>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/model/layer.hpp"
#include "runtime/tensor/arena.hpp"

namespace railyard {

class BatchFeeder {
 public:
  // `microbatches` per step on this rank; `replica` of `replicas` data-parallel ranks.
  BatchFeeder(const ModelShape& shape, int microbatches, int replica, int replicas);

  void plan(ArenaPlan& plan);
  void take(const Arena& arena, Backend& backend);

  // Uploads the global batch whose first sample is `first`. The batch after it is read ahead in the background when it
  // is in range. The result stays valid until the next call.
  const std::vector<Microbatch>& load(const data::Dataset& dataset, std::int64_t first);
  // Uploads one sample of tokens given by the caller [seq_length], for generation; labels and weights are zero.
  const Microbatch& load_tokens(std::span<const std::int32_t> tokens);
  // Sum of the loss weights of the batch just loaded, on this rank.
  [[nodiscard]] double weight() const { return weight_; }
  // Sample numbers of microbatch `index` of the batch just loaded, on this rank.
  [[nodiscard]] std::vector<std::int64_t> samples(int index) const;
  [[nodiscard]] std::int64_t global_batch() const { return shape_.micro_batch * replicas_ * microbatches_; }

 private:
  struct HostBatch {
    std::int64_t first = 0;
    const data::Dataset* dataset = nullptr;
    std::vector<std::int32_t> ids, labels, positions, first_keys;
    std::vector<float> weights;
    std::vector<std::int64_t> sample_ids;
  };
  void upload(const HostBatch& batch);
  [[nodiscard]] HostBatch read(const data::Dataset& dataset, std::int64_t first) const;
  [[nodiscard]] std::int64_t sample_of(std::int64_t first, int microbatch, std::int64_t j) const;

  ModelShape shape_;
  int microbatches_, replica_, replicas_;
  Backend* backend_ = nullptr;
  ArenaSlot ids_slot_, labels_slot_, positions_slot_, weights_slot_, samples_slot_, first_keys_slot_;
  Tensor ids_, labels_, positions_, weights_, samples_, first_keys_;
  std::vector<Microbatch> microbatch_views_;
  std::future<HostBatch> ahead_;
  std::int64_t ahead_first_ = -1, loaded_first_ = 0;
  const data::Dataset* ahead_dataset_ = nullptr;
  double weight_ = 0.0;
};

}  // namespace railyard
