// The training loop of a rank.
#include "runtime/train/trainer.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "runtime/base/json.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/optim/learning_rate.hpp"
#include "runtime/train/collectives.hpp"
#include "runtime/train/rank_state.hpp"
#include "runtime/train/row_clock.hpp"
#include "runtime/train/slow_rank.hpp"
#include "runtime/train/training_state.hpp"

namespace railyard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTimedStep = 3;          // of a start: the first ones also choose algorithms and fill caches
constexpr std::size_t kMostTimedRows = 200000;  // of a step over all stages; the picture shows no more anyway

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class TrainLoop {
 public:
  TrainLoop(JobSpec job, const Layout& layout, const TrainEnvironment& environment)
      : job_(std::move(job)),
        environment_(environment),
        communicator_(*environment.communicator),
        backend_(*environment.backend),
        collectives_(communicator_),
        groups_(ParallelGroups::make(layout, communicator_)),
        slow_ranks_(communicator_.rank(), layout.pp, groups_.at.pp) {}

  TrainResult run() {
    enter(PhaseKind::kStart, "opening the data");  // an index may take long to build: no stall
    open_data();
    enter(PhaseKind::kCompute, "initial weights");
    state_.emplace(job_, groups_, MemoryTarget::of(backend_));
    state_->take(backend_, job_.train.seed);
    say_settings();
    CheckpointWriter writer(collectives_, checkpoint_dir(), {job_.checkpoint.keep, job_.checkpoint.keep_every});
    writer_ = &writer;
    enter(PhaseKind::kFiles, "reading the checkpoint");
    restore();
    adopt_algorithms();
    if (evaluates() && step_ == 0) evaluate();
    const TrainEnd end = loop();
    if (step_ != saved_ && environment_.save) save(false);
    publish();
    enter(PhaseKind::kEnd, "ending");
    return {end, step_};
  }

 private:
  // ---- start ----
  void open_data() {
    // Rank 0 prepares what is not cached; the others then find it.
    const data::DataOptions options{environment_.run_dir, environment_.data_root};
    if (communicator_.rank() == 0) splits_ = data::open_splits(job_, options);
    communicator_.barrier();
    if (communicator_.rank() != 0) splits_ = data::open_splits(job_, options);
    if (job_.model.vocab == 0) job_.model.vocab = splits_.vocab_size;
    if (splits_.vocab_size > job_.model.vocab)
      throw UsageError("model.vocab: {} is smaller than the tokenizer's {} tokens", job_.model.vocab,
                       splits_.vocab_size);
  }

  void say_settings() {
    if (communicator_.rank() != 0 || !environment_.say) return;
    const Layout& layout = groups_.layout;
    environment_.say(fmt::format("{} | tp {} cp {} dp {} pp {}{} on {} rank{} | {} | {:.2f} GiB planned", job_.name,
                                 layout.tp, layout.cp, layout.dp, layout.pp, layout.sequence_parallel ? " sp" : "",
                                 layout.ranks(), layout.ranks() == 1 ? "" : "s", backend_.description(),
                                 static_cast<double>(state_->plan().bytes()) / (1 << 30)));
  }

  [[nodiscard]] ActivityBoard& activity() { return environment_.activity != nullptr ? *environment_.activity : idle_; }
  void enter(PhaseKind kind, std::string_view what) { activity().set_phase(kind, what); }
  [[nodiscard]] std::string rank_name(int rank) const {
    return environment_.rank_name ? environment_.rank_name(rank) : fmt::format("rank {}", rank);
  }

  [[nodiscard]] std::filesystem::path checkpoint_dir() const { return environment_.run_dir / job_.checkpoint.dir; }

  void say(const std::string& line) const {
    if (communicator_.rank() == 0 && environment_.say) environment_.say(line);
  }

  void restore() {
    std::optional<std::int64_t> step;
    if (job_.checkpoint.resume != "never") step = find_checkpoint();
    if (step) {
      CheckpointReader reader(step_folder(checkpoint_dir(), *step));
      const CheckpointInfo& info = reader.manifest().info;
      if (info.data_order != splits_.digest)
        throw UsageError(
            "{}: was trained on other data or in another order (digest {}, now {}); restore the data settings or use a "
            "new run directory",
            reader.folder().string(), info.data_order, splits_.digest);
      load_training_state(reader, state_->optimizer, backend_, true);
      load_layer_state(reader, state_->executor, backend_);
      step_ = saved_ = info.step;
      consumed_samples_ = info.consumed_samples;
      skipped_ = info.state.value("skipped", std::int64_t{0});
      not_finite_ = info.state.value("not_finite", std::int64_t{0});
      say(fmt::format("resumed from {} at step {}", reader.folder().string(), step_));
    } else if (job_.checkpoint.init_from) {
      initialise_from(*job_.checkpoint.init_from);
    }
  }

  // The newest whole checkpoint. Where there are some but none is whole, nothing is started over by itself.
  std::optional<std::int64_t> find_checkpoint() {
    std::vector<std::string> rejected;  // on rank 0
    const auto step =
        latest_valid(checkpoint_dir(), collectives_, [&](const std::string& why) { rejected.push_back(why); });
    if (step) {
      for (const std::string& why : rejected) say(why);
      return step;
    }
    const std::string newest = communicator_.broadcast(rejected.empty() ? std::string() : rejected.front(), 0);
    if (!newest.empty())
      throw UsageError(
          "{} holds no valid checkpoint: {}; bring a whole one back, or set checkpoint.resume = \"never\" or another "
          "--run-dir to start over",
          checkpoint_dir().string(), newest);
    if (job_.checkpoint.resume == "must")
      throw UsageError("checkpoint.resume: \"must\", but {} holds no checkpoint", checkpoint_dir().string());
    return std::nullopt;
  }

  void initialise_from(const InitFromSpec& from) {
    if (!from.weights_only) throw UsageError("checkpoint.init_from: without weights_only = true: not built yet");
    std::filesystem::path dir = from.path;
    if (dir.is_relative()) dir = environment_.data_root / dir;
    std::optional<std::int64_t> step = from.step;
    if (from.step < 0) step = latest_valid(dir, collectives_, [&](const std::string& reason) { say(reason); });
    if (!step) throw UsageError("checkpoint.init_from: {} holds no valid checkpoint", dir.string());
    CheckpointReader reader(step_folder(dir, *step));
    load_training_state(reader, state_->optimizer, backend_, false);
    say(fmt::format("initial weights from {}", reader.folder().string()));
  }

  // ---- choices measured at run time ----
  // Which algorithm multiplies which shape is measured in a run's first step, and stays: the same on all ranks from
  // then on, and in every later start, so that a resumed run has the same bits.
  [[nodiscard]] std::filesystem::path algorithms_file() const { return environment_.run_dir / "algorithms.json"; }

  void adopt_algorithms() {
    std::string text;
    std::error_code ignored;
    if (communicator_.rank() == 0 && environment_.save && std::filesystem::exists(algorithms_file(), ignored))
      text = read_file(algorithms_file());
    text = communicator_.broadcast(text, 0);
    algorithms_settled_ = !text.empty() || backend_.algorithms().empty();
    if (!text.empty()) backend_.set_algorithms(text);
  }

  // The lowest rank's choice counts for each shape.
  void settle_algorithms() {
    if (algorithms_settled_) return;
    algorithms_settled_ = true;
    Json all;
    for (const std::string& text : communicator_.gather(backend_.algorithms(), 0)) {
      const Json one = parse_json(text, "GEMM algorithms of a rank");
      if (all.is_null()) all = one;
      if (one["library"] != all["library"] || one["device"] != all["device"]) continue;
      for (const auto& [shape, algorithm] : one["algorithms"].items())
        if (!all["algorithms"].contains(shape)) all["algorithms"][shape] = algorithm;
    }
    const std::string text = communicator_.broadcast(all.is_null() ? "" : all.dump(1) + "\n", 0);
    backend_.set_algorithms(text);
    if (communicator_.rank() == 0 && environment_.save) write_file_atomic(algorithms_file(), text);
  }

  // ---- the loop ----
  TrainEnd loop() {
    const Clock::time_point begin = Clock::now();
    const Schedule& schedule = state_->executor.schedule();
    if (schedule.rows.front().size() * schedule.rows.size() <= kMostTimedRows)
      timed_step_ = std::min(step_ + kTimedStep, job_.train.iterations) - 1;
    while (step_ < job_.train.iterations) {
      const bool stop = one_step();
      settle_algorithms();
      if (evaluates() && (step_ % job_.eval.every == 0 || step_ == job_.train.iterations)) evaluate();
      const bool leave = agree(stop || (job_.train.exit_interval > 0 && step_ % job_.train.exit_interval == 0) ||
                               (job_.train.exit_duration > 0.0 && seconds_since(begin) > job_.train.exit_duration));
      if (step_ == job_.train.iterations) break;
      if (leave) {
        say(fmt::format("stopping after step {}", step_));
        return TrainEnd::kStopped;
      }
      if (job_.checkpoint.every > 0 && step_ % job_.checkpoint.every == 0) save(job_.checkpoint.async);
    }
    return TrainEnd::kDone;
  }

  // Only wall-clock limits can differ between ranks; the step's own exchange agrees on the rest.
  bool agree(bool local) {
    return job_.train.exit_duration > 0.0 ? communicator_.all_reduce(local ? 1.0 : 0.0, ReduceOp::kMax) > 0.0 : local;
  }

  // Returns whether some rank was asked to stop.
  bool one_step() {
    const Clock::time_point begin = Clock::now();
    const double waited_before = activity().waited();
    RankState& s = *state_;
    const std::int64_t global_batch = s.feeder.global_batch();
    const bool skipped = std::find(job_.train.skip_iterations.begin(), job_.train.skip_iterations.end(), step_) !=
                         job_.train.skip_iterations.end();
    enter(PhaseKind::kFiles, "reading samples");
    const auto& microbatches = s.feeder.load(*splits_.train, consumed_samples_);
    const double expected = static_cast<double>(global_batch * s.model.shape.spec.seq_length);
    s.optimizer.clear_gradients();
    backend_.zero(s.losses);
    std::optional<RowClock> clock;
    if (!skipped) {
      enter(PhaseKind::kCompute, "forward and backward");
      ExecutorEvents events;
      if (groups_.world->size() > 1) {
        events.before_layer = [&](int layer) {
          enter(PhaseKind::kCompute, fmt::format("forward from layer {} on", layer));
          s.optimizer.wait_parameters(layer);
        };
        events.gradients_complete = [&](int layer) {
          enter(PhaseKind::kCompute, fmt::format("backward below layer {}", layer));
          reduce_ready(layer);
        };
      }
      if (step_ == timed_step_) {
        clock.emplace(groups_, backend_);
        events.row_begins = [&] { clock->row_begins(); };
        events.row_ends = [&](const ScheduleRow& row) { clock->row_ends(row); };
      }
      next_bucket_ = static_cast<int>(s.store.buckets().size()) - 1;
      done_.assign(s.store.layers().size(), false);
      s.executor.train_step(microbatches, s.losses, static_cast<float>(1.0 / expected), events);
      reduce_rest();
    }
    enter(PhaseKind::kCompute, "end of the step");
    own_seconds_ = seconds_since(begin) - (activity().waited() - waited_before);
    StepExchange exchange = exchange_step();
    const bool finite = std::isfinite(exchange.loss);
    if (!finite) report_not_finite("loss");
    const double factor = exchange.weight > 0.0 ? expected / exchange.weight : 0.0;
    UpdateResult update;
    if (finite && !skipped) {
      enter(PhaseKind::kCompute, "optimizer");
      update = s.optimizer.step(learning_rate(job_.train.lr, step_), updates_done(), factor);
      if (!update.finite) report_not_finite("gradient");
    }
    if (skipped) ++skipped_;
    ++step_;
    if (clock) tell_timeline(*clock);
    consumed_samples_ += global_batch;
    activity().set_step(step_);
    if (pending_published(exchange.unwritten)) publish();

    const double seconds = seconds_since(begin);
    if (communicator_.rank() == 0 && environment_.on_step) {
      StepRecord record;
      record.step = step_;
      record.loss = exchange.loss;
      record.lr = learning_rate(job_.train.lr, step_ - 1);
      record.grad_norm = update.gradient_norm;
      record.tokens = consumed_samples_ * s.model.shape.spec.seq_length;
      record.tokens_per_s = expected / seconds;
      const double ranks = groups_.layout.ranks();
      record.tokens_per_s_per_gpu = record.tokens_per_s / ranks;
      record.tflops_per_gpu = training_flops(job_.model, global_batch) / seconds / ranks * 1e-12;
      if (const double peak = backend_.peak_flops(); peak > 0.0) record.mfu = record.tflops_per_gpu * 1e12 / peak;
      record.mem_gib = exchange.memory_gib;
      record.step_s = seconds;
      record.iterations = job_.train.iterations;
      record.global_batch = global_batch;
      record.consumed_samples = consumed_samples_;
      record.skipped = skipped_;
      record.nan = not_finite_;
      record.gpus = groups_.layout.ranks();
      environment_.on_step(record);
    }
    return exchange.stop;
  }

  void tell_timeline(RowClock& clock) {
    const auto timeline = clock.gather(step_);
    if (timeline && environment_.on_timeline) environment_.on_timeline(*timeline);
  }

  // Buckets are reduced in descending order on all ranks, as soon as the backward pass of their layers is over.
  void reduce_ready(int layer) {
    if (!job_.parallel.overlap_grad_reduce) return;
    done_[static_cast<size_t>(layer)] = true;
    const auto& buckets = state_->store.buckets();
    for (; next_bucket_ >= 0; --next_bucket_) {
      const Bucket& bucket = buckets[static_cast<size_t>(next_bucket_)];
      if (bucket.at_end) continue;
      if (!std::all_of(bucket.layers.begin(), bucket.layers.end(),
                       [&](int l) { return done_[static_cast<size_t>(l)]; }))
        return;
      state_->optimizer.start_reduction(next_bucket_);
    }
  }
  void reduce_rest() {
    for (; next_bucket_ >= 0; --next_bucket_)
      if (!state_->store.buckets()[static_cast<size_t>(next_bucket_)].at_end)
        state_->optimizer.start_reduction(next_bucket_);
  }

  [[nodiscard]] std::int64_t updates_done() const { return step_ - skipped_; }
  [[nodiscard]] bool evaluates() const { return job_.eval.every > 0 && splits_.valid != nullptr; }
  [[nodiscard]] bool reports_loss() const { return groups_.last_stage() && groups_.at.tp == 0; }

  // What all ranks must know of a step before the update, in two small reductions.
  struct StepExchange {
    double loss = 0.0, weight = 0.0;
    bool stop = false, unwritten = false;
    double memory_gib = 0.0;
  };
  StepExchange exchange_step() {
    const auto [loss, weight] = sum_losses();
    slow_ranks_.add(own_seconds_);
    std::vector<double> worst{environment_.stop_requested && environment_.stop_requested() ? 1.0 : 0.0,
                              writer_->pending() && !writer_->written() ? 1.0 : 0.0, memory_gib()};
    worst.resize(3 + slow_ranks_.size());
    slow_ranks_.fill(std::span(worst).subspan(3));
    communicator_.all_reduce(std::span(worst), ReduceOp::kMax);
    const auto stage_of = [&](int rank) { return groups_.layout.coordinate(rank).pp; };
    // On a GPU the host's time says nothing of the device's.
    if (const auto slow = slow_ranks_.take(std::span<const double>(worst).subspan(3), stage_of);
        slow && backend_.is_host_memory())
      say(fmt::format(
          "{} is slow: its own part of a step takes {:.1f} ms, that of the fastest rank of its stage {:.1f} "
          "ms; look for other processes, heat or a failing disk there",
          rank_name(slow->rank), slow->own_s * 1e3, slow->fastest_s * 1e3));
    return {weight > 0.0 ? loss / weight : 0.0, weight, worst[0] > 0.0, worst[1] > 0.0, worst[2]};
  }

  // Sums of token losses and of loss weights over the global batch.
  std::pair<double, double> sum_losses() {
    host_losses_.resize(static_cast<size_t>(state_->losses.elements()));
    backend_.copy_to_host(state_->losses, std::as_writable_bytes(std::span(host_losses_)));
    double sums[2] = {0.0, 0.0};
    if (reports_loss()) {
      for (const double loss : host_losses_) sums[0] += loss;
      sums[1] = state_->feeder.weight();
    }
    communicator_.all_reduce(std::span(sums), ReduceOp::kSum);
    return {sums[0], sums[1]};
  }

  [[nodiscard]] double memory_gib() const {
    if (!backend_.is_host_memory()) return static_cast<double>(backend_.memory_in_use()) / (1 << 30);
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / (1 << 20);
  }

  // Nothing has been changed by the step. Stops on all ranks with one message, or counts and goes on (on_nan = "skip").
  void report_not_finite(const char* what) {
    std::string mine;
    if (reports_loss()) {
      for (size_t m = 0; m < host_losses_.size(); ++m)
        if (!std::isfinite(host_losses_[m])) {
          const auto samples = state_->feeder.samples(static_cast<int>(m));
          mine += fmt::format("{}rank {} in samples {}-{}", mine.empty() ? "" : ", ", communicator_.rank(),
                              samples.front(), samples.back());
        }
    }
    std::string where;
    for (const std::string& text : communicator_.gather(mine, 0))
      if (!text.empty()) where += (where.empty() ? "" : ", ") + text;
    if (where.empty())
      where = fmt::format("in samples {}-{}", consumed_samples_, consumed_samples_ + state_->feeder.global_batch() - 1);
    where = communicator_.broadcast(where, 0);
    ++not_finite_;
    ++skipped_;
    if (job_.train.on_nan == "skip") {
      say(fmt::format("step {}: {} is not finite ({}); update skipped", step_ + 1, what, where));
      return;
    }
    throw RunError(
        "step {}: {} is not finite: {}; the update was not applied and nothing was saved. Lower train.lr.peak, check "
        "these "
        "samples, or set train.on_nan = \"skip\"",
        step_ + 1, what, where);
  }

  // ---- evaluation ----
  void evaluate() {
    enter(PhaseKind::kCompute, "evaluation");
    const Clock::time_point begin = Clock::now();
    RankState& s = *state_;
    s.optimizer.wait_parameters(-1);
    const std::int64_t batch = s.feeder.global_batch(), samples = job_.eval.batches * batch;
    const std::int64_t sets = std::max<std::int64_t>(1, splits_.valid->size() / samples);
    const std::int64_t first = std::min(step_ / job_.eval.every + (step_ % job_.eval.every != 0), sets - 1) * samples;
    double loss = 0.0, weight = 0.0;
    for (std::int64_t i = 0; i < job_.eval.batches && first + (i + 1) * batch <= splits_.valid->size(); ++i) {
      const auto& microbatches = s.feeder.load(*splits_.valid, first + i * batch);
      backend_.zero(s.losses);
      s.executor.evaluate(microbatches, s.losses, {});
      const auto [batch_loss, batch_weight] = sum_losses();
      loss += batch_loss;
      weight += batch_weight;
    }
    if (communicator_.rank() == 0 && environment_.on_evaluation && weight > 0.0)
      environment_.on_evaluation({step_, loss / weight, seconds_since(begin)});
  }

  // ---- checkpoints ----
  void save(bool in_background) {
    if (writer_->pending()) publish();
    state_->optimizer.wait_parameters(-1);
    backend_.synchronize();
    enter(PhaseKind::kFiles, "writing a checkpoint");
    save_began_ = Clock::now();
    CheckpointInfo info;
    info.step = step_;
    info.consumed_samples = consumed_samples_;
    info.consumed_tokens = consumed_samples_ * job_.model.seq_length;
    info.data_order = splits_.digest;
    info.generator = Json{{"algorithm", "philox4x32-10"}, {"seed", job_.train.seed}};
    info.job = job_.to_json();
    info.state =
        Json{{"skipped", skipped_}, {"not_finite", not_finite_}, {"data_root", environment_.data_root.string()}};
    writer_->begin(std::move(info));
    save_training_state(*writer_, state_->optimizer, groups_, backend_);
    save_layer_state(*writer_, state_->executor, groups_, backend_);
    writer_->finish(in_background);
    if (!in_background) publish();
  }
  [[nodiscard]] bool pending_published(bool unwritten) const { return writer_->pending() && !unwritten; }
  void publish() {
    if (!writer_->pending()) return;
    enter(PhaseKind::kFiles, "completing a checkpoint");
    saved_ = writer_->publish();
    if (communicator_.rank() == 0 && environment_.on_save) environment_.on_save(saved_, seconds_since(save_began_));
    say(fmt::format("saved {}", step_folder(checkpoint_dir(), saved_).string()));
  }

  JobSpec job_;
  const TrainEnvironment& environment_;
  Communicator& communicator_;
  Backend& backend_;
  CommunicatorCollectives collectives_;
  ParallelGroups groups_;
  data::DataSplits splits_;
  std::optional<RankState> state_;
  CheckpointWriter* writer_ = nullptr;
  std::int64_t step_ = 0, consumed_samples_ = 0, saved_ = -1, skipped_ = 0, not_finite_ = 0;
  std::int64_t timed_step_ = -1;  // the step whose rows are measured
  Clock::time_point save_began_;
  int next_bucket_ = -1;
  bool algorithms_settled_ = false;
  std::vector<bool> done_;
  std::vector<double> host_losses_;
  ActivityBoard idle_;  // where nobody wants to know
  SlowRankWatch slow_ranks_;
  double own_seconds_ = 0.0;  // of this step, without waiting
};

}  // namespace

DType compute_dtype(const std::string& precision) {
  if (precision == "fp32") return DType::kFloat32;
  if (precision == "bf16" || precision == "fp8") return DType::kBFloat16;
  throw UsageError("train.precision: \"{}\": not built yet; use \"fp32\", \"bf16\" or \"fp8\"", precision);
}

std::int64_t microbatches_of(const JobSpec& job, const Layout& layout) {
  const std::int64_t per_microbatch = job.train.micro_batch * layout.dp;
  if (per_microbatch < 1 || job.train.global_batch % per_microbatch != 0)
    throw UsageError("train.global_batch: {} is not a multiple of micro_batch {} x dp {}", job.train.global_batch,
                     job.train.micro_batch, layout.dp);
  return job.train.global_batch / per_microbatch;
}

Schedule make_schedule(const JobSpec& job, const Layout& layout) {
  const std::int64_t microbatches = microbatches_of(job, layout);
  if (layout.vpp > 1 && layout.pp == 1) throw UsageError("parallel.vpp: {} needs parallel.pp > 1", layout.vpp);
  if (microbatches > std::numeric_limits<int>::max())
    throw UsageError("train.global_batch: {} is too large", job.train.global_batch);
  return schedule_interleaved(layout.pp, layout.vpp, static_cast<int>(microbatches));
}

ArenaPlan plan_memory(const JobSpec& job, const Layout& layout, const Coordinate& at, const MemoryTarget& target) {
  const ParallelGroups groups = ParallelGroups::planned(layout, at);
  return RankState(job, groups, target).plan();
}

TrainResult train(JobSpec job, const Layout& layout, const TrainEnvironment& environment) {
  RAILYARD_CHECK(environment.communicator != nullptr && environment.backend != nullptr);
  return TrainLoop(std::move(job), layout, environment).run();
}

}  // namespace railyard
