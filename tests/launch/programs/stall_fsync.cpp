// For LD_PRELOAD: fsync of a checkpoint's file hangs on rank 1 for as long as the file $RAILYARD_STALL exists.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" int fsync(int descriptor) {
  using Fsync = int (*)(int);
  static const auto real = reinterpret_cast<Fsync>(dlsym(RTLD_NEXT, "fsync"));
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* stall = std::getenv("RAILYARD_STALL");
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  if (rank != nullptr && stall != nullptr && std::strcmp(rank, "1") == 0 && readlink(link, path, sizeof path - 1) > 0 &&
      std::strstr(path, "/ckpt/") != nullptr)
    while (access(stall, F_OK) == 0) usleep(100000);
  return real(descriptor);
}
