// Bytes of a file or of standard input, plain or compressed with gzip or Zstandard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace railyard::data {

class InputStream {
 public:
  // "-" is standard input. The compression is seen from the first bytes, not from the name. UsageError when it cannot
  // be opened.
  explicit InputStream(const std::string& name);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  // Up to `size` bytes after decompression; 0 only at the end. UsageError: damaged or truncated compressed data.
  // RunError: the disk fails.
  std::size_t read(char* data, std::size_t size);
  // Goes on behind the first `count` bytes of the (decompressed) stream, before anything was read; true when that took
  // no reading. Otherwise the caller has to read them.
  bool seek(std::uint64_t count);

  [[nodiscard]] const std::string& name() const { return name_; }
  // Bytes of the file itself that have been used, and all of them (0: unknown, as of a pipe).
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  struct Decoder;
  void refill();

  std::string name_;
  int fd_ = -1;
  std::uint64_t position_ = 0, size_ = 0;
  std::string buffer_;  // raw bytes
  std::size_t at_ = 0;  // first unused one
  bool ended_ = false;
  std::unique_ptr<Decoder> decoder_;  // null: plain
};

}  // namespace railyard::data
