// Reads samples on the host, one batch ahead, and uploads them.
#include "runtime/train/batch.hpp"

#include <numeric>

namespace railyard {

BatchFeeder::BatchFeeder(const ModelShape& shape, int microbatches, int replica, int replicas)
    : shape_(shape), microbatches_(microbatches), replica_(replica), replicas_(replicas) {}

void BatchFeeder::plan(ArenaPlan& plan) {
  const Shape all{microbatches_ * shape_.tokens()};
  if (shape_.documents_apart) first_keys_slot_ = plan.add("first keys", MemoryKind::kOther, DType::kInt32, all);
  ids_slot_ = plan.add("token ids", MemoryKind::kOther, DType::kInt32, all);
  labels_slot_ = plan.add("labels", MemoryKind::kOther, DType::kInt32, all);
  positions_slot_ = plan.add("positions", MemoryKind::kOther, DType::kInt32, all);
  weights_slot_ = plan.add("loss weights", MemoryKind::kOther, DType::kFloat32, all);
  samples_slot_ = plan.add("sample numbers", MemoryKind::kOther, DType::kInt64, all);
}

void BatchFeeder::take(const Arena& arena, Backend& backend) {
  backend_ = &backend;
  ids_ = arena.tensor(ids_slot_);
  labels_ = arena.tensor(labels_slot_);
  positions_ = arena.tensor(positions_slot_);
  weights_ = arena.tensor(weights_slot_);
  samples_ = arena.tensor(samples_slot_);
  if (shape_.documents_apart) first_keys_ = arena.tensor(first_keys_slot_);
  const std::int64_t n = shape_.tokens();
  for (int m = 0; m < microbatches_; ++m)
    microbatch_views_.push_back({ids_.flat(m * n, n), labels_.flat(m * n, n), weights_.flat(m * n, n),
                                 positions_.flat(m * n, n), samples_.flat(m * n, n),
                                 shape_.documents_apart ? first_keys_.flat(m * n, n) : Tensor{}});
}

std::int64_t BatchFeeder::sample_of(std::int64_t first, int microbatch, std::int64_t j) const {
  return first + (static_cast<std::int64_t>(microbatch) * replicas_ + replica_) * shape_.micro_batch + j;
}

std::vector<std::int64_t> BatchFeeder::samples(int index) const {
  std::vector<std::int64_t> numbers;
  for (std::int64_t j = 0; j < shape_.micro_batch; ++j) numbers.push_back(sample_of(loaded_first_, index, j));
  return numbers;
}

BatchFeeder::HostBatch BatchFeeder::read(const data::Dataset& dataset, std::int64_t first) const {
  const auto length = static_cast<size_t>(shape_.spec.seq_length);
  const size_t total = static_cast<size_t>(microbatches_ * shape_.tokens());
  HostBatch batch{.first = first, .dataset = &dataset};
  batch.ids.resize(total);
  batch.labels.resize(total);
  batch.positions.resize(total);
  batch.weights.resize(total);
  batch.sample_ids.resize(total);
  if (shape_.documents_apart) batch.first_keys.resize(total);
  std::vector<std::int32_t> starts;
  for (int m = 0; m < microbatches_; ++m) {
    for (std::int64_t j = 0; j < shape_.micro_batch; ++j) {
      const std::int64_t sample = sample_of(first, m, j);
      const size_t at = static_cast<size_t>(m * shape_.tokens()) + static_cast<size_t>(j) * length;
      dataset.read(sample, {.tokens = std::span(batch.ids).subspan(at, length),
                            .labels = std::span(batch.labels).subspan(at, length),
                            .loss_mask = std::span(batch.weights).subspan(at, length),
                            .positions = std::span(batch.positions).subspan(at, length),
                            .document_starts = shape_.documents_apart ? &starts : nullptr});
      for (size_t i = 0; i < starts.size(); ++i) {
        const size_t end = i + 1 < starts.size() ? static_cast<size_t>(starts[i + 1]) : length;
        std::fill(batch.first_keys.begin() + static_cast<std::ptrdiff_t>(at) + starts[i],
                  batch.first_keys.begin() + static_cast<std::ptrdiff_t>(at + end), starts[i]);
      }
      std::fill_n(batch.sample_ids.begin() + static_cast<std::ptrdiff_t>(at), length, sample);
    }
  }
  return batch;
}

const std::vector<Microbatch>& BatchFeeder::load(const data::Dataset& dataset, std::int64_t first) {
  HostBatch batch;
  if (ahead_.valid() && ahead_first_ == first && ahead_dataset_ == &dataset) {
    batch = ahead_.get();
  } else {
    if (ahead_.valid()) ahead_.wait();
    batch = read(dataset, first);
  }
  ahead_ = {};
  if (const std::int64_t next = first + global_batch(); next + global_batch() <= dataset.size()) {
    ahead_first_ = next;
    ahead_dataset_ = &dataset;
    ahead_ = std::async(std::launch::async, [this, &dataset, next] { return read(dataset, next); });
  }
  loaded_first_ = first;
  upload(batch);
  return microbatch_views_;
}

const Microbatch& BatchFeeder::load_tokens(std::span<const std::int32_t> tokens) {
  RAILYARD_CHECK(microbatches_ == 1 && static_cast<std::int64_t>(tokens.size()) == shape_.tokens());
  HostBatch batch;
  batch.ids.assign(tokens.begin(), tokens.end());
  batch.labels.assign(tokens.size(), 0);
  batch.weights.assign(tokens.size(), 0.0F);
  batch.sample_ids.assign(tokens.size(), 0);
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  if (shape_.documents_apart) batch.first_keys.assign(tokens.size(), 0);
  upload(batch);
  return microbatch_views_.front();
}

void BatchFeeder::upload(const HostBatch& batch) {
  backend_->copy_from_host(std::as_bytes(std::span(batch.ids)), ids_);
  backend_->copy_from_host(std::as_bytes(std::span(batch.labels)), labels_);
  backend_->copy_from_host(std::as_bytes(std::span(batch.positions)), positions_);
  backend_->copy_from_host(std::as_bytes(std::span(batch.weights)), weights_);
  backend_->copy_from_host(std::as_bytes(std::span(batch.sample_ids)), samples_);
  if (shape_.documents_apart) backend_->copy_from_host(std::as_bytes(std::span(batch.first_keys)), first_keys_);
  weight_ = 0.0;
  for (const float w : batch.weights) weight_ += w;
}

}  // namespace railyard
