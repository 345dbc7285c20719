// NCCL's functions, looked up in libnccl.so.2 when they are first needed, so that one GPU works without it.
#pragma once

#include <nccl.h>

namespace railyard::nccl {

struct Library {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommSplit) comm_split;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
};

// RunError when NCCL is not installed, or older than what is needed.
const Library& library();

// Throws RunError with NCCL's text when `result` is an error (in progress is none); `what` says what was tried.
void check(ncclResult_t result, ncclComm_t communicator, const char* what);

}  // namespace railyard::nccl
