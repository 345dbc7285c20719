// A temporary folder, and records as a small run would have them.
#pragma once

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/report/metrics.hpp"

namespace railyard::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "railyard-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Step `step` of a run of 2,000 steps on 2 GPUs.
inline StepRecord example_step(std::int64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 1.5 + 3.0 * std::exp(-static_cast<double>(step) / 40.0);
  record.lr = 1e-3;
  record.grad_norm = 0.42;
  record.tokens = step * 16384;
  record.tokens_per_s = 61564.0;
  record.tokens_per_s_per_gpu = 30782.0;
  record.tflops_per_gpu = 506.1;
  record.mfu = 0.511;
  record.mem_gib = 51.0;
  record.step_s = 0.266;
  record.iterations = 2000;
  record.global_batch = 16;
  record.consumed_samples = step * 16;
  record.gpus = 2;
  return record;
}

}  // namespace railyard::test
