// Takes, keeps and gives back a run directory's lock.
#include "launch/run_lock.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>

#include "launch/bootstrap/bootstrap.hpp"
#include "launch/process.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

std::string user_name() {
  const passwd* entry = getpwuid(getuid());
  return entry != nullptr ? entry->pw_name : std::to_string(getuid());
}

std::string boot_id() {
  try {
    std::string text = read_file("/proc/sys/kernel/random/boot_id");
    text.erase(text.find_last_not_of(" \n") + 1);
    return text;
  } catch (const Error&) {
    return {};
  }
}

// A file-system lock on the whole file, of this open file (not of the process): gone with it, also when we are killed.
// False when someone else has it; true too where the file system has no such locks: heartbeats must do there.
bool lock_file(int descriptor) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(descriptor, F_OFD_SETLK, &whole) == 0) return true;
  return errno != EAGAIN && errno != EACCES;
}

std::string read_all(int descriptor) {
  std::string text(65536, '\0');
  const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

// The file's own clock says how old a heartbeat is: the clocks of two hosts need not agree.
double age_of(int descriptor) {
  struct stat before {
  }, now{};
  fstat(descriptor, &before);
  futimens(descriptor, nullptr);
  fstat(descriptor, &now);
  const timespec restored[2] = {before.st_atim, before.st_mtim};
  futimens(descriptor, restored);
  return static_cast<double>(now.st_mtim.tv_sec - before.st_mtim.tv_sec);
}

bool is_alive(const LockOwner& owner, const LockOwner& self, double age, const LockTimes& times) {
  // An earlier start of our own Slurm job has ended, or Slurm would not have started us.
  if (!owner.job.empty() && owner.job == self.job && owner.restart < self.restart) return false;
  if (owner.host == self.host) {
    if (owner.boot != self.boot) return false;
    if (kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH) return false;
  }
  return age < times.dead;
}

}  // namespace

LockOwner LockOwner::self() {
  LockOwner owner;
  owner.user = user_name();
  owner.host = host_name();
  owner.pid = getpid();
  owner.job = environment_value("SLURM_JOB_ID").value_or("");
  owner.restart = environment_number("SLURM_RESTART_COUNT").value_or(0);
  owner.boot = boot_id();
  owner.started = owner.heartbeat = std::time(nullptr);
  return owner;
}

LockOwner LockOwner::from_json(const Json& json) {
  LockOwner owner;
  try {
    owner.user = json.at("owner").get<std::string>();
    owner.host = json.at("host").get<std::string>();
    owner.pid = json.at("pid").get<long>();
    owner.job = json.at("job").get<std::string>();
    owner.restart = json.at("restart").get<long>();
    owner.boot = json.at("boot").get<std::string>();
    owner.started = json.at("started").get<long>();
    owner.heartbeat = json.at("heartbeat").get<long>();
  } catch (const nlohmann::json::exception& error) {
    throw UsageError("no lock record: {}", error.what());
  }
  return owner;
}

Json LockOwner::to_json() const {
  return Json{{"owner", user},      {"host", host}, {"pid", pid},         {"job", job},
              {"restart", restart}, {"boot", boot}, {"started", started}, {"heartbeat", heartbeat}};
}

std::string LockOwner::describe() const {
  return fmt::format("{} on {} (process {}{})", user, host, pid, job.empty() ? "" : ", Slurm job " + job);
}

LockSight look_at_lock(const std::filesystem::path& file, const LockTimes& times) {
  LockSight sight;
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return sight;
  struct flock whole {};
  whole.l_type = F_RDLCK;
  const bool held = fcntl(descriptor, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
  struct stat status {};
  const double age =
      fstat(descriptor, &status) == 0 ? std::difftime(std::time(nullptr), status.st_mtim.tv_sec) : times.dead;
  const std::string text = read_all(descriptor);
  close(descriptor);
  sight.owner = "another process";
  bool alive = held;
  try {
    const LockOwner owner = LockOwner::from_json(parse_json(text, file.string()));
    sight.owner = owner.describe();
    alive = alive || is_alive(owner, LockOwner::self(), age, times);
  } catch (const UsageError&) {
    // Cut off by its owner's death, or being written: the file-system lock tells which.
  }
  sight.state = alive ? LockSight::State::kHeld : LockSight::State::kDead;
  return sight;
}

std::optional<std::string> lock_job(const std::filesystem::path& file) {
  try {
    const std::string job = LockOwner::from_json(read_json_file(file)).job;
    return job.empty() ? std::nullopt : std::optional(job);
  } catch (const Error&) {
    return std::nullopt;
  }
}

RunLock::RunLock(std::filesystem::path file, const LockTimes& times)
    : file_(std::move(file)), times_(times), owner_(LockOwner::self()) {
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    const int descriptor = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) throw UsageError("{}: cannot be written: {}", file_.string(), std::strerror(errno));
    const bool ours = lock_file(descriptor);
    // A file that its owner removed between our open and our lock locks nothing: look again.
    struct stat opened {
    }, named{};
    if (fstat(descriptor, &opened) != 0 || stat(file_.c_str(), &named) != 0 || opened.st_ino != named.st_ino) {
      close(descriptor);
      if (attempt > 100) throw RunError("{}: its owner changes all the time", file_.string());
      continue;
    }
    const std::string text = read_all(descriptor);
    std::string holder = "another process";
    bool held = !ours;
    if (!text.empty()) {
      try {
        const LockOwner other = LockOwner::from_json(parse_json(text, file_.string()));
        holder = other.describe();
        held = held || is_alive(other, owner_, age_of(descriptor), times_);
        if (!held) taken_from_ = holder;
      } catch (const UsageError&) {
        // A record that was cut off by its owner's death; the file-system lock alone decides.
      }
    }
    if (held) {
      close(descriptor);
      throw UsageError(
          "{}: this run directory is in use by {}; stop that run first, or choose another --run-dir. (The lock of an "
          "owner that "
          "died is taken over by itself, from another host after {:.0f} seconds.)",
          file_.parent_path().string(), holder, times_.dead);
    }
    descriptor_ = descriptor;
  }
  write_record();
  beating_ = std::thread([this] { beat(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  beating_.join();
  unlink(file_.c_str());
  close(descriptor_);
}

void RunLock::write_record() {
  owner_.heartbeat = std::time(nullptr);
  std::string text = owner_.to_json().dump() + "\n";
  // Padded to one length, so that a shorter record never leaves the tail of a longer one.
  if (text.size() < 512) text.insert(text.size() - 1, 512 - text.size(), ' ');
  if (pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ftruncate(descriptor_, static_cast<off_t>(text.size())) != 0)
    throw RunError("{}: cannot be written: {}", file_.string(), std::strerror(errno));
}

void RunLock::beat() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::unique_lock guard(mutex_);
  while (!ended_.wait_for(guard, std::chrono::duration<double>(times_.heartbeat), [this] { return ending_; })) {
    try {
      write_record();
    } catch (const RunError&) {
      // A full disk ends the run by the writes that matter; the record stays as old as it is.
    }
  }
}

}  // namespace railyard::launch
