// A file written front to back through a buffer, and published under its final name only when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace railyard::data {

// All failures are RunErrors with the file's name and errno's text (a full disk shows at write, fsync or close).
class OutputFile {
 public:
  // Starts `path` anew, or (with `keep`) goes on after its first `keep` bytes and drops the rest.
  explicit OutputFile(std::filesystem::path path, std::uint64_t keep = 0);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile(OutputFile&&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  template <class T>
  void write_value(const T& value) {
    write(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Hands the buffer to the kernel, and the kernel's pages to the disk.
  void flush();
  void sync();
  // sync, close and rename to `final_path`; the folder is synced too.
  void publish(const std::filesystem::path& final_path);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::string buffer_;
};

// A name beside `path` that no other process uses: for a file that is renamed to `path` when it is whole.
[[nodiscard]] std::filesystem::path aside_path(const std::filesystem::path& path);

// fsyncs the folder that holds `path`, so that a rename in it lasts.
void sync_folder_of(const std::filesystem::path& path);

}  // namespace railyard::data
