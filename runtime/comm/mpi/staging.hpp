// Host buffers between device tensors (or bf16 ones) and MPI, kept for the next operation of their size.
#pragma once

#include <utility>
#include <vector>

#include "runtime/compute/backend.hpp"

namespace railyard::mpi {

class StagingPool {
 public:
  explicit StagingPool(Backend& backend) : backend_(backend) {}

  // The smallest kept buffer that is large enough, else a new one.
  Buffer take(std::size_t bytes) {
    std::size_t best = kept_.size();
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (kept_[i].bytes() >= bytes && (best == kept_.size() || kept_[i].bytes() < kept_[best].bytes())) best = i;
    if (best == kept_.size()) return backend_.allocate_staging(bytes);
    Buffer buffer = std::move(kept_[best]);
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(best));
    return buffer;
  }
  void give_back(Buffer buffer) { kept_.push_back(std::move(buffer)); }
  [[nodiscard]] Backend& backend() { return backend_; }

 private:
  Backend& backend_;
  std::vector<Buffer> kept_;
};

}  // namespace railyard::mpi
