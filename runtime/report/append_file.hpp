// A file that only ever grows, one write(2) a record, so that a killed writer leaves at most one record torn.
#pragma once

#include <filesystem>
#include <string_view>

namespace railyard {

class AppendFile {
 public:
  // Opens or creates `path`; its folder must exist. RunError when that fails.
  explicit AppendFile(std::filesystem::path path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  AppendFile& operator=(AppendFile&&) = delete;
  ~AppendFile();

  // Adds `record` whole. RunError (a full disk, say) when it cannot; what was written of it is taken back.
  void append(std::string_view record);
  // Waits until all records are on the disk. RunError when the system says that they are not.
  void sync();
  // Whether the file is not empty and its last byte is another than `byte`.
  [[nodiscard]] bool ends_otherwise_than(char byte) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace railyard
