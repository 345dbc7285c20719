// Where the ranks of a run publish what they are in (runtime/base/activity.hpp), on each node, and reading it there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/activity.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

// One rank as seen from its node.
struct RankSight {
  Activity activity;
  double age = 0.0;                // seconds since the phase began
  double waiting_for = 0.0;        // seconds since the wait began, 0: waits for nobody
  char state = '-';                // of the process as in /proc: R, S, D (in the kernel), T (stopped); '-': gone
  std::vector<std::string> stack;  // innermost first, where asked for and eu-stack could tell

  [[nodiscard]] Json to_json() const;
  static RankSight from_json(const Json& json);
  // "rank 2 on node1: step 12, backward below layer 3 for 4.1 s, waits in all_reduce of group tp 0 for 3.9 s".
  [[nodiscard]] std::string line() const;
};

// The file of a rank below `folder` (/dev/shm): the same for all who name the run directory by its absolute path.
[[nodiscard]] std::filesystem::path activity_file(const std::filesystem::path& run_dir, int rank,
                                                  const std::filesystem::path& folder = "/dev/shm");

// The ranks of the run on this node, by rank. `stacks`: with what eu-stack (elfutils) tells of live processes, where it
// is installed.
[[nodiscard]] std::vector<RankSight> look_at_ranks(const std::filesystem::path& run_dir, bool stacks = false,
                                                   const std::filesystem::path& folder = "/dev/shm");

// Removes what ranks that are gone have left.
void remove_dead_activities(const std::filesystem::path& run_dir, const std::filesystem::path& folder = "/dev/shm");

// Who holds the others up, for one message after a failure: every rank that waits for nobody, then the others by what
// they wait in. At most `most` are named one by one.
[[nodiscard]] std::string what_each_was_in(const std::vector<RankSight>& ranks, std::size_t most = 8);

}  // namespace railyard::launch
