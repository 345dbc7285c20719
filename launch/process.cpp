// Starts, reads and supervises child processes.
#include "launch/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"

extern char** environ;

namespace railyard::launch {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Arguments and environment as exec wants them, made before the fork: a child may only call async-signal-safe
// functions.
class ExecImage {
 public:
  ExecImage(const std::vector<std::string>& command, const Environment* environment) : words_(command) {
    for (auto& word : words_) argv_.push_back(word.data());
    argv_.push_back(nullptr);
    if (environment != nullptr) {
      for (const auto& [name, value] : *environment) lines_.push_back(name + "=" + value);
      for (auto& line : lines_) envp_.push_back(line.data());
      envp_.push_back(nullptr);
    }
  }
  [[noreturn]] void exec() {
    execvpe(argv_[0], argv_.data(), envp_.empty() ? environ : envp_.data());
    constexpr char text[] = "railyard: cannot start the program ";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)!write(STDERR_FILENO, argv_[0], std::strlen(argv_[0]));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(127);
  }

 private:
  std::vector<std::string> words_, lines_;
  std::vector<char*> argv_, envp_;
};

void reset_signals_in_child() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGPIPE, SIGCHLD}) std::signal(number, SIG_DFL);
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw RunError("cannot make a pipe: {}", std::strerror(errno));
    read_end = ends[0];
    write_end = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_read();
    close_write();
  }
  void close_read() {
    if (read_end >= 0) close(std::exchange(read_end, -1));
  }
  void close_write() {
    if (write_end >= 0) close(std::exchange(write_end, -1));
  }
};

const std::array<int, 4> kStopSignals = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kStopSignals) sigaddset(&set, number);
  sigaddset(&set, SIGCHLD);
  return set;
}

}  // namespace

Environment current_environment() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const auto equals = line.find('=');
    if (equals != std::string::npos && equals > 0) result[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return result;
}

std::optional<std::string> environment_value(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<long> environment_number(const char* name) {
  const auto text = environment_value(name);
  if (!text) return std::nullopt;
  long value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size())
    throw UsageError("the environment variable {} is \"{}\", not a whole number", name, *text);
  return value;
}

CommandResult run_command(const std::vector<std::string>& command, double timeout, const Environment* environment,
                          const std::string& input) {
  ExecImage image(command, environment);
  Pipe in, out, err;
  const pid_t pid = fork();
  if (pid < 0) throw RunError("cannot start {}: {}", command.at(0), std::strerror(errno));
  if (pid == 0) {
    reset_signals_in_child();
    dup2(in.read_end, STDIN_FILENO);
    dup2(out.write_end, STDOUT_FILENO);
    dup2(err.write_end, STDERR_FILENO);
    image.exec();
  }
  in.close_read();
  out.close_write();
  err.close_write();
  fcntl(in.write_end, F_SETFL, O_NONBLOCK);

  CommandResult result;
  const auto start = Clock::now();
  std::size_t written = 0;
  const auto read_some = [](Pipe& pipe, std::string& text) {
    std::array<char, 65536> buffer;
    const ssize_t count = read(pipe.read_end, buffer.data(), buffer.size());
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) pipe.close_read();
  };
  // A program that closes its input early must not end us.
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  while (out.read_end >= 0 || err.read_end >= 0) {
    if (written == input.size()) in.close_write();
    std::array<pollfd, 3> wanted = {pollfd{out.read_end, POLLIN, 0}, pollfd{err.read_end, POLLIN, 0},
                                    pollfd{in.write_end, POLLOUT, 0}};
    const double left = timeout - seconds_since(start);
    if (left <= 0) break;
    if (poll(wanted.data(), wanted.size(), static_cast<int>(left * 1000) + 1) < 0 && errno != EINTR) break;
    if (wanted[0].revents != 0) read_some(out, result.output);
    if (wanted[1].revents != 0) read_some(err, result.errors);
    if (wanted[2].revents != 0) {
      const ssize_t count = write(in.write_end, input.data() + written, input.size() - written);
      if (count > 0) written += static_cast<std::size_t>(count);
      if (count < 0 && errno != EAGAIN && errno != EINTR) in.close_write();
    }
  }
  sigaction(SIGPIPE, &before, nullptr);
  if (out.read_end >= 0 || err.read_end >= 0) {
    result.timed_out = true;
    kill(pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = exit_code_of(status);
  return result;
}

std::optional<std::string> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/usr/bin:/bin";
  while (true) {
    const auto colon = rest.find(':');
    const std::string folder = rest.substr(0, colon);
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string::npos) return std::nullopt;
    rest.erase(0, colon + 1);
  }
}

Child::Child(const std::vector<std::string>& command, const Environment& environment, int errors) {
  ExecImage image(command, &environment);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw RunError("cannot start {}: {}", command.at(0), std::strerror(errno));
  if (pid_ == 0) {
    reset_signals_in_child();
    setpgid(0, 0);  // a terminal's Ctrl-C then reaches us alone, and we ask the ranks to save first
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (errors >= 0) dup2(errors, STDERR_FILENO);
    if (getppid() != parent) _exit(127);
    image.exec();
  }
}

Child::~Child() {
  if (poll()) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> Child::poll() {
  if (status_) return status_;
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == pid_) status_ = exit_code_of(status);
  if (ended < 0 && errno == ECHILD) status_ = 127;
  return status_;
}

void Child::signal(int number) const {
  if (!status_) kill(pid_, number);
}

SignalWatch::SignalWatch() {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatch::~SignalWatch() {
  while (wait(0) != 0) {
    // one that came after the end must not turn our exit code into a death by signal
  }
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int SignalWatch::wait(double seconds) {
  const sigset_t set = watched_signals();
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(seconds);
  timeout.tv_nsec = static_cast<long>((seconds - static_cast<double>(timeout.tv_sec)) * 1e9);
  const int number = sigtimedwait(&set, nullptr, &timeout);
  return number > 0 ? number : 0;
}

}  // namespace railyard::launch
