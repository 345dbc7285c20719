// Errors that a user reads: one message with the place, what is wrong and the remedy; the exit code follows the kind.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace railyard {

// Exit codes of the program, a contract (see docs/users.md).
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,    // failed at run time
  kExitUsage = 2,     // bad usage or input: anything that could be known before step 0
  kExitStopped = 75,  // stopped early with a checkpoint
};

// Base of all errors meant for the user's eyes; `what()` is the whole message.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  [[nodiscard]] ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

// Bad usage or input (exit 2).
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(kExitUsage, message) {}
  template <class... Args>
  requires(sizeof...(Args) > 0) explicit UsageError(fmt::format_string<Args...> format, Args&&... args)
      : Error(kExitUsage, fmt::format(format, std::forward<Args>(args)...)) {}
};

// A failure at run time (exit 1).
class RunError : public Error {
 public:
  explicit RunError(const std::string& message) : Error(kExitFailed, message) {}
  template <class... Args>
  requires(sizeof...(Args) > 0) explicit RunError(fmt::format_string<Args...> format, Args&&... args)
      : Error(kExitFailed, fmt::format(format, std::forward<Args>(args)...)) {}
};

// A broken invariant of the program itself; reaching it is a defect of ours, not of the user.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);

}  // namespace railyard

#define RAILYARD_CHECK(condition, ...)                                                         \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::railyard::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (0)
