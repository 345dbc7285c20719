// Checked system calls on files and folders.
#include "runtime/checkpoint/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

// The kernel moves at most 2 GiB a call; smaller pieces let a slow disk report its error earlier.
constexpr std::size_t kPiece = std::size_t{16} << 20;

[[noreturn]] void fail(const char* action, const std::filesystem::path& path) {
  const int error = errno;
  const char* remedy = error == ENOSPC || error == EDQUOT ? "; free space or point checkpoint.dir elsewhere" : "";
  throw RunError("{}: cannot {}: {}{}", path.string(), action, std::strerror(error), remedy);
}

}  // namespace

File File::create(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) fail("create the file", path);
  return {path, descriptor};
}

File File::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw UsageError("{}: cannot open: {}", path.string(), std::strerror(errno));
  return {path, descriptor};
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor_, data.data(), std::min(data.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    // Some file systems take the flag, but not the writes; and a short write may leave the rest unaligned.
    if (written < 0 && errno == EINVAL && bypass_cache(false)) continue;
    if (written <= 0) fail("write", path_);
    data = data.subspan(static_cast<std::size_t>(written));
    // A hint: the device begins while the next piece is copied, and the sync at the end finds little left.
    if (static_cast<std::size_t>(written) == kPiece) ::sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
  }
}

void File::write_at(std::span<const std::byte> data, std::uint64_t position) {
  while (!data.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, data.data(), std::min(data.size(), kPiece), static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write", path_);
    data = data.subspan(static_cast<std::size_t>(written));
    position += static_cast<std::uint64_t>(written);
  }
}

void File::read_at(std::span<std::byte> data, std::uint64_t position) const {
  while (!data.empty()) {
    const ssize_t got = ::pread(descriptor_, data.data(), std::min(data.size(), kPiece), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw UsageError("{}: cannot read: {}", path_.string(), std::strerror(errno));
    if (got == 0) throw UsageError("{}: the file ends at byte {}, but more was expected", path_.string(), position);
    data = data.subspan(static_cast<std::size_t>(got));
    position += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) throw UsageError("{}: cannot stat: {}", path_.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw UsageError("{}: is no regular file", path_.string());
  return static_cast<std::uint64_t>(status.st_size);
}

void File::sync() {
  if (::fsync(descriptor_) != 0) fail("sync", path_);
}

bool File::bypass_cache(bool on) {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags < 0 || ((flags & O_DIRECT) != 0) == on) return flags >= 0 && on;
  return ::fcntl(descriptor_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) fail("close", path_);
}

void File::lock_shared() { ::flock(descriptor_, LOCK_SH | LOCK_NB); }

bool File::lock_is_held() const {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    ::flock(descriptor_, LOCK_UN);
    return false;
  }
  return errno == EWOULDBLOCK;
}

void DirectFile::Free::operator()(std::byte* memory) const { std::free(memory); }

DirectFile::DirectFile(const std::filesystem::path& path) : file_(File::create(path)) {
  file_.bypass_cache(true);
  for (auto& piece : pieces_) {
    piece.reset(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, kPiece)));
    if (!piece) throw RunError("{}: no memory for a buffer of {} bytes", path.string(), kPiece);
  }
}

DirectFile::~DirectFile() {
  if (writing_.valid()) writing_.wait();
}

void DirectFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const std::size_t count = std::min(data.size(), kPiece - filled_);
    std::memcpy(pieces_[filling_].get() + filled_, data.data(), count);
    filled_ += count;
    data = data.subspan(count);
    if (filled_ == kPiece) hand_over();
  }
}

void DirectFile::hand_over() {
  if (writing_.valid()) writing_.get();
  writing_ = std::async(std::launch::async,
                        [this, piece = std::span(pieces_[filling_].get(), filled_)] { file_.write(piece); });
  filling_ = 1 - filling_;
  filled_ = 0;
}

void DirectFile::finish() {
  if (writing_.valid()) writing_.get();
  // Whole blocks, then the rest the ordinary way.
  const std::size_t blocks = filled_ / kDirectAlignment * kDirectAlignment;
  const std::span rest(pieces_[filling_].get(), filled_);
  file_.write(rest.first(blocks));
  if (blocks < filled_) {
    file_.bypass_cache(false);
    file_.write(rest.subspan(blocks));
  }
  file_.sync();
  file_.close();
}

void make_directory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0777) != 0) fail("make the folder", path);
}

void sync_directory(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open the folder", path);
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  // Some file systems have nothing to sync in a folder and say so by EINVAL.
  if (result != 0 && error != EINVAL) fail("sync the folder", path);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(("rename to " + to.string()).c_str(), from);
}

bool exchange_paths(const std::filesystem::path& left, const std::filesystem::path& right) {
  if (::renameat2(AT_FDCWD, left.c_str(), AT_FDCWD, right.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  fail(("exchange with " + right.string()).c_str(), left);
}

void write_new_file(const std::filesystem::path& path, std::string_view content) {
  File file = File::create(path);
  file.write(std::as_bytes(std::span(content)));
  file.sync();
  file.close();
}

}  // namespace railyard
