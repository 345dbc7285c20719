// Runs a schedule's rows for one rank: receives, layers, sends. All its memory is planned before the first step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/model/rank_model.hpp"
#include "runtime/parallel/groups.hpp"
#include "runtime/tensor/arena.hpp"
#include "runtime/train/recompute.hpp"

namespace railyard {

// Called while a step runs; positions count this rank's layers over all chunks.
struct ExecutorEvents {
  std::function<void(int layer)> before_layer;        // its parameters are about to be used
  std::function<void(int layer)> gradients_complete;  // its last backward of the step is over
  // A row's input is here and its layers are about to run; they have been issued, and its output not yet been sent.
  std::function<void()> row_begins;
  std::function<void(const ScheduleRow& row)> row_ends;
};

class Executor {
 public:
  // `schedule` is the training schedule; evaluation runs forward-only schedules over the same memory.
  Executor(RankModel& model, const ParallelGroups& groups, Schedule schedule, const RecomputeSpec& recompute);

  void plan(ArenaPlan& plan);
  void take(const Arena& arena, Backend& backend);

  // Runs this rank's rows. `microbatches` holds one entry per microbatch of the schedule. Losses are added to `loss`
  // [1] fp64 on the last stage. `gradient_factor` multiplies the gradient of the loss sum.
  void train_step(const std::vector<Microbatch>& microbatches, const Tensor& loss, float gradient_factor,
                  const ExecutorEvents& events);
  // Forward alone over microbatches.size() microbatches.
  void evaluate(const std::vector<Microbatch>& microbatches, const Tensor& loss, const ExecutorEvents& events);

  // The layers' state (Lifetime::kState) by name, zero after take(); checkpoints keep it. `restored`: it was read back.
  struct State {
    std::string name;
    Tensor tensor;
  };
  [[nodiscard]] const std::vector<State>& state() const { return state_; }
  void state_restored() { scales_known_ = true; }

  // Logits of the token after row `token` of one microbatch, into `logits` [vocab]; for a rank that holds the whole
  // model.
  void logits(const Microbatch& microbatch, std::int64_t token, std::span<float> logits);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }

 private:
  // Tensors of one microbatch in flight through one chunk.
  struct Slot {
    Tensor input;                       // of the chunk; undefined where the embedding is
    std::vector<Tensor> outputs;        // of each layer; undefined for the head
    std::vector<LayerBuffers> buffers;  // of each layer
    Handle sending;                     // the last output, on its way to the next stage
  };
  struct SlotPlan {
    ArenaSlot input;
    std::vector<ArenaSlot> outputs;
    std::vector<std::vector<ArenaSlot>> saved;  // by layer and buffer; shared ones are not in it
  };
  struct Pass {
    const std::vector<Microbatch>& microbatches;
    Tensor loss;
    float gradient_factor;
    bool training;
    const ExecutorEvents& events;
  };
  void forward(const Pass& pass, const ScheduleRow& row);
  void backward(const Pass& pass, const ScheduleRow& row, BackwardPart part);
  void run(const Pass& pass, const Schedule& schedule);
  // The forward passes of the group that ends with `layer`, once more.
  void compute_again(const StepContext& step, int chunk, Slot& slot, std::size_t layer) const;
  // Runs a row's `work`, from the third time on as a recorded graph where that is possible: a small model's step is
  // bound by the launching of its operations otherwise.
  void run_row(const Pass& pass, const ScheduleRow& row, const std::function<void()>& work);
  [[nodiscard]] bool recordable(const Pass& pass, const ScheduleRow& row) const;
  [[nodiscard]] StepContext context(const Pass& pass, int microbatch) const;
  [[nodiscard]] Slot& slot_of(int chunk, int microbatch);
  [[nodiscard]] int first_layer(int chunk) const;
  [[nodiscard]] bool has_input(int chunk) const;
  [[nodiscard]] bool has_output(int chunk) const;
  // The piece `delta` away from this rank's chunk, and the group that leads there.
  [[nodiscard]] Schedule::Piece neighbour(int chunk, int delta) const;

  RankModel& model_;
  const ParallelGroups& groups_;
  Schedule schedule_;
  Backend* backend_ = nullptr;

  std::vector<std::vector<RecomputePlace>> recompute_;  // [chunk][layer], embedding and head among them
  std::vector<std::size_t> place_bytes_;                // of the room that places of all groups share
  std::vector<ArenaSlot> place_slots_;
  std::vector<std::vector<SlotPlan>> slot_plans_;  // [chunk][slot]
  std::vector<std::vector<Slot>> slots_;
  ArenaSlot shared_slot_, grad_slots_[4], rope_slots_[2];
  std::size_t shared_bytes_ = 0;
  Tensor grad_received_, grad_ping_[2], grad_sent_;
  Handle grad_sending_;
  Tensor rope_cosine_, rope_sine_;
  // Recorded rows. Everything that a recording holds as a number is in its key.
  struct RecordingKey {
    bool forward, training, scales_known;
    int microbatch;
    float gradient_factor;
    const void* loss;
    auto operator<=>(const RecordingKey&) const = default;
  };
  struct Recording {
    bool ran = false;
    std::unique_ptr<CapturedGraph> graph;
  };
  std::map<RecordingKey, Recording> recordings_;
  bool records_ = true;  // until the backend says otherwise

  std::vector<State> state_;
  bool scales_known_ = false;
};

}  // namespace railyard
