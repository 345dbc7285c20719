// What the launcher tells a rank before training starts: who it is, what it may use, and how it hears that it must stop.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace railyard {

// Why a rank has been asked to stop, in the words of why.json.
enum class StopRequest { kNone, kSignal, kTimeLimit };

struct RankContext {
  int rank = 0;                            // logical: the placement's, which a Layout's coordinates are of
  int size = 1;
  int local_rank = 0;                      // among the ranks of this host
  int local_size = 1;
  std::string host = "localhost";
  std::vector<int> logical_ranks;          // launcher's (MPI's) rank -> logical rank, for CommunicatorOptions
  std::string device = "cpu";              // "cpu" or "cuda", never "auto"
  int device_index = 0;                    // ordinal among the visible devices
  std::string communicator = "mpi";        // "single" (one rank), "mpi" or "nccl", never "auto"
  int threads = 1;                         // cores this rank may use; it is bound to them already
  std::filesystem::path run_dir;           // exists, locked by this run
  int start = 1;                           // how many times this run has been started, this time included
  int terminal_columns = 0;                // width of the terminal that rank 0's output ends on, 0: none
  // What this rank has been asked by a signal. The trainer agrees on it over all ranks at each step boundary.
  std::function<StopRequest()> stop_request = [] { return StopRequest::kNone; };
  // Seconds until the scheduler ends the job; nothing: unknown or no limit. May take some 100 ms, so rank 0 asks it,
  // and only before a save.
  std::function<std::optional<double>()> seconds_left = [] { return std::optional<double>{}; };
};

// What the launcher calls once placement, binding and environment are done, on every rank. Returns kExitDone or
// kExitStopped, the same on all ranks; errors are thrown. Defined by runtime/train:
//   int train(const JobSpec& job, const Layout& layout, const RankContext& context);

}  // namespace railyard
