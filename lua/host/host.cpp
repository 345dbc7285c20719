// The sandboxed Lua state: what a file sees beside the standard library, and how its errors are worded.
#include "lua/host/host.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "lua/host/bind.hpp"
#include "lua/host/convert.hpp"
#include "lua/host/embedded.hpp"
#include "lua/host/libraries.hpp"
#include "lua/schema/suggestion.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

constexpr int kHookInterval = 100;  // instructions between two looks at the meter
constexpr std::uintmax_t kLargestFile = std::uintmax_t{4} << 20;
constexpr char kBytecodeMark = '\x1b';

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

void stop_when_tripped(lua_State* L, lua_Debug*) {
  if (meter_of(L).charge(kHookInterval)) return;
  push_user_line(L);
  const std::string reason = meter_of(L).reason();
  push(L, reason);
  lua_concat(L, 2);
  lua_error(L);
}

// Message handler: makes any error value a text that begins with a place.
int word_error(lua_State* L) {
  if (lua_type(L, 1) != LUA_TSTRING) {
    if (luaL_callmeta(L, 1, "__tostring") == 0 || lua_type(L, -1) != LUA_TSTRING)
      lua_pushfstring(L, "error() was called with a %s", luaL_typename(L, 1));
    lua_replace(L, 1);
    lua_settop(L, 1);
  }
  if (lua_tostring(L, 1)[0] != '[') {
    push_user_line(L);
    lua_insert(L, 1);
    lua_concat(L, 2);
  }
  return 1;
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

class Host::State {
 public:
  explicit State(HostOptions options) : options_(std::move(options)), meter_(options_.limits) {
    L_.reset(lua_newstate(Meter::allocate, &meter_));
    if (!L_) throw RunError("out of host memory for Lua");
    meter_.on_refusal([this] { refused_line_ = user_line(); });
    protect([this] {
      open_libraries(lua());
      set_globals();
    });
    lua_sethook(lua(), stop_when_tripped, LUA_MASKCOUNT, kHookInterval);
  }

  Evaluation evaluate(const std::string& name, const std::string& text) {
    Evaluation result;
    result.preamble = split_preamble(text);
    sources_.push_back({name, text});
    protect([&] {
      set_arguments(name);
      push_chunk(result.preamble.lua, user_chunk_name(0));
      lua_call(lua(), 0, 1);
      check_returned();
      lua_setfield(lua(), LUA_REGISTRYINDEX, kReturned);
    });
    lua_getfield(lua(), LUA_REGISTRYINDEX, kReturned);
    result.value = to_json(lua(), -1, "");
    lua_pop(lua(), 1);
    result.call_line = call_line_;
    return result;
  }

  Json call(const std::string& key, const Json& argument) {
    meter_.restart();
    protect([&] {
      lua_getfield(lua(), LUA_REGISTRYINDEX, kReturned);
      lua_getfield(lua(), -1, key.c_str());
      push_json(lua(), argument);
      lua_call(lua(), 1, 1);
      lua_setfield(lua(), LUA_REGISTRYINDEX, kAnswer);
    });
    lua_getfield(lua(), LUA_REGISTRYINDEX, kAnswer);
    Json answer;
    try {
      answer = to_json(lua(), -1, key);
    } catch (const ValueError& error) {
      lua_settop(lua(), 0);
      throw UsageError("{}: the value returned by {}: {}: {}", sources_.front().name, key, printable(error.path()),
                       error.what());
    }
    lua_settop(lua(), 0);
    return answer;
  }

  [[nodiscard]] const std::vector<SourceText>& sources() const { return sources_; }
  [[nodiscard]] const std::map<std::string, std::optional<std::string>>& environment_read() const {
    return environment_read_;
  }

 private:
  static constexpr const char* kReturned = "railyard.returned";
  static constexpr const char* kAnswer = "railyard.answer";
  static constexpr const char* kLoaded = "railyard.loaded";

  struct Closer {
    void operator()(lua_State* L) const { lua_close(L); }
  };

  [[nodiscard]] lua_State* lua() const { return L_.get(); }

  static State& of(lua_State* L) { return *static_cast<State*>(lua_touserdata(L, lua_upvalueindex(1))); }

  static std::string user_chunk_name(std::size_t source) { return fmt::format("[chunk {}]", source); }

  // Runs `body` in protected mode. Lua's errors become UsageError; C++ exceptions of `body` come out as they are.
  template <class Body>
  void protect(Body body) {
    struct Call {
      Body& body;
      std::exception_ptr failure;
    } call{body, nullptr};
    refused_line_ = 0;
    lua_settop(lua(), 0);
    lua_pushcfunction(lua(), word_error);
    lua_pushcfunction(lua(), [](lua_State* L) {
      auto& inner = *static_cast<Call*>(lua_touserdata(L, 1));
      lua_settop(L, 0);
      try {
        inner.body();
        return 0;
      } catch (const std::exception&) {
        inner.failure = std::current_exception();
      }
      lua_pushliteral(L, "[C++]");
      return lua_error(L);
    });
    lua_pushlightuserdata(lua(), &call);
    const int status = lua_pcall(lua(), 1, 0, 1);
    if (call.failure) std::rethrow_exception(call.failure);
    if (status != LUA_OK) fail(status);
    lua_settop(lua(), 0);
  }

  [[noreturn]] void fail(int status) {
    if (status == LUA_ERRMEM) meter_.trip_memory();
    std::string message = "the error could not be told";
    if (lua_type(lua(), -1) == LUA_TSTRING) message = lua_tostring(lua(), -1);
    lua_settop(lua(), 0);
    const std::string& file = sources_.empty() ? options_.constructor : sources_.front().name;
    if (meter_.tripped()) {
      // The text may be "not enough memory" or come from a handler that was cut short; the place is what we want of it.
      const std::size_t end = message.starts_with("[chunk") ? message.find(": ") : std::string::npos;
      const std::string place = end != std::string::npos ? message.substr(0, end)
                                : refused_line_ > 0
                                    ? fmt::format("{}:{}", user_chunk_name(refused_source_), refused_line_)
                                    : file;
      throw UsageError("{}: {}", with_names(place), meter_.reason());
    }
    message = with_names(message);
    const bool placed = std::any_of(sources_.begin(), sources_.end(),
                                    [&](const SourceText& source) { return message.starts_with(source.name + ":"); });
    throw UsageError(placed ? message : fmt::format("{}: {}", file, message));
  }

  // Lua cuts long file names, so chunks have short names of ours; here they get their own back.
  [[nodiscard]] std::string with_names(std::string message) const {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const std::string chunk = user_chunk_name(i);
      for (std::size_t at = 0; (at = message.find(chunk, at)) != std::string::npos; at += sources_[i].name.size())
        message.replace(at, chunk.size(), sources_[i].name);
    }
    return message;
  }

  // The innermost line of a file of the user's; called from the allocator, so it must not allocate.
  int user_line() {
    lua_Debug frame;
    for (int level = 0; lua_getstack(lua(), level, &frame) != 0; ++level) {
      lua_getinfo(lua(), "Sl", &frame);
      if (frame.currentline <= 0 || std::sscanf(frame.source, "=[chunk %zu]", &refused_source_) != 1) continue;
      return frame.currentline;
    }
    return 0;
  }

  void push_chunk(std::string_view text, const std::string& name) {
    if (luaL_loadbufferx(lua(), text.data(), text.size(), ("=" + name).c_str(), "t") != LUA_OK) lua_error(lua());
  }

  void check_returned() {
    const char* constructor = options_.constructor.c_str();
    lua_getfield(lua(), LUA_REGISTRYINDEX, kReturned);
    const bool called = lua_type(lua(), -1) == LUA_TTABLE;
    const bool same = called && lua_rawequal(lua(), -1, -2) != 0;
    lua_pop(lua(), 1);
    if (same) return;
    const std::string& file = sources_.front().name;
    if (called && lua_isnil(lua(), -1))
      throw UsageError("{}:{}: the table of {} is made but not returned; write `return {} {{ ... }}`", file, call_line_,
                       constructor, constructor);
    throw UsageError("{}: returns {} instead of a {}; the file must end with `return {} {{ ... }}`", file,
                     lua_isnil(lua(), -1) ? "nothing" : fmt::format("a {}", luaL_typename(lua(), -1)), constructor,
                     constructor);
  }

  void set_closure(lua_CFunction function, const char* name) {
    lua_pushlightuserdata(lua(), this);
    lua_pushcclosure(lua(), function, 1);
    lua_setfield(lua(), -2, name);
  }

  void set_globals() {
    lua_pushglobaltable(lua());
    set_closure(bound<print>, "print");
    set_closure(bound<require>, "require");
    set_closure(bound<construct>, options_.constructor.c_str());
    lua_newtable(lua());
    lua_newtable(lua());
    set_closure(bound<environment>, "__index");
    set_closure(bound<set_environment>, "__newindex");
    lua_pushliteral(lua(), "the environment");
    lua_setfield(lua(), -2, "__metatable");
    lua_setmetatable(lua(), -2);
    lua_setfield(lua(), -2, "env");
    lua_newtable(lua());
    lua_setfield(lua(), LUA_REGISTRYINDEX, kLoaded);
    lua_settop(lua(), 0);
    make_globals_strict(lua());
  }

  void set_arguments(const std::string& name) {
    lua_newtable(lua());
    push(lua(), name);
    lua_rawseti(lua(), -2, 0);
    for (std::size_t i = 0; i < options_.arguments.size(); ++i) {
      push(lua(), options_.arguments[i]);
      lua_rawseti(lua(), -2, static_cast<lua_Integer>(i) + 1);
    }
    lua_setglobal(lua(), "arg");
  }

  static int print(lua_State* L) {
    State& self = of(L);
    std::string line;
    for (int i = 1; i <= lua_gettop(L); ++i) {
      luaL_tolstring(L, i, nullptr);
      const std::string_view text = check_text(L, -1);
      self.meter_.require(static_cast<std::int64_t>(text.size()) + 1000);
      self.meter_.require_memory(line.size() + text.size());
      if (i > 1) line += '\t';
      line += text;
      lua_pop(L, 1);
    }
    if (self.options_.print) {
      self.options_.print(line);
    } else {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
    return 0;
  }

  static int environment(lua_State* L) {
    State& self = of(L);
    luaL_checktype(L, 2, LUA_TSTRING);
    const std::string name(check_text(L, 2));
    if (name.find_first_of(std::string_view("=\0", 2)) != std::string::npos)
      throw std::invalid_argument("env: \"" + printable(name) + "\" is no name of an environment variable");
    auto [entry, fresh] = self.environment_read_.try_emplace(name);
    if (fresh) entry->second = self.options_.environment(name);
    if (!entry->second) return 0;
    push(L, *entry->second);
    return 1;
  }

  static int set_environment(lua_State*) {
    throw std::invalid_argument("env can only be read; run.setenv sets variables of the ranks");
  }

  static int construct(lua_State* L) {
    State& self = of(L);
    const std::string& name = self.options_.constructor;
    if (lua_type(L, 1) != LUA_TTABLE || lua_gettop(L) != 1)
      return luaL_error(L, "%s takes one table: %s { ... }", name.c_str(), name.c_str());
    lua_getfield(L, LUA_REGISTRYINDEX, kReturned);
    if (lua_type(L, -1) == LUA_TTABLE)
      return luaL_error(L, "%s is called twice; a file describes one %s", name.c_str(), name.c_str());
    lua_pop(L, 1);
    lua_Debug frame;
    if (lua_getstack(L, 1, &frame) != 0) {
      lua_getinfo(L, "l", &frame);
      self.call_line_ = std::max(frame.currentline, 0);
    }
    lua_pushvalue(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, kReturned);
    return 1;
  }

  static int require(lua_State* L) {
    State& self = of(L);
    const std::string name(check_text(L, 1));
    lua_getfield(L, LUA_REGISTRYINDEX, kLoaded);
    if (lua_getfield(L, -1, name.c_str()) != LUA_TNIL) {
      if (lua_islightuserdata(L, -1) != 0) return luaL_error(L, "require \"%s\": it requires itself", name.c_str());
      return 1;
    }
    lua_pop(L, 1);
    lua_pushlightuserdata(L, &self);  // marks it as being loaded
    lua_setfield(L, -2, name.c_str());
    self.push_module(L, name);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 1);
    }
    if (name.starts_with("railyard.") && lua_type(L, -1) == LUA_TTABLE) make_strict(L, name.c_str());
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, name.c_str());
    return 1;
  }

  void push_module(lua_State* L, const std::string& name) {
    if (name.starts_with("railyard.")) {
      const auto text = embedded_text("railyard/" + name.substr(9) + ".lua");
      if (!text) throw std::invalid_argument(unknown_module(name));
      if (luaL_loadbufferx(L, text->data(), text->size(), ("=[" + name + "]").c_str(), "t") != LUA_OK) lua_error(L);
      return;
    }
    const std::filesystem::path path = module_path(name);
    std::string text = split_preamble(read_lua_file(path)).lua;
    sources_.push_back({path.lexically_normal().string(), text});
    push_chunk(text, user_chunk_name(sources_.size() - 1));
  }

  static std::string unknown_module(const std::string& name) {
    std::vector<std::string> known;
    for (const EmbeddedFile& file : embedded_files())
      if (file.name.starts_with("railyard/"))
        known.push_back("railyard." + std::string(file.name.substr(9, file.name.size() - 13)));
    const auto near = nearest_name(name, known);
    return fmt::format("require: there is no module \"{}\"{}", printable(name),
                       near ? "; did you mean " + *near + "?" : "");
  }

  [[nodiscard]] std::filesystem::path module_path(const std::string& name) const {
    std::filesystem::path relative;
    for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
      end = name.find('.', start);
      const std::string part = name.substr(start, end == std::string::npos ? end : end - start);
      if (!is_name(part))
        throw std::invalid_argument(fmt::format(
            "require: \"{}\" is no module name; \"common\" or \"folder.common\" names a file beside this one",
            printable(name)));
      relative /= part;
    }
    relative += ".lua";
    std::string tried;
    for (const auto& folder : options_.module_folders) {
      std::error_code ignored;
      if (std::filesystem::exists(folder / relative, ignored)) return folder / relative;
      tried += (tried.empty() ? "" : ", ") + (folder / relative).lexically_normal().string();
    }
    throw std::invalid_argument(
        fmt::format("require \"{}\": there is no file {}", name, tried.empty() ? relative.string() : tried));
  }

  HostOptions options_;
  Meter meter_;
  std::vector<SourceText> sources_;
  std::map<std::string, std::optional<std::string>> environment_read_;
  int call_line_ = 0;
  int refused_line_ = 0;  // where memory was last refused
  std::size_t refused_source_ = 0;
  std::unique_ptr<lua_State, Closer> L_;
};

Host::Host(HostOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Host::~Host() = default;
Host::Host(Host&&) noexcept = default;
Host& Host::operator=(Host&&) noexcept = default;

Evaluation Host::evaluate(const std::string& name, const std::string& text) { return state_->evaluate(name, text); }
Json Host::call(const std::string& key, const Json& argument) { return state_->call(key, argument); }
const std::vector<SourceText>& Host::sources() const { return state_->sources(); }
const std::map<std::string, std::optional<std::string>>& Host::environment_read() const {
  return state_->environment_read();
}

std::string read_lua_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw UsageError("{}: there is no such file", path.string());
  if (status.type() == std::filesystem::file_type::directory)
    throw UsageError("{}: is a folder, not a Lua file", path.string());
  if (error) throw UsageError("{}: cannot read: {}", path.string(), error.message());
  if (status.type() != std::filesystem::file_type::regular) throw UsageError("{}: is no plain file", path.string());
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw UsageError("{}: cannot read: {}", path.string(), error.message());
  if (size > kLargestFile)
    throw UsageError("{}: has {} bytes, more than a Lua file may have ({})", path.string(), size, kLargestFile);
  std::string text = read_file(path);
  if (text.starts_with(kBytecodeMark))
    throw UsageError("{}: is compiled Lua (bytecode); give the source text", path.string());
  return text;
}

}  // namespace railyard::lua
