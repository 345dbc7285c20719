// Evaluates a Lua settings file once in a sandbox: no access to the system, limits on instructions, memory and time,
// and every error as one line "file:line: what". After evaluation the state stays alive, so that hooks can be called.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lua/host/meter.hpp"
#include "lua/source/preamble.hpp"
#include "runtime/base/json.hpp"

namespace railyard::lua {

// Gives an environment variable, or nothing where it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The environment of this process.
EnvironmentLookup process_environment();

struct HostOptions {
  std::string constructor;  // "job" or "site": the function whose table the file must return
  Limits limits;
  EnvironmentLookup environment = process_environment();
  std::vector<std::string> arguments;                 // the global `arg`; arg[0] is the file
  std::vector<std::filesystem::path> module_folders;  // where `require` looks for files
  std::function<void(std::string_view line)> print;   // takes what print() says; empty: standard error
};

// A text that took part: the file itself, and those that it required from beside it.
struct SourceText {
  std::string name;  // as it is shown in messages
  std::string text;
};

struct Evaluation {
  Json value;         // the returned table; functions are empty binary values
  int call_line = 0;  // of the call of the constructor
  Preamble preamble;
};

class Host {
 public:
  explicit Host(HostOptions options);
  ~Host();
  Host(Host&&) noexcept;
  Host& operator=(Host&&) noexcept;

  // Runs `text`, shown as `name` in messages. Once per host. UsageError for everything that is wrong with the file;
  // ValueError (lua/host/convert.hpp) for a value that cannot be a setting.
  Evaluation evaluate(const std::string& name, const std::string& text);

  // Calls a function of the returned table, found by its key, with `argument`. Null when it returns nothing. UsageError
  // names file, line and `key`; the limits hold for each call anew.
  Json call(const std::string& key, const Json& argument);

  // The file and those that it required from beside it, in that order.
  [[nodiscard]] const std::vector<SourceText>& sources() const;

  // Environment variables that were read, with what they were.
  [[nodiscard]] const std::map<std::string, std::optional<std::string>>& environment_read() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

// The text of a settings file. UsageError where there is none to be had: missing, a folder, no plain file, too large,
// compiled Lua.
std::string read_lua_file(const std::filesystem::path& path);

}  // namespace railyard::lua
