// One rank's training: communicator and backend, signals, metrics and console around runtime/train.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/job.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {

struct RankContext {
  int world_rank = 0, size = 1;    // as the starter counts
  std::vector<int> logical_ranks;  // world rank -> logical rank
  std::string host;
  std::string device = "cpu";        // "cpu" or "cuda"
  int device_index = 0;              // ordinal among the visible devices
  std::string communicator = "mpi";  // "single", "mpi", "nccl"
  int threads = 1;
  std::filesystem::path run_dir, data_root;
  int start = 1;
  int terminal_columns = 0;  // width of the terminal that rank 0's output ends on, 0: none
  double timeout = 60.0;     // for the communication library to start
};

// From now on SIGUSR1 and SIGTERM ask for a checkpoint and an end at the next step boundary, and so does SIGINT unless
// a launcher takes Ctrl-C for us.
void take_stop_signals(bool launched);
// Which signal asked first; 0: none.
[[nodiscard]] int stop_signal();

// Publishes what this rank is in (launch/activity_files.hpp), ends it when its file system does not answer for
// run.timeout seconds, and reports critical errors of its GPU (XID) as its own.
//
// Trains. Returns kExitDone or kExitStopped. On an error, `on_error` is called first (it reports, and gives the exit
// code); then a world of several ranks is ended at once, with that code, or the code is returned.
int train_rank(const JobSpec& job, const Layout& layout, const RankContext& context,
               const std::function<int(const std::exception&)>& on_error);

}  // namespace railyard::launch
