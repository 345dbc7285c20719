// Generation by whole forward passes: the model is small or the text short; speed is not the point here.
#include "runtime/train/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/philox.hpp"
#include "runtime/train/rank_state.hpp"
#include "runtime/train/trainer.hpp"
#include "runtime/train/training_state.hpp"

namespace railyard {
namespace {

// Draws from softmax(logits / temperature) over the top_k likeliest; `uniform` in (0, 1).
std::int32_t draw(const std::vector<float>& logits, const SampleOptions& options, float uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (options.temperature <= 0.0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(order.size()))
    order.resize(static_cast<size_t>(options.top_k));
  const double largest = logits[static_cast<size_t>(order.front())];
  std::vector<double> weights;
  for (const std::int32_t id : order)
    weights.push_back(std::exp((logits[static_cast<size_t>(id)] - largest) / options.temperature));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < order.size(); ++i)
    if ((left -= weights[i]) <= 0.0) return order[i];
  return order.back();
}

}  // namespace

struct LoadedModel::State {
  State(const JobSpec& resolved, Backend& backend)
      : job(resolved),
        communicator(make_single_communicator(backend)),
        groups(ParallelGroups::make(Layout::resolve(job.parallel, 1), *communicator)),
        rank(job, groups, MemoryTarget::of(backend)) {}
  JobSpec job;
  std::unique_ptr<Communicator> communicator;
  ParallelGroups groups;
  RankState rank;
};

LoadedModel::LoadedModel(JobSpec job, const std::filesystem::path& checkpoint, Backend& backend) {
  job.parallel = {};
  job.parallel.dp = 1;
  job.parallel.order = "tp-cp-ep-dp-pp";
  job.train.micro_batch = job.train.global_batch = 1;
  job.train.optimizer.distributed = false;
  state_ = std::make_unique<State>(job, backend);
  state_->rank.take(backend, job.train.seed);
  CheckpointReader reader(checkpoint);
  load_training_state(reader, state_->rank.optimizer, backend, false);
}
LoadedModel::~LoadedModel() = default;
LoadedModel::LoadedModel(LoadedModel&&) noexcept = default;
LoadedModel& LoadedModel::operator=(LoadedModel&&) noexcept = default;

std::vector<float> LoadedModel::logits(std::span<const std::int32_t> tokens) {
  const ModelSpec& model = state_->job.model;
  if (tokens.empty()) throw UsageError("the prompt holds no token; give --prompt TEXT");
  const std::size_t used = std::min(tokens.size(), static_cast<std::size_t>(model.seq_length));
  std::vector<std::int32_t> window(static_cast<std::size_t>(model.seq_length), 0);
  std::copy(tokens.end() - static_cast<std::ptrdiff_t>(used), tokens.end(), window.begin());
  for (const std::int32_t id : window)
    if (id < 0 || id >= model.vocab)
      throw UsageError("the prompt holds token {}, the model's vocabulary has {}", id, model.vocab);
  std::vector<float> result(static_cast<std::size_t>(model.vocab));
  state_->rank.executor.logits(state_->rank.feeder.load_tokens(window), static_cast<std::int64_t>(used) - 1, result);
  return result;
}

void sample_tokens(LoadedModel& model, std::span<const std::int32_t> prompt, const SampleOptions& options,
                   const std::function<void(std::int32_t)>& emit) {
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto step = static_cast<std::uint32_t>(i);
    text.push_back(draw(model.logits(text), options,
                        uniform_open(philox4x32(step, 0, 0, 0, stream_key(options.seed, "sample")).x[0])));
    emit(text.back());
  }
}

}  // namespace railyard
