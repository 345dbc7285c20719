// Reading through zlib and libzstd, member after member.
#include "runtime/data/input_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "runtime/base/error.hpp"

namespace railyard::data {
namespace {

constexpr std::size_t kRawBytes = 1 << 18;

}  // namespace

// Turns raw bytes into decompressed ones; one of the two libraries is in use.
struct InputStream::Decoder {
  z_stream gzip{};
  bool is_gzip = false;
  ZSTD_DCtx* zstd = nullptr;
  bool inside = false;  // a member has begun and not ended

  explicit Decoder(bool use_gzip) : is_gzip(use_gzip) {
    if (is_gzip) {
      if (inflateInit2(&gzip, 15 + 16) != Z_OK) throw std::bad_alloc();
    } else {
      zstd = ZSTD_createDCtx();
      if (zstd == nullptr) throw std::bad_alloc();
    }
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() {
    if (is_gzip)
      inflateEnd(&gzip);
    else
      ZSTD_freeDCtx(zstd);
  }

  // Uses raw bytes and writes decompressed ones; moves both counts. False: the data are damaged.
  bool step(const char* raw, std::size_t raw_size, std::size_t& used, char* out, std::size_t out_size,
            std::size_t& written) {
    if (!is_gzip) {
      ZSTD_inBuffer in{raw, raw_size, 0};
      ZSTD_outBuffer to{out, out_size, 0};
      const std::size_t result = ZSTD_decompressStream(zstd, &to, &in);
      used = in.pos;
      written = to.pos;
      inside = result != 0;
      return ZSTD_isError(result) == 0;
    }
    gzip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw));
    gzip.avail_in = static_cast<uInt>(raw_size);
    gzip.next_out = reinterpret_cast<Bytef*>(out);
    gzip.avail_out = static_cast<uInt>(std::min<std::size_t>(out_size, 1U << 30));
    const uInt offered = gzip.avail_out;
    inside = true;
    const int result = inflate(&gzip, Z_NO_FLUSH);
    used = raw_size - gzip.avail_in;
    written = offered - gzip.avail_out;
    if (result == Z_STREAM_END) {
      inside = false;
      inflateReset(&gzip);
      return true;
    }
    return result == Z_OK || result == Z_BUF_ERROR;
  }
};

InputStream::InputStream(const std::string& name) : name_(name == "-" ? "standard input" : name) {
  fd_ = name == "-" ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) throw UsageError("{}: cannot read: {}", name_, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_, &status) == 0) {
    if (S_ISREG(status.st_mode)) size_ = static_cast<std::uint64_t>(status.st_size);
    if (S_ISDIR(status.st_mode)) {
      if (fd_ != STDIN_FILENO) ::close(fd_);
      throw UsageError("{}: is a folder, expected a file", name_);
    }
  }
  while (buffer_.size() < 4 && !ended_) refill();
  constexpr unsigned char kZstd[] = {0x28, 0xB5, 0x2F, 0xFD};
  if (buffer_.size() >= 2 && buffer_[0] == '\x1f' && buffer_[1] == '\x8b')
    decoder_ = std::make_unique<Decoder>(true);
  else if (buffer_.size() >= 4 && std::memcmp(buffer_.data(), kZstd, 4) == 0)
    decoder_ = std::make_unique<Decoder>(false);
}

InputStream::~InputStream() {
  if (fd_ > STDIN_FILENO) ::close(fd_);
}

void InputStream::refill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t have = buffer_.size();
  buffer_.resize(have + kRawBytes);
  ssize_t n = 0;
  do {
    n = ::read(fd_, buffer_.data() + have, kRawBytes);
  } while (n < 0 && errno == EINTR);
  if (n < 0) throw RunError("{}: cannot read: {}", name_, std::strerror(errno));
  buffer_.resize(have + static_cast<std::size_t>(n));
  ended_ = n == 0;
}

std::size_t InputStream::read(char* data, std::size_t size) {
  for (;;) {
    if (at_ == buffer_.size() && !ended_) refill();
    const std::size_t left = buffer_.size() - at_;
    if (!decoder_) {
      const std::size_t count = std::min(size, left);
      std::memcpy(data, buffer_.data() + at_, count);
      at_ += count;
      position_ += count;
      return count;
    }
    if (left == 0 && !decoder_->inside) return 0;
    std::size_t used = 0, written = 0;
    if (!decoder_->step(buffer_.data() + at_, left, used, data, size, written))
      throw UsageError("{}: damaged compressed data near byte {}", name_, position_);
    at_ += used;
    position_ += used;
    if (written > 0) return written;
    if (left == 0) throw UsageError("{}: the compressed data end too early: truncated", name_);
  }
}

bool InputStream::seek(std::uint64_t count) {
  if (count == 0) return true;
  if (decoder_ || size_ == 0 || count > size_ || ::lseek(fd_, static_cast<off_t>(count), SEEK_SET) < 0) return false;
  buffer_.clear();
  at_ = 0;
  ended_ = false;
  position_ = count;
  return true;
}

}  // namespace railyard::data
