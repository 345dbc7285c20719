// TensorBoard event files, under the tags that Megatron-LM uses, so that its runs and ours fall on the same charts.
// Format: records of (length, masked CRC-32C of the length, protobuf Event, masked CRC-32C of the event), as
// TensorFlow's TFRecord; see https://www.tensorflow.org/tutorials/load_data/tfrecord and
// tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/report/append_file.hpp"
#include "runtime/report/metrics.hpp"

namespace railyard {

// One event file: scalars by step.
class EventFile {
 public:
  struct Scalar {
    std::string tag;
    double value = 0.0;  // stored as a float
  };

  // Makes `folder` and a new file in it, events.out.tfevents.SECONDS.HOST.PID.N. With `resumed_at`, readers drop what
  // earlier files of the folder hold at that step and after it. RunError when the file cannot be made.
  explicit EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> resumed_at = {});

  // One event of all `scalars` at `step`, in one write(2). RunError when it cannot be written.
  void add(std::int64_t step, const std::vector<Scalar>& scalars);
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void add_record(std::string_view event);

  std::filesystem::path path_;
  AppendFile file_;
};

// The two runs of a training in TensorBoard: `folder` by step, and `folder`/samples by consumed samples ("lm loss vs
// samples"). They are kept apart because a reader drops the later points of a dead start by the x axis of a whole run.
class TensorBoard {
 public:
  // Where a resumed run goes on: what was completed when the checkpoint was written. From step 0 on nothing that
  // earlier starts wrote counts.
  struct Resume {
    std::int64_t step = 0, consumed_samples = 0;
  };

  explicit TensorBoard(const std::filesystem::path& folder, std::optional<Resume> resume = {});

  // RunError when the files cannot be written.
  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);

 private:
  void add(std::int64_t step, std::vector<EventFile::Scalar> scalars);

  EventFile by_step_, by_samples_;
  std::int64_t consumed_samples_ = 0;
};

}  // namespace railyard
