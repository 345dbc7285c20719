// JSON reading with places in errors, and durable file replacement.
#include "runtime/base/json.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

constexpr int kMaximumDepth = 256;

// Turns a byte offset into "line:column" of `text`.
std::string place_of(std::string_view text, size_t byte) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return fmt::format("{}:{}", line, column);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  int close() {
    const int result = ::close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

[[noreturn]] void fail_write(const std::filesystem::path& path, const char* doing) {
  const int error = errno;
  throw RunError("{}: cannot {}: {}", path.string(), doing, std::strerror(error));
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  int deepest = 0;
  try {
    return Json::parse(text.begin(), text.end(), [&](int depth, Json::parse_event_t, Json&) {
      deepest = std::max(deepest, depth);
      if (depth > kMaximumDepth) throw UsageError("{}: nested deeper than {} levels", source, kMaximumDepth);
      return true;
    });
  } catch (const Json::parse_error& error) {
    std::string reason = error.what();
    if (const auto colon = reason.rfind(": ");
        colon != std::string::npos && reason.find("syntax error") != std::string::npos)
      reason = reason.substr(reason.find("syntax error"));
    throw UsageError("{}:{}: not valid JSON: {}", source, place_of(text, error.byte), reason);
  } catch (const Json::exception& error) {  // a number that no double holds
    throw UsageError("{}: not valid JSON: {}", source, error.what());
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw UsageError("{}: is a directory, expected a file", path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UsageError("{}: cannot read: {}", path.string(), std::strerror(errno));
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) throw UsageError("{}: cannot read: {}", path.string(), std::strerror(errno));
  return std::move(content).str();
}

Json read_json_file(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

void write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path aside = path;
  aside += fmt::format(".tmp-{}", ::getpid());
  FileDescriptor file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) fail_write(aside, "create");
  try {
    size_t written = 0;
    while (written < content.size()) {
      const ssize_t n = ::write(file.get(), content.data() + written, content.size() - written);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_write(aside, "write");
      written += static_cast<size_t>(n);
    }
    if (::fsync(file.get()) != 0) fail_write(aside, "fsync");
    if (file.close() != 0) fail_write(aside, "close");
    if (::rename(aside.c_str(), path.c_str()) != 0) fail_write(path, "rename into place");
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) fail_write(folder, "fsync the folder");
}

}  // namespace railyard
