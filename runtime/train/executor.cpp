// Memory and steps of the pipeline executor.
#include "runtime/train/executor.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>

namespace railyard {
namespace {

bool of_layer(const BufferSpec& buffer) {
  return buffer.lifetime == Lifetime::kLayer || buffer.lifetime == Lifetime::kState;
}
bool is_saved(const BufferSpec& buffer) {
  return buffer.lifetime == Lifetime::kSaved || buffer.lifetime == Lifetime::kSavedForWeight;
}

// Where a layer's temporaries of one pass lie in the shared room: those of phase 0 one after the other, then each other
// phase from there on.
class TemporaryRoom {
 public:
  TemporaryRoom(const LayerInventory& inventory, Lifetime lifetime) : lifetime_(lifetime) {
    for (const BufferSpec& buffer : inventory.buffers)
      if (buffer.lifetime == lifetime && buffer.phase == 0) throughout_ += ArenaPlan::round(buffer.bytes());
    bytes_ = throughout_;
    for (const BufferSpec& buffer : inventory.buffers) (void)place(buffer);
    ends_.clear();
  }
  // Of the inventory's buffers in order; nothing for buffers of another lifetime.
  std::optional<std::size_t> place(const BufferSpec& buffer) {
    if (buffer.lifetime != lifetime_) return std::nullopt;
    std::size_t& end = ends_.try_emplace(buffer.phase, buffer.phase == 0 ? 0 : throughout_).first->second;
    const std::size_t begin = end;
    end += ArenaPlan::round(buffer.bytes());
    bytes_ = std::max(bytes_, end);
    return begin;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Lifetime lifetime_;
  std::size_t throughout_ = 0, bytes_ = 0;
  std::map<int, std::size_t> ends_;  // by phase
};

// Rotation frequencies (Su et al. 2021), scaled as Llama 3.1 does ("llama3") or linearly.
std::vector<double> rope_frequencies(const ModelSpec& model) {
  const std::int64_t half = model.rope_dims() / 2;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    double frequency = std::pow(model.rope_theta, -static_cast<double>(i) / static_cast<double>(half));
    if (model.rope_scaling && model.rope_scaling->type == "linear") frequency /= model.rope_scaling->factor;
    if (model.rope_scaling && model.rope_scaling->type == "llama3") {
      const RopeScaling& scaling = *model.rope_scaling;
      const double wavelength = 2.0 * std::numbers::pi / frequency,
                   old = static_cast<double>(scaling.original_max_positions);
      const double low = old / scaling.low_freq_factor, high = old / scaling.high_freq_factor;
      if (wavelength > low) {
        frequency /= scaling.factor;
      } else if (wavelength > high) {
        const double smooth =
            (old / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
        frequency = (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace

Executor::Executor(RankModel& model, const ParallelGroups& groups, Schedule schedule, const RecomputeSpec& recompute)
    : model_(model), groups_(groups), schedule_(std::move(schedule)) {
  const Shape residual{model.shape.local_tokens(), model.shape.spec.hidden};
  const std::size_t output = ArenaPlan::round(Tensor{nullptr, model.shape.dtype, residual}.bytes());
  for (const auto& layers : model.chunks) {
    const std::size_t before = !layers.empty() && layers.front()->name() == "embedding" ? 1 : 0,
                      after = !layers.empty() && layers.back()->name() == "output" ? 1 : 0;
    auto& places = recompute_.emplace_back(layers.size());
    const auto blocks = recompute_places(recompute, layers.size() - before - after);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      RecomputePlace& place = places[before + i] = blocks[i];
      place.first += before;
      if (place.place < 0) continue;
      std::size_t bytes = place.last ? 0 : output;
      for (const BufferSpec& buffer : layers[before + i]->inventory().buffers)
        if (is_saved(buffer)) bytes += ArenaPlan::round(buffer.bytes());
      place_bytes_.resize(std::max(place_bytes_.size(), static_cast<std::size_t>(place.place) + 1));
      std::size_t& room = place_bytes_[static_cast<std::size_t>(place.place)];
      room = std::max(room, bytes);
    }
  }
}

bool Executor::has_input(int chunk) const { return schedule_.virtual_stage(groups_.at.pp, chunk) > 0; }
bool Executor::has_output(int chunk) const {
  return schedule_.virtual_stage(groups_.at.pp, chunk) + 1 < static_cast<int>(schedule_.pieces.size());
}
Schedule::Piece Executor::neighbour(int chunk, int delta) const {
  return schedule_.pieces[static_cast<size_t>(schedule_.virtual_stage(groups_.at.pp, chunk) + delta)];
}
int Executor::first_layer(int chunk) const {
  int first = 0;
  for (int c = 0; c < chunk; ++c) first += static_cast<int>(model_.chunks[static_cast<size_t>(c)].size());
  return first;
}

void Executor::plan(ArenaPlan& plan) {
  const ModelShape& shape = model_.shape;
  const Shape residual{shape.local_tokens(), shape.spec.hidden};
  for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
    auto& plans = slot_plans_.emplace_back();
    const int count = schedule_.in_flight(groups_.at.pp, chunk);
    for (int s = 0; s < count; ++s) {
      SlotPlan& slot = plans.emplace_back();
      const std::string label = fmt::format("chunk {} slot {} ", chunk, s);
      if (has_input(chunk)) slot.input = plan.add(label + "input", MemoryKind::kActivations, shape.dtype, residual);
      const auto& layers = model_.chunks[static_cast<size_t>(chunk)];
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto& layer = layers[i];
        const RecomputePlace& place = recompute_[static_cast<size_t>(chunk)][i];
        const bool head = layer->name() == "output", kept = place.place < 0;
        slot.outputs.push_back(
            head || !(kept || place.last)
                ? ArenaSlot{}
                : plan.add(label + layer->name() + ".output", MemoryKind::kActivations, shape.dtype, residual));
        auto& saved = slot.saved.emplace_back();
        for (const BufferSpec& buffer : layer->inventory().buffers)
          saved.push_back((is_saved(buffer) && kept) || (of_layer(buffer) && s == 0)
                              ? plan.add(label + buffer.name, MemoryKind::kActivations, buffer.dtype, buffer.shape)
                              : ArenaSlot{});
      }
    }
  }
  for (std::size_t i = 0; i < place_bytes_.size(); ++i)
    place_slots_.push_back(
        plan.add_shared(fmt::format("layer {} of a recomputed group", i), MemoryKind::kActivations, place_bytes_[i]));
  for (const auto& chunk : model_.chunks)
    for (const auto& layer : chunk)
      for (const Lifetime lifetime : {Lifetime::kForward, Lifetime::kBackward})
        shared_bytes_ = std::max(shared_bytes_, TemporaryRoom(layer->inventory(), lifetime).bytes());
  shared_slot_ = plan.add_shared("temporaries of one layer", MemoryKind::kActivations, shared_bytes_);
  const bool alone = schedule_.pieces.size() == 1;
  for (int i = 0; i < 4; ++i)
    if (i < 2 || !alone)
      grad_slots_[i] = plan.add(i < 2 ? "residual gradient" : "residual gradient in transit", MemoryKind::kActivations,
                                shape.dtype, residual);
  if (shape.spec.position == "rope")
    for (ArenaSlot& slot : rope_slots_)
      slot = plan.add("rotary table", MemoryKind::kOther, DType::kFloat32,
                      Shape{shape.spec.max_positions, shape.spec.rope_dims() / 2});
}

void Executor::take(const Arena& arena, Backend& backend) {
  backend_ = &backend;
  const Tensor shared = arena.tensor(shared_slot_);
  for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
    auto& slots = slots_.emplace_back();
    for (const SlotPlan& plan : slot_plans_[static_cast<size_t>(chunk)]) {
      Slot& slot = slots.emplace_back();
      if (has_input(chunk)) slot.input = arena.tensor(plan.input);
      const auto& layers = model_.chunks[static_cast<size_t>(chunk)];
      for (size_t i = 0; i < layers.size(); ++i) {
        const RecomputePlace& place = recompute_[static_cast<size_t>(chunk)][i];
        std::byte* room = place.place < 0
                              ? nullptr
                              : arena.tensor(place_slots_[static_cast<std::size_t>(place.place)]).as<std::byte>();
        const auto next = [&](DType type, const Shape& shape) {
          const Tensor tensor{room, type, shape};
          room += ArenaPlan::round(tensor.bytes());
          return tensor;
        };
        slot.outputs.push_back(
            layers[i]->name() == "output" ? Tensor{}
            : room != nullptr && !place.last
                ? next(model_.shape.dtype, Shape{model_.shape.local_tokens(), model_.shape.spec.hidden})
                : arena.tensor(plan.outputs[i]));
        LayerBuffers& buffers = slot.buffers.emplace_back();
        // Forward and backward temporaries share the room.
        TemporaryRoom forward(layers[i]->inventory(), Lifetime::kForward),
            backward(layers[i]->inventory(), Lifetime::kBackward);
        for (size_t b = 0; b < plan.saved[i].size(); ++b) {
          const BufferSpec& spec = layers[i]->inventory().buffers[b];
          if (is_saved(spec)) {
            buffers.push_back(room != nullptr ? next(spec.dtype, spec.shape) : arena.tensor(plan.saved[i][b]));
            continue;
          }
          if (of_layer(spec)) {
            buffers.push_back(arena.tensor(slot_plans_[static_cast<size_t>(chunk)].front().saved[i][b]));
            if (slots.size() == 1) backend.zero(buffers.back());
            if (slots.size() == 1 && spec.lifetime == Lifetime::kState) state_.push_back({spec.name, buffers.back()});
            continue;
          }
          const auto in_forward = forward.place(spec);
          const std::size_t at = in_forward ? *in_forward : backward.place(spec).value();
          RAILYARD_CHECK(at + spec.bytes() <= shared_bytes_);
          buffers.push_back({shared.as<std::byte>() + at, spec.dtype, spec.shape});
        }
      }
    }
  }
  const bool alone = schedule_.pieces.size() == 1;
  for (int i = 0; i < 2; ++i) grad_ping_[i] = arena.tensor(grad_slots_[i]);
  if (!alone) {
    grad_received_ = arena.tensor(grad_slots_[2]);
    grad_sent_ = arena.tensor(grad_slots_[3]);
  }
  if (model_.shape.spec.position == "rope") {
    const auto frequencies = rope_frequencies(model_.shape.spec);
    std::vector<float> cosine, sine;
    for (std::int64_t position = 0; position < model_.shape.spec.max_positions; ++position) {
      for (const double frequency : frequencies) {
        cosine.push_back(static_cast<float>(std::cos(static_cast<double>(position) * frequency)));
        sine.push_back(static_cast<float>(std::sin(static_cast<double>(position) * frequency)));
      }
    }
    rope_cosine_ = arena.tensor(rope_slots_[0]);
    rope_sine_ = arena.tensor(rope_slots_[1]);
    backend.copy_from_host(std::as_bytes(std::span(cosine)), rope_cosine_);
    backend.copy_from_host(std::as_bytes(std::span(sine)), rope_sine_);
  }
}

Executor::Slot& Executor::slot_of(int chunk, int microbatch) {
  auto& slots = slots_[static_cast<size_t>(chunk)];
  return slots[static_cast<size_t>(microbatch) % slots.size()];
}

StepContext Executor::context(const Pass& pass, int microbatch) const {
  return {.backend = *backend_,
          .tp = *groups_.tp,
          .same_layers = *groups_.same_layers,
          .microbatch = pass.microbatches[static_cast<size_t>(microbatch)],
          .rope_cosine = rope_cosine_,
          .rope_sine = rope_sine_,
          .loss = pass.loss,
          .gradient_factor = pass.gradient_factor,
          .weights_changed = microbatch == 0,
          .scales_known = scales_known_,
          .training = pass.training};
}

void Executor::forward(const Pass& pass, const ScheduleRow& row) {
  Slot& slot = slot_of(row.chunk, row.microbatch);
  const auto& layers = model_.chunks[static_cast<size_t>(row.chunk)];
  const StepContext step = context(pass, row.microbatch);
  Tensor x;
  if (has_input(row.chunk)) {
    const Schedule::Piece from = neighbour(row.chunk, -1);
    x = slot.input;
    if (from.stage == groups_.at.pp) {
      backend_->copy(slot_of(from.chunk, row.microbatch).outputs.back(), x);
    } else {
      groups_.pipeline_forward->receive(x, from.stage).wait();
    }
  }
  slot.sending.wait();
  if (pass.events.row_begins) pass.events.row_begins();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (pass.events.before_layer) pass.events.before_layer(first_layer(row.chunk) + static_cast<int>(i));
    layers[i]->forward(step, x, slot.outputs[i], slot.buffers[i]);
    x = slot.outputs[i];
  }
  if (pass.events.row_ends) pass.events.row_ends(row);
  if (has_output(row.chunk)) {
    const Schedule::Piece to = neighbour(row.chunk, 1);
    if (to.stage != groups_.at.pp) slot.sending = groups_.pipeline_forward->send(x, to.stage);
  }
}

void Executor::compute_again(const StepContext& step, int chunk, Slot& slot, std::size_t layer) const {
  const auto& layers = model_.chunks[static_cast<size_t>(chunk)];
  const RecomputePlace& place = recompute_[static_cast<size_t>(chunk)][layer];
  if (place.place < 0 || !place.last) return;
  for (std::size_t i = place.first; i <= layer; ++i)
    layers[i]->forward(step, i > 0 ? slot.outputs[i - 1] : slot.input, slot.outputs[i], slot.buffers[i]);
}

void Executor::backward(const Pass& pass, const ScheduleRow& row, BackwardPart part) {
  Slot& slot = slot_of(row.chunk, row.microbatch);
  const auto& layers = model_.chunks[static_cast<size_t>(row.chunk)];
  const StepContext step = context(pass, row.microbatch);
  Tensor grad;
  if (has_output(row.chunk)) {
    const Schedule::Piece from = neighbour(row.chunk, 1);
    if (from.stage == groups_.at.pp) {
      grad = grad_sent_;  // left there by the chunk that follows, a row ago
    } else {
      grad = grad_received_;
      groups_.pipeline_backward->receive(grad, from.stage).wait();
    }
  }
  if (pass.events.row_begins) pass.events.row_begins();
  const bool last_microbatch = row.microbatch + 1 == static_cast<int>(pass.microbatches.size());
  for (size_t i = layers.size(); i-- > 0;) {
    const Tensor input = i > 0 ? slot.outputs[i - 1] : slot.input;
    Tensor grad_input;
    if (i > 0) {
      grad_input = grad_ping_[grad.data == grad_ping_[0].data ? 1 : 0];
    } else if (has_input(row.chunk)) {
      grad_sending_.wait();
      grad_input = grad_sent_;
    }
    if (pass.events.before_layer) pass.events.before_layer(first_layer(row.chunk) + static_cast<int>(i));
    compute_again(step, row.chunk, slot, i);
    layers[i]->backward(step, input, grad, grad_input, slot.buffers[i], part);
    if (last_microbatch && pass.events.gradients_complete)
      pass.events.gradients_complete(first_layer(row.chunk) + static_cast<int>(i));
    grad = grad_input;
  }
  if (pass.events.row_ends) pass.events.row_ends(row);
  if (has_input(row.chunk)) {
    const Schedule::Piece to = neighbour(row.chunk, -1);
    if (to.stage != groups_.at.pp) grad_sending_ = groups_.pipeline_backward->send(grad_sent_, to.stage);
  }
}

bool Executor::recordable(const Pass& pass, const ScheduleRow& row) const {
  // Communication goes through the host, and events are the host's own.
  constexpr int kMostMicrobatches = 32;  // a graph takes memory for each operation
  const bool alone = schedule_.pieces.size() == 1 && groups_.tp->size() == 1;
  const bool first = row.microbatch == 0, last = row.microbatch + 1 == static_cast<int>(pass.microbatches.size());
  return alone && row.microbatch < kMostMicrobatches && !pass.events.row_begins &&
         !(first && pass.events.before_layer) && !(last && pass.events.gradients_complete);
}

void Executor::run_row(const Pass& pass, const ScheduleRow& row, const std::function<void()>& work) {
  if (!records_ || !recordable(pass, row)) return work();
  const RecordingKey key{row.operation == PipelineOperation::kForward,
                         pass.training,
                         scales_known_,
                         row.microbatch,
                         pass.gradient_factor,
                         pass.loss.data};
  Recording& recording = recordings_[key];
  if (!recording.ran) {  // algorithms and workspaces are chosen now
    recording.ran = true;
    return work();
  }
  if (!recording.graph) {
    records_ = backend_->begin_capture();
    if (!records_) return work();
    work();
    recording.graph = backend_->end_capture();
  }
  backend_->launch(*recording.graph);
}

void Executor::run(const Pass& pass, const Schedule& schedule) {
  for (const ScheduleRow& row : schedule.rows[static_cast<size_t>(groups_.at.pp)]) {
    switch (row.operation) {
      case PipelineOperation::kForward:
        run_row(pass, row, [&] { forward(pass, row); });
        break;
      case PipelineOperation::kBackward:
        run_row(pass, row, [&] { backward(pass, row, BackwardPart::kBoth); });
        break;
      case PipelineOperation::kBackwardInput:
      case PipelineOperation::kBackwardWeight:
        throw UsageError("parallel.schedule: {} separates input and weight gradients: not built yet", schedule.name);
    }
  }
  for (auto& slots : slots_)
    for (Slot& slot : slots) slot.sending.wait();
  grad_sending_.wait();
}

void Executor::train_step(const std::vector<Microbatch>& microbatches, const Tensor& loss, float gradient_factor,
                          const ExecutorEvents& events) {
  RAILYARD_CHECK(static_cast<int>(microbatches.size()) == schedule_.microbatches);
  const Pass pass{microbatches, loss, gradient_factor, true, events};
  run(pass, schedule_);
  const StepContext step = context(pass, 0);
  for (std::size_t chunk = 0; chunk < model_.chunks.size(); ++chunk)
    for (std::size_t i = 0; i < model_.chunks[chunk].size(); ++i)
      model_.chunks[chunk][i]->finish_step(step, slots_[chunk].front().buffers[i]);
  scales_known_ = true;
}

void Executor::evaluate(const std::vector<Microbatch>& microbatches, const Tensor& loss, const ExecutorEvents& events) {
  const Schedule forward_only =
      schedule_forward_only(schedule_.stages, schedule_.chunks, static_cast<int>(microbatches.size()));
  run({microbatches, loss, 0.0F, false, events}, forward_only);
}

void Executor::logits(const Microbatch& microbatch, std::int64_t token, std::span<float> logits) {
  RAILYARD_CHECK(schedule_.pieces.size() == 1 && model_.shape.tp == 1);
  const std::vector<Microbatch> microbatches{microbatch};
  const ExecutorEvents none;
  Slot& slot = slot_of(0, 0);
  const StepContext step = context({microbatches, {}, 0.0F, false, none}, 0);
  Tensor x;
  const auto& layers = model_.chunks[0];
  for (size_t i = 0; i + 1 < layers.size(); ++i) {
    layers[i]->forward(step, x, slot.outputs[i], slot.buffers[i]);
    x = slot.outputs[i];
  }
  const Tensor row = layers.back()->predict(step, x.row_range(token, 1), slot.buffers.back());
  std::vector<std::byte> host(row.bytes());
  backend_->copy_to_host(row, host);
  convert_elements(host.data(), row.dtype, logits.data(), DType::kFloat32, logits.size());
}

}  // namespace railyard
