// Appending whole records to a file.
#include "runtime/report/append_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing) {
  const int error = errno;
  throw RunError("{}: cannot {}: {}", path.string(), doing, std::strerror(error));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(path_, "open for appending");
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(std::string_view record) {
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t written = ::write(fd_, record.data() + done, record.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      struct stat status {};
      if (done > 0 && ::fstat(fd_, &status) == 0)
        if (::ftruncate(fd_, status.st_size - static_cast<off_t>(done)) != 0)
          done = 0;  // the write's error says enough
      errno = error;
      fail(path_, "append");
    }
    done += static_cast<std::size_t>(written);  // short only when the disk fills up; the next write says so
  }
}

void AppendFile::sync() {
  if (::fdatasync(fd_) != 0 && errno != EINVAL) fail(path_, "sync");
}

bool AppendFile::ends_otherwise_than(char byte) const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail(path_, "stat");
  if (status.st_size == 0) return false;
  char last = 0;
  if (::pread(fd_, &last, 1, status.st_size - 1) != 1) fail(path_, "read");
  return last != byte;
}

}  // namespace railyard
