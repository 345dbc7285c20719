// Finding NCCL and its functions.
#include "runtime/comm/nccl/nccl_library.hpp"

#include <dlfcn.h>

#include "runtime/base/error.hpp"

namespace railyard::nccl {
namespace {

constexpr int kOldest = 21800;  // ncclCommSplit, and communicators that do not block

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) throw RunError("libnccl.so.2 has no {}: NCCL 2.18 or later is needed", name);
}

Library open() {
  void* handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw RunError("NCCL is not here ({}): install libnccl2, or run with communicator = \"mpi\"", dlerror());
  Library l{};
  find(handle, "ncclGetVersion", l.get_version);
  find(handle, "ncclGetUniqueId", l.get_unique_id);
  find(handle, "ncclCommInitRankConfig", l.comm_init_rank_config);
  find(handle, "ncclCommSplit", l.comm_split);
  find(handle, "ncclCommFinalize", l.comm_finalize);
  find(handle, "ncclCommDestroy", l.comm_destroy);
  find(handle, "ncclCommAbort", l.comm_abort);
  find(handle, "ncclCommGetAsyncError", l.comm_get_async_error);
  find(handle, "ncclGetErrorString", l.get_error_string);
  find(handle, "ncclGetLastError", l.get_last_error);
  find(handle, "ncclAllReduce", l.all_reduce);
  find(handle, "ncclAllGather", l.all_gather);
  find(handle, "ncclReduceScatter", l.reduce_scatter);
  find(handle, "ncclBroadcast", l.broadcast);
  find(handle, "ncclSend", l.send);
  find(handle, "ncclRecv", l.receive);
  find(handle, "ncclGroupStart", l.group_start);
  find(handle, "ncclGroupEnd", l.group_end);
  int version = 0;
  if (l.get_version(&version) != ncclSuccess || version < kOldest)
    throw RunError("NCCL {} is too old: 2.18 or later is needed, or run with communicator = \"mpi\"", version);
  return l;
}

}  // namespace

const Library& library() {
  static const Library opened = open();
  return opened;
}

void check(ncclResult_t result, ncclComm_t communicator, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) [[likely]]
    return;
  const char* last = library().get_last_error(communicator);
  throw RunError("NCCL: {}: {}{}{}; NCCL_DEBUG=INFO tells more", what, library().get_error_string(result),
                 last != nullptr && *last != '\0' ? ": " : "", last != nullptr ? last : "");
}

}  // namespace railyard::nccl
