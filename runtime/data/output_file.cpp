// Buffered output with durable publication.
#include "runtime/data/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "runtime/base/error.hpp"

namespace railyard::data {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing) {
  const int error = errno;
  throw RunError("{}: cannot {}: {}", path.string(), doing, std::strerror(error));
}

void write_all(int fd, const char* data, std::size_t size, const std::filesystem::path& path) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "write");
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, std::uint64_t keep) : path_(std::move(path)), size_(keep) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(path_, "create");
  if (::ftruncate(fd_, static_cast<off_t>(keep)) != 0 || ::lseek(fd_, 0, SEEK_END) < 0) {
    ::close(fd_);
    fail(path_, "truncate");
  }
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  const char* data = reinterpret_cast<const char*>(bytes.data());
  if (bytes.size() > kBufferBytes)
    write_all(fd_, data, bytes.size(), path_);
  else
    buffer_.append(data, bytes.size());
}

void OutputFile::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), path_);
  buffer_.clear();
}

void OutputFile::sync() {
  flush();
  if (::fdatasync(fd_) != 0) fail(path_, "fsync");
}

void OutputFile::publish(const std::filesystem::path& final_path) {
  flush();
  if (::fsync(fd_) != 0) fail(path_, "fsync");
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail(path_, "close");
  if (::rename(path_.c_str(), final_path.c_str()) != 0) fail(final_path, "rename into place");
  sync_folder_of(final_path);
}

std::filesystem::path aside_path(const std::filesystem::path& path) {
  std::random_device device;
  std::filesystem::path aside = path;
  aside += fmt::format(".tmp-{}-{:08x}", ::getpid(), device());
  return aside;
}

void sync_folder_of(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(folder, "open the folder");
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) fail(folder, "fsync the folder");
}

}  // namespace railyard::data
