// Large JSON files of vocabularies, by simdjson.
#pragma once

#include <simdjson.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace railyard::data {

// A parsed file. Elements refer into it.
class JsonFile {
 public:
  // UsageError when it cannot be read or is not JSON.
  explicit JsonFile(const std::filesystem::path& path) : name_(path.string()) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) throw UsageError("{}: cannot read: expected a file", name_);
    if (const auto code = parser_.load(name_).get(root_))
      throw UsageError("{}: not valid JSON: {}", name_, simdjson::error_message(code));
  }
  [[nodiscard]] simdjson::dom::element root() const { return root_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Runs `use` and turns what simdjson throws (a missing key, another type) into a UsageError about `what`.
  template <class Use>
  auto checked(const char* what, const Use& use) const {
    try {
      return use();
    } catch (const simdjson::simdjson_error& error) {
      throw UsageError("{}: {}: {}", name_, what, error.what());
    }
  }

 private:
  std::string name_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

// Member `key` of an object as T, or `otherwise` when it is missing or null.
template <class T>
T json_or(simdjson::dom::element object, std::string_view key, T otherwise) {
  simdjson::dom::element value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return otherwise;
  return T(value.get<T>().value());
}

// An object or a list by value, as a range-for needs it; simdjson_error when it is something else.
inline simdjson::dom::object json_object(simdjson::dom::element value) { return value.get_object().value(); }
inline simdjson::dom::array json_array(simdjson::dom::element value) { return value.get_array().value(); }

// The member, or nothing when it is missing or null.
inline bool json_member(simdjson::dom::element object, std::string_view key, simdjson::dom::element& value) {
  return object.at_key(key).get(value) == simdjson::SUCCESS && !value.is_null();
}

}  // namespace railyard::data
