// Child processes of the launcher: run one and read what it says, or supervise a long one while signals arrive.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace railyard::launch {

using Environment = std::map<std::string, std::string>;

// This process's environment.
Environment current_environment();
// A variable of this process; nothing when it is unset or empty.
std::optional<std::string> environment_value(const char* name);
// The same as a whole number; UsageError when it is set and is none.
std::optional<long> environment_number(const char* name);

struct CommandResult {
  int status = 0;          // exit code; 128 + signal when killed; 127 when it could not be started
  bool timed_out = false;  // killed by us after the time-out
  std::string output;      // standard output
  std::string errors;      // standard error
};

// Runs `command` (found by PATH) to its end, its standard input empty. After `timeout` seconds it is killed. RunError
// only when no process can be made.
CommandResult run_command(const std::vector<std::string>& command, double timeout,
                          const Environment* environment = nullptr, const std::string& input = {});

// Whether a program is found on PATH; its path.
std::optional<std::string> find_program(const std::string& name);

// A process of its own process group that shares our standard streams and is killed when this process dies.
class Child {
 public:
  // `errors` (a descriptor) becomes its standard error; -1: ours.
  Child(const std::vector<std::string>& command, const Environment& environment, int errors = -1);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();  // kills it when it still runs

  // Its exit code (128 + signal when killed), once it has ended.
  std::optional<int> poll();
  void signal(int number) const;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// Signals that ask for an early end (SIGINT, SIGTERM, SIGUSR1, SIGHUP), held back in this thread from construction to
// destruction and taken by wait(). Made before any thread, so that every thread holds them back.
class SignalWatch {
 public:
  SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch();
  // The next such signal or SIGCHLD within `seconds`, else 0.
  int wait(double seconds);
};

}  // namespace railyard::launch
