// The lock of a run directory: one owner at a time, over hosts; a dead owner's lock is taken over.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/json.hpp"

namespace railyard::launch {

// Who holds a lock, as the file says it.
struct LockOwner {
  std::string user, host;
  long pid = 0;
  std::string job;                  // Slurm's job id; empty outside Slurm
  long restart = 0;                 // SLURM_RESTART_COUNT
  std::string boot;                 // the host's boot id: a process id means nothing after a reboot
  long started = 0, heartbeat = 0;  // seconds since 1970

  static LockOwner self();
  // UsageError when the text is no such record.
  static LockOwner from_json(const Json& json);
  [[nodiscard]] Json to_json() const;
  [[nodiscard]] std::string describe() const;  // "anna on node3 (process 4711, Slurm job 12)"
};

struct LockTimes {
  double heartbeat = 10.0;  // seconds between two
  double dead = 60.0;       // an owner on another host whose heartbeat is older than this is dead
};

// What a reader sees of a lock, without touching it.
struct LockSight {
  enum class State { kFree, kHeld, kDead };  // kDead: its owner is gone and did not give it back
  State state = State::kFree;
  std::string owner;  // "another process" when the record cannot be read
};
LockSight look_at_lock(const std::filesystem::path& file, const LockTimes& times = {});

// The Slurm job that a lock names; nothing without one, or when the file is no lock.
std::optional<std::string> lock_job(const std::filesystem::path& file);

// Holds `file` from construction to destruction. An owner is known to be alive by a lock of the file system (where it
// has any), by its process on this host, else by its heartbeat.
class RunLock {
 public:
  // UsageError, with the owner, when someone else holds it; RunError when the file cannot be written.
  explicit RunLock(std::filesystem::path file, const LockTimes& times = {});
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  // The dead owner whose lock this took over, for a line to the user; empty when there was none.
  [[nodiscard]] const std::string& taken_from() const { return taken_from_; }

 private:
  void write_record();
  void beat();

  std::filesystem::path file_;
  LockTimes times_;
  LockOwner owner_;
  std::string taken_from_;
  int descriptor_ = -1;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread beating_;
};

}  // namespace railyard::launch
