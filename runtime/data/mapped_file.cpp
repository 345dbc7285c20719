// Maps files with mmap.
#include "runtime/data/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"

namespace railyard::data {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw UsageError("{}: cannot read: {}", path.string(), std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw UsageError("{}: expected a plain file", path.string());
  }
  if (status.st_size > 0) {
    void* address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      throw UsageError("{}: cannot map into memory: {}", path.string(), std::strerror(error));
    }
    address_ = address;
    size_ = static_cast<std::size_t>(status.st_size);
  }
  ::close(fd);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, size_);
}

void MappedFile::expect_random() const {
  if (address_ != nullptr) ::madvise(address_, size_, MADV_RANDOM);
}

void MappedFile::expect_sequential() const {
  if (address_ != nullptr) ::madvise(address_, size_, MADV_SEQUENTIAL);
}

}  // namespace railyard::data
