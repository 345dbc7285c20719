// Recognises the epilogues of mpirun and srun.
#include "launch/noise.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <utility>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

bool is_ruler(std::string_view line) {
  return line.size() >= 60 && line.find_first_not_of('-') == std::string_view::npos;
}

// What a boxed message of mpirun says when a rank has ended; any other box is worth reading.
constexpr std::array<std::string_view, 6> kBoxes = {
    "MPI_ABORT was invoked",
    "Primary job  terminated normally",
    "mpirun detected that one or more processes exited with non-zero status",
    "mpirun noticed that process rank",
    "prterun detected that one or more processes exited",
    "prterun noticed that process rank",
};

// Lines of srun and slurmstepd that repeat a task's end.
constexpr std::array<std::string_view, 9> kParts = {
    ": Exited with exit code ",
    ": Killed",
    ": Terminated",
    ": Aborted",
    "Job step aborted: Waiting up to",
    "error: *** STEP ",
    "lacks support for cpu binding",
    "spmix_appdir",
    "launch/slurm: _step_signal: Terminating StepId=",
};

// Open MPI's words about boxes that it did not print once more.
constexpr std::array<std::string_view, 3> kAggregates = {
    " sent help message help-",
    "to 0 to see all help / error messages",
    "util/show_help.c at line ",
};
constexpr std::string_view kOurs = "railyard: ";

bool has_any(std::string_view line, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return line.find(part) != std::string_view::npos; });
}

bool repeats_an_end(const std::string& line) {
  const bool from_slurm = line.starts_with("srun: ") || line.starts_with("slurmstepd: ");
  if (line.starts_with("mpirun: Forwarding signal ") || line.starts_with("srun: forwarding signal ")) return true;
  return (from_slurm && has_any(line, kParts)) || (line.starts_with('[') && has_any(line, kAggregates));
}

}  // namespace

void NoiseFilter::line(const std::string& text, std::string& shown, std::string& hidden) {
  const std::string_view bare = std::string_view(text).substr(0, text.find_last_not_of("\r\n") + 1);
  if (is_ruler(bare)) {
    block_ += text;
    if (in_block_) {
      (has_any(block_, kBoxes) ? hidden : shown) += block_;
      block_.clear();
    }
    in_block_ = !in_block_;
    return;
  }
  if (in_block_) {
    block_ += text;
    // An unclosed box must not swallow what follows for ever.
    if (block_.size() > 8192) {
      shown += std::exchange(block_, {});
      in_block_ = false;
    }
    return;
  }
  bool repeats = repeats_an_end(text);
  if (bare.starts_with(kOurs)) {
    // Ranks agree on who speaks by a file in the run directory; where that cannot be written, all of them do.
    repeats = bare.substr(kOurs.size()) == last_message_;
    last_message_ = bare.substr(kOurs.size());
  }
  (repeats ? hidden : shown) += text;
}

void NoiseFilter::feed(std::string_view bytes, std::string& shown, std::string& hidden) {
  for (const char c : bytes) {
    partial_ += c;
    if (c == '\n' || c == '\r') line(std::exchange(partial_, {}), shown, hidden);
  }
}

void NoiseFilter::finish(std::string& shown, std::string& hidden) {
  if (!partial_.empty()) line(std::exchange(partial_, {}), shown, hidden);
  (has_any(block_, kBoxes) ? hidden : shown) += std::exchange(block_, {});
  in_block_ = false;
}

FilteredErrors::FilteredErrors(std::filesystem::path file) : file_(std::move(file)) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw RunError("cannot make a pipe: {}", std::strerror(errno));
  read_end_ = ends[0];
  write_end_ = ends[1];
  thread_ = std::thread([this] { pass_on(); });
}

FilteredErrors::~FilteredErrors() {
  finish();
  close(read_end_);
}

std::string FilteredErrors::finish() {
  close_write_end();
  if (thread_.joinable()) thread_.join();
  return filter_.last_message();
}

void FilteredErrors::close_write_end() {
  if (write_end_ >= 0) close(std::exchange(write_end_, -1));
}

void FilteredErrors::pass_on() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  int log = -1;
  const auto emit = [&](const std::string& shown, const std::string& hidden) {
    for (std::string_view rest = shown; !rest.empty();) {
      const ssize_t count = write(STDERR_FILENO, rest.data(), rest.size());
      if (count < 0 && errno != EINTR) break;
      if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
    }
    if (hidden.empty()) return;
    if (log < 0) log = open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log >= 0) (void)!write(log, hidden.data(), hidden.size());
  };
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t count = read(read_end_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    std::string shown, hidden;
    filter_.feed({buffer.data(), static_cast<std::size_t>(count)}, shown, hidden);
    emit(shown, hidden);
  }
  std::string shown, hidden;
  filter_.finish(shown, hidden);
  emit(shown, hidden);
  if (log >= 0) close(log);
}

}  // namespace railyard::launch
