// What the data tests share: a folder that goes away, a job with data, optional material beside the repository.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "runtime/base/job.hpp"

namespace railyard::data::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "railyard-data-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline JobSpec job_of(std::int64_t seq_length, std::int64_t iterations, std::int64_t global_batch) {
  JobSpec job;
  job.model.seq_length = seq_length;
  job.train.iterations = iterations;
  job.train.global_batch = global_batch;
  job.data.sampling = "sequential";
  return job;
}

// A file of the optional test material beside the repository; empty when it is not there.
inline std::filesystem::path material(const std::string& name) {
  const auto path = std::filesystem::path(RAILYARD_SOURCE_DIR) / ".." / "shared" / "data" / name;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace railyard::data::test
