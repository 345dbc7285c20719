// A rank's way from its start to training: meet, tell, be told, bind, train.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/bootstrap/assign_ranks.hpp"
#include "launch/bootstrap/bootstrap.hpp"
#include "launch/bootstrap/rank_facts.hpp"
#include "launch/bootstrap/surroundings.hpp"
#include "launch/run_directory.hpp"
#include "runtime/base/job.hpp"

namespace railyard::launch {

// What rank 0 settles for all.
struct Settled {
  Json job;  // resolved
  std::filesystem::path run_dir;
  int start = 1;
  std::string device;                 // "cpu" or "cuda"
  std::string communicator;           // "single", "mpi", "nccl"
  std::vector<RankAssignment> ranks;  // by the rank of whoever started them
  Environment site_environment;       // the site's setenv

  [[nodiscard]] Json to_json() const;
  static Settled from_json(const Json& json);
};

// Rank 0's part: from the facts of all ranks to what all of them do. It may open the run directory, and keep it in
// `*directory` for the life of the run. Errors are thrown; every rank then ends with their exit code and only rank 0
// prints them.
using Settle = std::function<Settled(const std::vector<RankFacts>& facts, std::unique_ptr<RunDirectory>& directory)>;

// Chooses device and communicator for a job on these ranks. UsageError when what the job asks for is not there.
void choose_device(const JobSpec& job, const std::vector<RankFacts>& facts, Settled& settled);

struct JoinOptions {
  double timeout = 60.0;  // seconds for each exchange before training
  bool launched = false;  // by our own launcher, which takes Ctrl-C and records the ending
};

// The signal that asked this process to stop; 0: none.
[[nodiscard]] int last_stop_signal();

// Joins the other ranks and trains; returns the exit code. Prints an error once for all ranks.
int join_and_train(const Surroundings& around, const Settle& settle, const JoinOptions& options);

}  // namespace railyard::launch
