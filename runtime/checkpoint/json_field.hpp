// Typed access to a value of a JSON document whose writer is not trusted: a wrong type is an error with its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"

namespace railyard {

// A view: document and source must outlive it. Errors are UsageErrors "SOURCE: PLACE: what is wrong".
class JsonField {
 public:
  JsonField(const Json& json, std::string path, const std::string& source)
      : json_(json), path_(std::move(path)), source_(source) {}

  // Whether the table has the key with a value other than null.
  [[nodiscard]] bool has(const char* key) const {
    if (!json_.is_object()) fail("expected a table");
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }
  [[nodiscard]] JsonField at(const char* key) const {
    if (!json_.is_object()) fail("expected a table");
    const auto found = json_.find(key);
    if (found == json_.end()) fail(fmt::format("lacks \"{}\"", key));
    return {*found, path_.empty() ? key : path_ + "." + key, source_};
  }
  [[nodiscard]] std::int64_t integer(std::int64_t minimum = 0, std::int64_t maximum = INT64_MAX) const {
    if (!json_.is_number_integer()) fail("expected an integer");
    if (json_.is_number_unsigned() && json_.get<std::uint64_t>() > INT64_MAX) fail("the number is too large");
    const auto value = json_.get<std::int64_t>();
    if (value < minimum) fail(fmt::format("expected at least {}", minimum));
    if (value > maximum) fail(fmt::format("expected at most {}", maximum));
    return value;
  }
  [[nodiscard]] double number() const {
    if (!json_.is_number()) fail("expected a number");
    return json_.get<double>();
  }
  [[nodiscard]] bool boolean() const {
    if (!json_.is_boolean()) fail("expected true or false");
    return json_.get<bool>();
  }
  [[nodiscard]] std::string string() const {
    if (!json_.is_string()) fail("expected a string");
    return json_.get<std::string>();
  }
  [[nodiscard]] std::vector<std::int64_t> integers() const {
    if (!json_.is_array()) fail("expected a list");
    std::vector<std::int64_t> out;
    out.reserve(json_.size());
    for (const Json& item : json_) out.push_back(JsonField(item, path_, source_).integer());
    return out;
  }

  // With a default for a key that is absent or null.
  [[nodiscard]] std::int64_t integer_or(const char* key, std::int64_t fallback, std::int64_t minimum = 0) const {
    return has(key) ? at(key).integer(minimum) : fallback;
  }
  [[nodiscard]] double number_or(const char* key, double fallback) const {
    return has(key) ? at(key).number() : fallback;
  }
  [[nodiscard]] bool boolean_or(const char* key, bool fallback) const {
    return has(key) ? at(key).boolean() : fallback;
  }
  [[nodiscard]] std::string string_or(const char* key, const std::string& fallback) const {
    return has(key) ? at(key).string() : fallback;
  }

  [[nodiscard]] const Json& json() const { return json_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError("{}: {}{}{}", source_, path_, path_.empty() ? "" : ": ", what);
  }

 private:
  const Json& json_;
  std::string path_;
  const std::string& source_;
};

}  // namespace railyard
