// Lays parameters out in flat arrays and gives them their initial values.
#include "runtime/optim/parameter_store.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/base/philox.hpp"

namespace railyard {
namespace {

constexpr std::int64_t kParameterAlignment = 64;                 // elements; keeps every parameter on a 128-byte line
constexpr std::int64_t kDefaultBucket = std::int64_t{40} << 20;  // elements, as Megatron-Core's default

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

ParameterStore::ParameterStore(RankModel& model, int replicas, std::int64_t bucket_elements) : model_(model) {
  for (auto& chunk : model.chunks)
    for (auto& layer : chunk) layers_.push_back(layer.get());
  lay_out(replicas, bucket_elements > 0 ? bucket_elements : kDefaultBucket);
}

void ParameterStore::lay_out(int replicas, std::int64_t bucket_elements) {
  struct Item {
    int layer, position;
    ParameterSpec spec;
  };
  std::vector<Item> matrices, tied, sums, vectors;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const auto& specs = layers_[layer]->inventory().parameters;
    of_layer_.emplace_back(specs.size(), -1);
    for (size_t i = 0; i < specs.size(); ++i) {
      Item item{static_cast<int>(layer), static_cast<int>(i), specs[i]};
      const bool word = specs[i].name == "embedding.word_embeddings";
      auto& list = specs[i].sum_over_tp                  ? sums
                   : specs[i].columns == 1               ? vectors
                   : word && model_.tied_across_stages() ? tied
                                                         : matrices;
      list.push_back(std::move(item));
    }
  }
  const std::int64_t unit = std::lcm(kParameterAlignment, std::int64_t{64}) * replicas;
  const auto place = [&](const Item& item) {
    of_layer_[static_cast<size_t>(item.layer)][static_cast<size_t>(item.position)] = static_cast<int>(entries_.size());
    entries_.push_back({.parameter = {.spec = item.spec}, .flat = elements_, .layer = item.layer});
    elements_ += round_up(item.spec.elements(), kParameterAlignment);
  };
  const auto close = [&](bool at_end) {
    const std::int64_t begin = buckets_.empty() ? 0 : buckets_.back().begin + buckets_.back().elements;
    if (elements_ == begin) return;
    elements_ = begin + round_up(elements_ - begin, unit);
    Bucket bucket{.begin = begin, .elements = elements_ - begin, .at_end = at_end};
    for (const Entry& entry : entries_)
      if (entry.flat >= begin && (bucket.layers.empty() || bucket.layers.back() != entry.layer))
        bucket.layers.push_back(entry.layer);
    buckets_.push_back(std::move(bucket));
  };
  for (size_t i = 0; i < matrices.size(); ++i) {
    place(matrices[i]);
    const std::int64_t begin = buckets_.empty() ? 0 : buckets_.back().begin + buckets_.back().elements;
    const bool layer_ends = i + 1 == matrices.size() || matrices[i + 1].layer != matrices[i].layer;
    if (layer_ends && elements_ - begin >= bucket_elements) close(false);
  }
  close(false);
  for (const Item& item : tied) place(item);
  close(true);
  sum_begin_ = elements_;
  for (const Item& item : sums) place(item);
  sum_count_ = elements_ - sum_begin_;
  for (const Item& item : vectors) place(item);
  close(true);
}

void ParameterStore::plan(ArenaPlan& plan) {
  value_slot_ = plan.add("parameters", MemoryKind::kWeights, model_.shape.dtype, Shape{elements_});
  gradient_slot_ = plan.add("gradients", MemoryKind::kGradients, DType::kFloat32, Shape{elements_});
}

void ParameterStore::take(const Arena& arena, Backend& backend, std::uint64_t seed) {
  values_ = arena.tensor(value_slot_);
  gradients_ = arena.tensor(gradient_slot_);
  backend.zero(gradients_);
  for (Entry& entry : entries_) {
    Parameter& parameter = entry.parameter;
    const ParameterSpec& spec = parameter.spec;
    const Shape shape = spec.columns == 1 ? Shape{spec.rows} : Shape{spec.rows, spec.columns};
    parameter.value = values_.flat(entry.flat, spec.elements()).view(shape);
    parameter.gradient = gradients_.flat(entry.flat, spec.elements()).view(shape);
    for (const ParameterPiece& piece : spec.pieces) {
      const Tensor target = parameter.gradient.flat(piece.local_row * spec.columns, piece.rows * spec.columns);
      if (piece.deviation == 0.0F) {
        backend.fill(target, piece.mean);
      } else {
        backend.fill_normal(target.view(Shape{piece.rows, spec.columns}), stream_key(seed, piece.name), piece.first_row,
                            piece.first_column, piece.logical_columns, piece.mean, piece.deviation);
      }
    }
  }
  backend.cast(gradients_, values_);
  Parameter* word = nullptr;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    std::vector<Parameter*> bound;
    for (const int entry : of_layer_[layer]) bound.push_back(&entries_[static_cast<size_t>(entry)].parameter);
    if (layer == 0 && model_.has_embedding) word = bound.front();
    if (layers_[layer]->name() == "output" && model_.tied_here()) bound.push_back(word);
    layers_[layer]->bind(std::move(bound));
  }
}

void ParameterStore::clear_gradients(Backend& backend) const {
  std::int64_t begin = 0;
  const auto clear = [&](std::int64_t end) {
    if (end > begin) backend.zero(gradients_.flat(begin, end - begin));
  };
  for (const Entry& entry : entries_) {
    if (!entry.parameter.spec.overwrites_gradient) continue;
    clear(entry.flat);
    begin = entry.flat + entry.parameter.spec.elements();
  }
  clear(elements_);
}

Tensor ParameterStore::gradients_to_sum_over_tp() const { return gradients_.flat(sum_begin_, sum_count_); }

Tensor ParameterStore::tied_gradient() const {
  if (!model_.tied_across_stages()) return {};
  for (const Entry& entry : entries_)
    if (entry.parameter.spec.name == "embedding.word_embeddings") return entry.parameter.gradient;
  return {};
}

std::vector<ParameterRun> ParameterStore::runs(std::int64_t begin, std::int64_t count) const {
  std::vector<ParameterRun> runs;
  for (const Entry& entry : entries_) {
    const std::int64_t first = std::max(begin, entry.flat);
    const std::int64_t last = std::min(begin + count, entry.flat + entry.parameter.spec.elements());
    if (first < last) runs.push_back({&entry.parameter, first - entry.flat, first, last - first});
  }
  return runs;
}

}  // namespace railyard
