// Cuts flat runs of parameters into rectangles of logical tensors, and back.
#include "runtime/train/training_state.hpp"

#include <algorithm>

namespace railyard {
namespace {

// A rectangle of a logical tensor and where it lies within the run, in elements from the run's begin.
struct LogicalPart {
  const ParameterPiece* piece;
  Rectangle where;
  std::int64_t offset;
  std::int64_t row_stride;  // elements
};

std::vector<LogicalPart> logical_parts(const ParameterRun& run) {
  const ParameterSpec& spec = run.parameter->spec;
  std::vector<LogicalPart> parts;
  for (const Rectangle& local : decompose_range({spec.rows, spec.columns}, run.begin, run.begin + run.count)) {
    for (const ParameterPiece& piece : spec.pieces) {
      const std::int64_t first = std::max(local.offset[0], piece.local_row);
      const std::int64_t last = std::min(local.offset[0] + local.shape[0], piece.local_row + piece.rows);
      if (first >= last) continue;
      LogicalPart part{.piece = &piece,
                       .where = {},
                       .offset = first * spec.columns + local.offset[1] - run.begin,
                       .row_stride = spec.columns};
      const std::int64_t row = first - piece.local_row + piece.first_row;
      if (piece.vector) {
        part.where = {{row}, {last - first}};
      } else {
        part.where = {{row, local.offset[1] + piece.first_column}, {last - first, local.shape[1]}};
      }
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

Extents logical_extents(const ParameterPiece& piece) {
  return piece.vector ? Extents{piece.logical_rows} : Extents{piece.logical_rows, piece.logical_columns};
}

struct Kind {
  const char* prefix;
  Tensor StateRun::*tensor;
};
constexpr Kind kKinds[] = {
    {"", &StateRun::parameter}, {"exp_avg/", &StateRun::exp_avg}, {"exp_avg_sq/", &StateRun::exp_avg_sq}};

// fp32 numbers of a run, read from and written to tensors of fp32 or split weights.
class HostCopy {
 public:
  explicit HostCopy(Backend& backend) : backend_(backend) {}

  // Valid until the next call; the tensor itself where that will do.
  const float* read(const Tensor& tensor, const Tensor& remainder) {
    if (tensor.dtype == DType::kFloat32 && backend_.is_host_memory()) return tensor.as<float>();
    const auto count = static_cast<std::size_t>(tensor.elements());
    numbers_.resize(count);
    if (tensor.dtype == DType::kFloat32) {
      backend_.copy_to_host(tensor, std::as_writable_bytes(std::span(numbers_)));
      return numbers_.data();
    }
    upper_.resize(count);
    lower_.resize(count);
    backend_.copy_to_host(tensor, std::as_writable_bytes(std::span(upper_)));
    backend_.copy_to_host(remainder, std::as_writable_bytes(std::span(lower_)));
    for (std::size_t i = 0; i < count; ++i) numbers_[i] = join_master({upper_[i], lower_[i]});
    return numbers_.data();
  }
  // Zeros to be filled in, then written.
  float* prepare(std::int64_t count) {
    numbers_.assign(static_cast<std::size_t>(count), 0.0F);
    return numbers_.data();
  }
  void write(const Tensor& tensor, const Tensor& remainder) {
    if (tensor.dtype == DType::kFloat32) return backend_.copy_from_host(std::as_bytes(std::span(numbers_)), tensor);
    upper_.resize(numbers_.size());
    lower_.resize(numbers_.size());
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const SplitMaster split = split_master(numbers_[i]);
      upper_[i] = split.parameter;
      lower_[i] = split.remainder;
    }
    backend_.copy_from_host(std::as_bytes(std::span(upper_)), tensor);
    backend_.copy_from_host(std::as_bytes(std::span(lower_)), remainder);
  }

 private:
  Backend& backend_;
  std::vector<float> numbers_;
  std::vector<std::uint16_t> upper_, lower_;
};

}  // namespace

void save_training_state(CheckpointWriter& writer, Optimizer& optimizer, const ParallelGroups& groups,
                         Backend& backend) {
  HostCopy copy(backend);
  for (const StateRun& state : optimizer.state(true)) {
    const ParameterSpec& spec = state.run.parameter->spec;
    if (spec.tied_copy || (!spec.split_over_tp && groups.at.tp != 0)) continue;
    for (const Kind& kind : kKinds) {
      const float* host = copy.read(state.*kind.tensor, state.remainder);
      for (const LogicalPart& part : logical_parts(state.run))
        writer.add({.name = kind.prefix + part.piece->name,
                    .dtype = DType::kFloat32,
                    .global_shape = logical_extents(*part.piece),
                    .where = part.where,
                    .data = host + part.offset,
                    .row_stride = part.row_stride * static_cast<std::int64_t>(sizeof(float))});
    }
  }
}

void load_training_state(CheckpointReader& reader, Optimizer& optimizer, Backend& backend, bool moments) {
  HostCopy copy(backend);
  for (const StateRun& state : optimizer.state(false)) {
    for (const Kind& kind : kKinds) {
      if (!moments && kind.tensor != &StateRun::parameter) continue;
      float* host = copy.prepare(state.run.count);
      for (const LogicalPart& part : logical_parts(state.run)) {
        const std::string name = kind.prefix + part.piece->name;
        if (reader.manifest().at(name).shape != logical_extents(*part.piece))
          throw UsageError("{}: {} has shape {}, this model needs {}", reader.folder().string(), name,
                           shape_text(reader.manifest().at(name).shape), shape_text(logical_extents(*part.piece)));
        reader.read(name, part.where,
                    {host + part.offset, DType::kFloat32, part.row_stride * static_cast<std::int64_t>(sizeof(float))});
      }
      copy.write(state.*kind.tensor, state.remainder);
    }
  }
  optimizer.publish_parameters();
}

namespace {
const std::string kLayerState = "layer_state/";

Rectangle whole_of(const Tensor& tensor) { return {{0}, {tensor.elements()}}; }
}  // namespace

void save_layer_state(CheckpointWriter& writer, const Executor& executor, const ParallelGroups& groups,
                      Backend& backend) {
  if (groups.at.tp != 0 || groups.replica != 0) return;
  HostCopy copy(backend);
  for (const auto& [name, tensor] : executor.state())
    writer.add({.name = kLayerState + name,
                .dtype = DType::kFloat32,
                .global_shape = {tensor.elements()},
                .where = whole_of(tensor),
                .data = copy.read(tensor, {}),
                .row_stride = sizeof(float)});
}

void load_layer_state(CheckpointReader& reader, Executor& executor, Backend& backend) {
  const auto& tensors = reader.manifest().tensors;
  HostCopy copy(backend);
  for (const auto& [name, tensor] : executor.state()) {
    const auto found = tensors.find(kLayerState + name);
    if (found == tensors.end() || found->second.shape != Extents{tensor.elements()}) return;
  }
  for (const auto& [name, tensor] : executor.state()) {
    float* host = copy.prepare(tensor.elements());
    reader.read(kLayerState + name, whole_of(tensor), {host, DType::kFloat32, sizeof(float)});
    copy.write(tensor, {});
  }
  executor.state_restored();
}

}  // namespace railyard
