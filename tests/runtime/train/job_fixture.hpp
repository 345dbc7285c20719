// Small jobs for tests, and runs of them on threads.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "runtime/checkpoint/reader.hpp"
#include "runtime/checkpoint/store.hpp"
#include "runtime/train/trainer.hpp"
#include "tests/support/thread_world.hpp"

namespace railyard::test {

// A folder of its own, removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A model with everything that could depend on the layout: grouped heads, dropout, gradient accumulation, a vocabulary
// that tp does not divide, tied embeddings or not.
JobSpec gpt_job();
JobSpec llama_job();

struct RunOutcome {
  std::vector<StepRecord> steps;
  std::vector<EvaluationRecord> evaluations;
  std::vector<PipelineTimeline> timelines;
  TrainResult result;
};

// Trains with one thread a rank; `ranks` is the product of the job's degrees. `stop_after` > 0 asks to stop in that
// step.
RunOutcome run_job(const JobSpec& job, const std::filesystem::path& run_dir, int ranks, std::int64_t stop_after = 0);

// Every logical tensor of a checkpoint, in fp32.
std::map<std::string, std::vector<float>> read_checkpoint(const std::filesystem::path& run_dir, std::int64_t step);

}  // namespace railyard::test
