// Reads rectangles of logical tensors out of a checkpoint, whatever layout wrote it, touching only the bytes needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "runtime/checkpoint/chunk_read.hpp"
#include "runtime/checkpoint/file.hpp"
#include "runtime/checkpoint/manifest.hpp"

namespace railyard {

// An open checkpoint. One thread at a time; it holds a lock that keeps the checkpoint from being pruned.
class CheckpointReader {
 public:
  // `folder` is the checkpoint itself, such as ckpt/step-100. UsageError when its manifest cannot be read.
  explicit CheckpointReader(const std::filesystem::path& folder);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool holds(const std::string& name) const { return manifest_.tensors.contains(name); }

  // Reads the rectangle into `out`, converting between floating-point types. UsageError when the tensor is missing, is
  // smaller than the rectangle, or its bytes cannot be read. Checksums are verify_checkpoint's business.
  void read(const std::string& name, const Rectangle& where, const HostView& out);

  // Bytes read from files so far.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  const File& file(std::size_t index);

  std::filesystem::path folder_;
  File lock_;
  Manifest manifest_;
  std::map<std::size_t, File> files_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace railyard
