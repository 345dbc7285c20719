// Preloaded into a program: the n-th system call that changes a file system fails, tears or kills the process.
//
//   RAILYARD_FAULT=N:kill     SIGKILL before the N-th call (counted from 1)
//   RAILYARD_FAULT=N:tear     the N-th call, if it writes, writes half; then SIGKILL
//   RAILYARD_FAULT=N:ENOSPC   the N-th call and all writing calls after it fail: a disk that is full stays full
//   RAILYARD_FAULT=N:EIO      the N-th call fails, once
//   RAILYARD_FAULT=0:count    nothing fails; the number of calls goes to the file RAILYARD_FAULT_COUNT at exit
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls{0};

struct Plan {
  long at = 0;
  bool kill = false, tear = false, stays = false;
  int error = 0;
  Plan() {
    const char* text = std::getenv("RAILYARD_FAULT");
    if (text == nullptr) return;
    char* end = nullptr;
    at = std::strtol(text, &end, 10);
    kill = std::strcmp(end, ":kill") == 0;
    tear = std::strcmp(end, ":tear") == 0;
    stays = std::strcmp(end, ":ENOSPC") == 0;
    error = stays ? ENOSPC : std::strcmp(end, ":EIO") == 0 ? EIO : 0;
  }
  ~Plan() {
    const char* path = std::getenv("RAILYARD_FAULT_COUNT");
    if (path == nullptr) return;
    if (FILE* out = std::fopen(path, "w")) {
      std::fprintf(out, "%ld\n", calls.load());
      std::fclose(out);
    }
  }
};

const Plan& plan() {
  static const Plan instance;
  return instance;
}

enum class Kind { kTakesSpace, kOther };

// Whether this call shall fail; errno is set then. Does not return when the process shall die.
bool fails(Kind kind) {
  const long call = ++calls;
  const Plan& p = plan();
  if (p.at == 0 || call < p.at) return false;
  if (call == p.at && p.kill) ::raise(SIGKILL);
  if (call == p.at ? p.error != 0 : p.stays && kind == Kind::kTakesSpace) {
    errno = p.error;
    return true;
  }
  return false;
}

bool tears() { return plan().tear && calls.load() == plan().at; }

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (fails(Kind::kTakesSpace)) return -1;
  if (tears()) {
    real(descriptor, data, size / 2);
    ::raise(SIGKILL);
  }
  return real(descriptor, data, size);
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t at) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  if (fails(Kind::kTakesSpace)) return -1;
  if (tears()) {
    real(descriptor, data, size / 2, at);
    ::raise(SIGKILL);
  }
  return real(descriptor, data, size, at);
}

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, mode_t)>("open");
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (fails(Kind::kTakesSpace)) return -1;
  }
  return real(path, flags, mode);
}

int fsync(int descriptor) {
  static const auto real = next<int (*)(int)>("fsync");
  return fails(Kind::kTakesSpace) ? -1 : real(descriptor);
}

int close(int descriptor) {
  static const auto real = next<int (*)(int)>("close");
  if (!fails(Kind::kOther)) return real(descriptor);
  const int error = errno;
  real(descriptor);
  errno = error;
  return -1;
}

int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return fails(Kind::kTakesSpace) ? -1 : real(path, mode);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return fails(Kind::kOther) ? -1 : real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return fails(Kind::kOther) ? -1 : real(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  static const auto real = next<int (*)(const char*)>("unlink");
  return fails(Kind::kOther) ? -1 : real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  return fails(Kind::kOther) ? -1 : real(folder, path, flags);
}

int rmdir(const char* path) {
  static const auto real = next<int (*)(const char*)>("rmdir");
  return fails(Kind::kOther) ? -1 : real(path);
}

}  // extern "C"
