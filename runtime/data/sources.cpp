// From lists of files to splits.
#include "runtime/data/sources.hpp"

#include <cmath>
#include <map>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/data/blended_dataset.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/parallel.hpp"
#include "runtime/data/split.hpp"

namespace railyard::data {
namespace {

constexpr double kSurplus = 0.005;  // Megatron's mid_level_dataset_surplus
constexpr const char* kSplits[] = {"train", "valid", "test"};

// One split of one file, to be built.
struct Part {
  std::size_t split;
  std::shared_ptr<const IndexedDataset> file;
  GptIndexRequest request;
  std::unique_ptr<Dataset> dataset;
};

// The parts of a split, and how they are mixed.
struct Plan {
  std::int64_t samples = 0;
  std::vector<double> weights;  // empty: by length
  std::vector<std::size_t> parts;
  bool blended = false;
};

std::vector<double> weights_of(const std::vector<DataSource>& list, const char* name) {
  std::vector<double> weights;
  for (const DataSource& source : list) {
    if (!source.weight) continue;
    if (!(*source.weight >= 0.0) || !std::isfinite(*source.weight))
      throw UsageError("data.{}: {}: weight {} is not a number from 0 on", name, source.path, *source.weight);
    weights.push_back(*source.weight);
  }
  if (!weights.empty() && weights.size() != list.size())
    throw UsageError("data.{}: {} of {} entries have a weight; give one to all or to none", name, weights.size(),
                     list.size());
  double sum = 0.0;
  for (const double weight : weights) sum += weight;
  if (!weights.empty() && !(sum > 0.0)) throw UsageError("data.{}: the weights are all zero", name);
  return weights.empty() ? weights : normalised(weights);
}

std::int64_t share(std::int64_t samples, double weight) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(samples) * weight));
}

class Builder {
 public:
  Builder(const JobSpec& job, const std::filesystem::path& cache, const SampleRules& rules,
          const std::function<std::filesystem::path(const std::string&)>& locate)
      : job_(job), cache_(cache), rules_(rules), locate_(locate) {}

  void plan(std::size_t split, const std::vector<DataSource>& list, std::int64_t samples,
            const std::array<double, 4>& fractions, bool whole) {
    if (list.empty() || samples == 0) return;
    if (list.size() >= 32767)
      throw UsageError("data.{}: {} entries, at most 32766 can be blended", kSplits[split], list.size());
    if (!whole && fractions[split] == fractions[split + 1]) {
      if (split < 2)
        throw UsageError("data.split: \"{}\" leaves nothing for {}", job_.data.split,
                         split == 0 ? "training" : "validation, which eval.every asks for");
      return;
    }
    Plan& plan = plans_[split];
    plan.samples = samples;
    plan.weights = weights_of(list, kSplits[split]);
    plan.blended = list.size() > 1 || (!whole && !plan.weights.empty());
    if (!plan.blended) plan.weights.clear();
    for (std::size_t d = 0; d < list.size(); ++d) {
      Part part{split, open(list[d].path), {}, nullptr};
      const auto bounds = split_bounds(fractions, part.file->sequences(), SplitRounding::kHalfToEven);
      part.request.first = whole ? 0 : bounds[split];
      part.request.last = whole ? part.file->sequences() : bounds[split + 1];
      part.request.seq_length = job_.model.seq_length;
      part.request.seed = static_cast<std::uint32_t>(job_.train.seed);
      if (!plan.blended)
        part.request.samples = samples;
      else if (!plan.weights.empty())
        part.request.samples = static_cast<std::int64_t>(
            std::ceil(static_cast<double>(share(samples, plan.weights[d])) * (1.0 + kSurplus)));
      if (split == 2 &&
          part.request.first == part.request.last) {  // nobody asked for a test by name: "969,30,1" of a small file
        plan.parts.clear();
        return;
      }
      plan.parts.push_back(parts_.size());
      parts_.push_back(std::move(part));
    }
  }

  std::array<std::unique_ptr<Dataset>, 3> build() {
    parallel_for(parts_.size(), std::thread::hardware_concurrency(), [&](std::size_t i) {
      const auto& samples = parts_[i].request.samples;
      if (!samples || *samples > 0) build(parts_[i]);
    });
    std::array<std::unique_ptr<Dataset>, 3> splits;
    for (std::size_t i = 0; i < 3; ++i) {
      if (plans_[i].parts.empty()) continue;
      splits[i] = plans_[i].blended ? blend(plans_[i]) : std::move(parts_[plans_[i].parts.front()].dataset);
    }
    return splits;
  }

 private:
  std::shared_ptr<const IndexedDataset> open(const std::string& path) {
    auto& file = files_[path];
    if (!file) file = std::make_shared<const IndexedDataset>(locate_(path));
    return file;
  }

  void build(Part& part) const {
    try {
      part.dataset = std::make_unique<GptDataset>(part.file, part.request,
                                                  cached_gpt_index(*part.file, part.request, cache_), rules_);
    } catch (const UsageError& error) {
      throw UsageError("data: {} split (sequences {} to {}): {}", kSplits[part.split], part.request.first,
                       part.request.last, error.what());
    }
  }

  std::unique_ptr<Dataset> blend(const Plan& plan) {
    std::vector<double> weights;
    std::int64_t size = 0;
    if (!plan.weights.empty()) {
      weights = normalised(plan.weights);  // Megatron normalises twice, and last bits decide ties
      for (const double weight : plan.weights) size += share(plan.samples, weight);
    } else {
      for (const std::size_t p : plan.parts) {
        weights.push_back(static_cast<double>(parts_[p].dataset->size()));
        size += parts_[p].dataset->size();
      }
      size = std::min(size, plan.samples);
      weights = normalised(weights);
    }
    BlendIndex index = build_blend_index(weights, size);
    std::vector<std::unique_ptr<Dataset>> datasets;
    for (std::size_t d = 0; d < plan.parts.size(); ++d) {
      Part& part = parts_[plan.parts[d]];
      if (index.counts[d] > 0 && (!part.dataset || part.dataset->size() < index.counts[d])) {
        part.request.samples = index.counts[d];
        build(part);
      }
      datasets.push_back(std::move(part.dataset));
    }
    return std::make_unique<BlendedDataset>(job_.model.seq_length, std::move(datasets), std::move(index),
                                            std::move(weights), rules_);
  }

  const JobSpec& job_;
  const std::filesystem::path& cache_;
  const SampleRules& rules_;
  const std::function<std::filesystem::path(const std::string&)>& locate_;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> files_;
  std::vector<Part> parts_;
  std::array<Plan, 3> plans_;
};

}  // namespace

std::array<std::unique_ptr<Dataset>, 3> open_sources(
    const JobSpec& job, const std::filesystem::path& cache, const SampleRules& rules,
    const std::function<std::filesystem::path(const std::string&)>& locate) {
  const DataSpec& data = job.data;
  const SampleCounts counts = sample_counts(job);
  const bool whole = !data.valid.empty() || !data.test.empty();
  if (data.train.empty()) throw UsageError("data.train: the list is empty");
  if (whole && !data.split.empty())
    throw UsageError("data.split: cannot go with data.valid or data.test, which name the splits' files themselves");
  if (whole && counts.valid > 0 && data.valid.empty())
    throw UsageError("data.valid: eval.every asks for validation, but there is no list");
  const auto fractions = parse_split(data.split.empty() ? kDefaultSplit : data.split);
  Builder builder(job, cache, rules, locate);
  builder.plan(0, data.train, counts.train, fractions, whole);
  builder.plan(1, whole ? data.valid : data.train, counts.valid, fractions, whole);
  builder.plan(2, whole ? data.test : data.train, counts.test, fractions, whole);
  return builder.build();
}

}  // namespace railyard::data
