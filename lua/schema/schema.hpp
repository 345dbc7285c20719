// A schema is one list of keys: each with its kind, range or choices, default, and whether its feature is built.
// Checking a document against it gives the document with every key filled in, or findings that name the key.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard::lua {

// Something wrong with the value at `path` ("train.lr.peak"; empty: the document).
struct Finding {
  std::string path;
  std::string message;
};

enum class Kind {
  kBoolean,
  kInteger,
  kNumber,
  kDuration,
  kBytes,
  kText,
  kIntegers,
  kNumbers,
  kTexts,
  kTextMap,
  kTable,
  kTables,
  kFunction
};

enum class Built {
  kYes,
  kDefaultOnly,  // known, but only its default works so far
  kNo,           // known, but there is nothing to set yet: any value is refused and the key is not in the result
};

// One key. The functions change and return it, so that a schema reads as a table.
struct Key {
  std::string path;  // dotted; keys of list items are written "data.train[].path"
  Kind kind = Kind::kText;
  std::string help;
  Json fallback;  // the default; null: none
  bool needed = false;
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above_least = false;                                                         // least itself is not allowed
  std::size_t least_size = 0, most_size = std::numeric_limits<std::size_t>::max();  // of lists
  std::vector<std::string> choices, later_choices;                                  // later: known but not built
  std::vector<std::pair<std::string, Json>> words;                                  // "fill" stands for 0
  std::string text_key;                               // of a table: a text stands for a table with this key
  std::function<Json(const Json& document)> derived;  // default from the other keys
  std::string derived_help;                           // how help shows it
  Built built = Built::kYes;

  Key required() &&;
  Key value(Json fallback) &&;
  Key range(double least, double most = std::numeric_limits<double>::infinity()) &&;
  Key above(double least) &&;
  Key below_or_at(double most) &&;
  Key sizes(std::size_t least, std::size_t most) &&;
  Key one_of(std::vector<std::string> choices, std::vector<std::string> later = {}) &&;
  Key word(std::string word, Json value) &&;
  Key text_for(std::string key) &&;
  Key derive(std::string help, std::function<Json(const Json&)> from) &&;
  Key not_built() &&;      // Built::kDefaultOnly
  Key nothing_built() &&;  // Built::kNo
};

Key boolean(std::string path, std::string help);  // default false
Key integer(std::string path, std::string help);
Key number(std::string path, std::string help);
Key duration(std::string path, std::string help);  // seconds, or "10 min", "2 h", "1-12:00:00"
Key bytes(std::string path, std::string help);     // a number, or "2 TiB", "80 GB"
Key text(std::string path, std::string help);      // default ""
Key integers(std::string path, std::string help);  // default {}
Key numbers(std::string path, std::string help);
Key texts(std::string path, std::string help);
Key text_map(std::string path, std::string help);        // default {}
Key table(std::string path, std::string help);           // always present, filled from its keys
Key optional_table(std::string path, std::string help);  // null where absent
Key tables(std::string path, std::string help);          // a list of tables; one table or text counts as a list of one
Key function(std::string path, std::string help);        // true where present

struct CheckOptions {
  bool require_built = true;  // refuse what is known but not built (Built::kDefaultOnly and later choices)
};

class Schema {
 public:
  // Explains a key that is not in the schema, beyond the nearest name: "Megatron's micro-batch-size is
  // train.micro_batch here".
  using Foreign = std::function<std::optional<std::string>(const std::string& key)>;

  // The order of `keys` is the order of the result. Tables must be declared before their keys.
  explicit Schema(std::vector<Key> keys, Foreign foreign = {});
  Schema(const Schema&) = delete;  // nodes point into keys
  Schema& operator=(const Schema&) = delete;

  // The whole document for what was `given`. Appends what is wrong to `findings`; the result is complete only when
  // nothing was appended.
  [[nodiscard]] Json check(const Json& given, const CheckOptions& options, std::vector<Finding>& findings) const;

  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }

 private:
  struct Node {
    const Key* key = nullptr;                                   // null at the root
    std::vector<std::pair<std::string, std::size_t>> children;  // name, index into nodes_
  };
  class Check;

  [[nodiscard]] std::string unknown_key(const std::string& path, const std::string& name, const Node& table) const;

  std::vector<Key> keys_;
  std::vector<Node> nodes_;
  Foreign foreign_;
};

// Reads a duration in seconds or a number of bytes; nothing when it is none.
std::optional<double> parse_duration(const std::string& text);
std::optional<double> parse_bytes(const std::string& text);

// How a value is told in a message: 4.5, "four", a list, a function.
std::string told(const Json& value);

}  // namespace railyard::lua
