// Files that matter: every write, sync and rename is checked, and errors name the path and what the system said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>

namespace railyard {

// An open file, closed by the destructor. Writers call close() themselves, because the last error may appear there.
class File {
 public:
  // A new file for writing; RunError when it exists or cannot be made.
  static File create(const std::filesystem::path& path);
  // An existing file or folder for reading; UsageError when it cannot be opened.
  static File open(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  // Appends all bytes; RunError (disk full, quota, I/O error).
  void write(std::span<const std::byte> data);
  // Writes all bytes at a position; RunError.
  void write_at(std::span<const std::byte> data, std::uint64_t position);
  // Fills the whole of `data` from a position; UsageError when the file ends before, or on an I/O error.
  void read_at(std::span<std::byte> data, std::uint64_t position) const;
  // Bytes in the file.
  [[nodiscard]] std::uint64_t size() const;
  // Waits until the content is on the device; RunError.
  void sync();
  // Whether writes go past the page cache (O_DIRECT) from now on: then data, its size and its place in the file must be
  // multiples of kDirectAlignment. False where the file system cannot do it.
  bool bypass_cache(bool on);
  void close();

  // Takes a shared lock for as long as the file is open, so that lock_is_held tells others; advisory. A file system
  // without locks is no error.
  void lock_shared();
  // Whether somebody else holds a lock on the file.
  [[nodiscard]] bool lock_is_held() const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  File(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::filesystem::path path_;
  int descriptor_ = -1;
};

inline constexpr std::size_t kDirectAlignment = 4096;

// A new file that is filled from front to back past the page cache, so that a large one is as fast as the disk and
// takes no memory from others. One piece is written while the next is copied. Where the file system cannot do that,
// pieces go the ordinary way. Errors are those of File, and may come with a later call.
class DirectFile {
 public:
  explicit DirectFile(const std::filesystem::path& path);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  void write(std::span<const std::byte> data);
  // Writes what is left, waits until all is on the device, and closes; RunError.
  void finish();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  void hand_over();

  File file_;
  std::unique_ptr<std::byte, Free> pieces_[2];
  int filling_ = 0;
  std::size_t filled_ = 0;
  std::future<void> writing_;
};

// Makes a new folder; RunError when it exists or cannot be made.
void make_directory(const std::filesystem::path& path);
// Makes a rename or a new entry in the folder durable; RunError.
void sync_directory(const std::filesystem::path& path);
// rename(2) within one file system; RunError.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Swaps two names at one instant; false when the file system cannot do it, RunError on any other failure.
bool exchange_paths(const std::filesystem::path& left, const std::filesystem::path& right);

// Writes a whole new file and syncs it; RunError.
void write_new_file(const std::filesystem::path& path, std::string_view content);

}  // namespace railyard
