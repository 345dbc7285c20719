// Puts memory, time and volumes of a layout together.
#include "launch/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/parallel/schedule.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard::launch {
namespace {

constexpr std::int64_t kMostRows = 1 << 25;  // of a schedule; each takes some bytes

std::optional<Calibration> contents(const std::optional<FoundCalibration>& found) {
  return found ? std::optional(found->calibration) : std::nullopt;
}

std::optional<DeviceRates> rates_of(const Cluster& cluster, const std::optional<FoundCalibration>& calibration,
                                    int threads) {
  if (!cluster.has_gpus) return DeviceRates::of_cpu(threads, contents(calibration));
  if (!cluster.spec) return std::nullopt;
  return DeviceRates(*cluster.spec, contents(calibration));
}

}  // namespace

Planner::Planner(const Cluster& cluster, std::optional<FoundCalibration> calibration, int threads)
    : cluster_(cluster),
      calibration_(std::move(calibration)),
      rates_(rates_of(cluster, calibration_, threads)),
      links_(cluster, contents(calibration_)) {}

std::optional<StepTime> Planner::time(const JobSpec& job, const Layout& layout) const {
  return time(job, layout, PipelineTime::kSchedule);
}

double Planner::least_time(const JobSpec& job, const Layout& layout) const {
  return time(job, layout, PipelineTime::kBound)->step_s;
}

bool Planner::surely_too_large(const JobSpec& job, const Layout& layout) const {
  if (!cluster_.spec) return false;
  const ModelParts parts = model_parts(job, layout);
  double elements = 0;
  for (int stage = 0; stage < layout.pp; ++stage)
    elements = std::max(elements, stage_parameters(job, layout, parts, stage));
  const double shards = job.train.optimizer.distributed ? layout.dp * layout.cp : 1;
  // Weights, gradients in fp32 and at least the two moments.
  const double bytes = elements * (static_cast<double>(dtype_size(parts.shape.dtype)) + 4 + 8 / shards);
  return bytes > cluster_.spec->memory_gib * 1024 * 1024 * 1024;
}

std::optional<StepTime> Planner::time(const JobSpec& job, const Layout& layout, PipelineTime pipeline) const {
  if (!rates_) return std::nullopt;
  // What the runtime refuses is refused in its own words.
  if (layout.vpp > 1 && (layout.pp == 1 || microbatches_of(job, layout) % layout.pp != 0))
    (void)make_schedule(job, layout);
  const ModelParts parts = model_parts(job, layout);
  const ModelTimes times = model_times(job, parts, *rates_);
  StepTime best = step_time(job, layout, parts, times, links_.nested(layout, false), *rates_, pipeline);
  // Only a domain with room beside tp and cp has a choice.
  if (layout.pp > 1 && layout.dp > 1 && layout.tp * layout.cp < links_.domain()) {
    const StepTime other = step_time(job, layout, parts, times, links_.nested(layout, true), *rates_, pipeline);
    if (other.step_s < best.step_s) best = other;
  }
  return best;
}

std::optional<StepTime> Planner::time(const JobSpec& job, const Layout& layout, const Placement& placement) const {
  if (!rates_) return std::nullopt;
  const ModelParts parts = model_parts(job, layout);
  return step_time(job, layout, parts, model_times(job, parts, *rates_),
                   links_.placed(layout, cluster_.allocation, placement), *rates_);
}

Planner::Plan Planner::plan(const JobSpec& job, const Layout& layout) const {
  return plan(job, layout, time(job, layout));
}

Planner::Plan Planner::plan(const JobSpec& job, const Layout& layout, std::optional<StepTime> time) const {
  if (const auto rows = microbatches_of(job, layout) * layout.pp * layout.vpp; rows > kMostRows)
    throw UsageError(
        "train.global_batch: {} microbatches a step on {} stages are too many to plan; raise train.micro_batch",
        microbatches_of(job, layout), layout.pp * layout.vpp);
  return {job, layout, worst_memory(job, layout, cluster_), std::move(time), axis_bytes(job, layout)};
}

std::string Planner::rates_source() const {
  if (calibration_)
    return fmt::format("{}, measured {} on {}", calibration_->path.string(), calibration_->calibration.date,
                       calibration_->calibration.device);
  if (!cluster_.has_gpus) return "usual rates of a CPU core";
  return cluster_.spec ? cluster_.spec->source + ", usual efficiencies" : "none";
}

std::vector<std::string> Planner::unmeasured() const {
  std::vector<std::string> lines;
  if (!rates_) {
    lines.push_back(
        cluster_.gpu.empty()
            ? "the kind of GPU is unknown, and with it time, MFU and the memory limit; name it in the site's "
              "node.gpu, or give --site"
            : fmt::format("{} is not in the table of GPUs: time, MFU and the memory limit are unknown", cluster_.gpu));
    return lines;
  }
  std::string missing = fmt::format("{}", fmt::join(rates_->unmeasured(), ", "));
  const auto add = [&](const char* what) { missing += (missing.empty() ? "" : ", ") + std::string(what); };
  if (cluster_.slots_per_node() > 1 && !links_.measured_inside()) add("messages inside a node");
  if (cluster_.nodes() > 1 && !links_.measured_across()) add("messages between nodes");
  if (!missing.empty())
    lines.push_back(fmt::format("not measured: {} (guessed from {}); run `railyard bench` on such a node", missing,
                                cluster_.has_gpus ? "data sheets" : "usual rates"));
  return lines;
}

std::vector<std::string> plan_warnings(const Planner& planner, const Planner::Plan& plan) {
  std::vector<std::string> warnings;
  const Layout& layout = plan.layout;
  const MemoryFigures& memory = plan.memory;
  const TrainSpec& train = plan.job.train;
  if (memory.fits() == false) {
    std::string remedy;
    const auto add = [&](bool possible, const std::string& what) {
      if (possible) remedy += (remedy.empty() ? "" : ", ") + what;
    };
    add(!train.optimizer.distributed && layout.dp > 1, "train.optimizer.distributed = true");
    add(train.micro_batch > 1, fmt::format("train.micro_batch below {}", train.micro_batch));
    add(layout.tp < planner.domain() && plan.job.model.kv_heads % (2 * layout.tp) == 0,
        fmt::format("parallel.tp = {}", 2 * layout.tp));
    add(layout.tp > 1 && !layout.sequence_parallel, "parallel.sequence_parallel = true");
    add(2 * layout.pp <= plan.job.model.layers, fmt::format("parallel.pp = {}", 2 * layout.pp));
    warnings.push_back(
        fmt::format("does not fit: {:.1f} GiB on rank {} (stage {}), and the device has {:.1f} GiB; try {}",
                    memory.total_gib, memory.rank, memory.stage, *memory.limit_gib,
                    remedy.empty() ? "more or larger GPUs" : remedy + "; --search finds what fits"));
  } else if (memory.fits() == true && memory.total_gib > 0.95 * *memory.limit_gib) {
    warnings.push_back(fmt::format(
        "{:.1f} of {:.1f} GiB leave little: other programs on the GPU, or more workspace in another version of "
        "a library, end the run before step 0; a smaller train.micro_batch leaves room",
        memory.total_gib, *memory.limit_gib));
  }
  const Cluster& cluster = planner.cluster();
  if (cluster.has_gpus && layout.tp > planner.domain())
    warnings.push_back(fmt::format(
        "tp {} is larger than a domain of {} GPUs: each layer's activations cross the network; use parallel.tp <= {}",
        layout.tp, planner.domain(), planner.domain()));
  if (layout.tp > 1 && !layout.sequence_parallel)
    warnings.emplace_back(
        "tp without parallel.sequence_parallel = true: norms and residuals are kept by every rank, and their sums hide "
        "under nothing in the forward pass");
  if (plan.time) {
    const StepTime& time = *plan.time;
    if (time.bubble_s > 0.2 * time.step_s)
      warnings.push_back(
          fmt::format("stages wait {:.0f} % of the step: more microbatches (a larger train.global_batch or less dp), "
                      "fewer stages or "
                      "parallel.vpp shorten that",
                      100 * time.bubble_s / time.step_s));
    if (time.exposed_comm_s > 0.25 * time.step_s)
      warnings.push_back(fmt::format("{:.0f} % of the step is communication that nothing hides ({})",
                                     100 * time.exposed_comm_s / time.step_s,
                                     time.tensor_s > time.data_s ? "tensor parallel: less parallel.tp"
                                                                 : "data parallel: a larger train.global_batch"));
  }
  if (cluster.has_gpus && cluster.slots() > layout.ranks())
    warnings.push_back(fmt::format("{} of {} GPUs stay idle", cluster.slots() - layout.ranks(), cluster.slots()));
  return warnings;
}

}  // namespace railyard::launch
