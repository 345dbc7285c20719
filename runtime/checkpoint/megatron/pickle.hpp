// Reads Python pickles as inert data: no name in them is ever looked up, no call is made. Names that are not on the
// caller's allow-list are refused, or become opaque, so that a hostile file is at worst an error.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace railyard {

struct PickleNode {
  enum class Kind {
    kNone,
    kBool,
    kInteger,
    kFloat,
    kString,
    kBytes,
    kTuple,       // items
    kList,        // items; sets, too
    kDict,        // items: key, value, key, value, ...
    kGlobal,      // text: "module name"
    kCall,        // items: what is called, its arguments; `state` what BUILD gave it
    kPersistent,  // items: the persistent identifier
    kOpaque,      // a name that is not allowed, or a number beyond 64 bits
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // also of a bool
  double number = 0.0;
  std::string text;
  std::vector<const PickleNode*> items;
  const PickleNode* state = nullptr;

  // The value of a string key of a dict, or of an object's attributes (its state, or the second half of a pair of
  // states); nullptr when it is not there.
  [[nodiscard]] const PickleNode* find(std::string_view key) const;
  // Whether it is a call of the global "module name".
  [[nodiscard]] bool is_call(std::string_view global) const;
  // Checked access; UsageError naming `what`.
  [[nodiscard]] std::int64_t to_integer(const std::string& what) const;
  [[nodiscard]] const std::string& to_string(const std::string& what) const;
  // The integers of a tuple, a list, or a torch.Size.
  [[nodiscard]] std::vector<std::int64_t> to_integers(const std::string& what) const;
};

// A parsed pickle; owns its nodes, which may refer to each other in circles.
class Pickle {
 public:
  enum class Unknown { kRefuse, kOpaque };
  // UsageError, beginning with `source`: not a pickle of protocol 2 to 5, an operation that data does not need, or a
  // name that `allowed` ("module name") denies and `unknown` refuses.
  Pickle(std::span<const std::byte> data, const std::string& source,
         const std::function<bool(std::string_view)>& allowed, Unknown unknown);

  [[nodiscard]] const PickleNode& root() const { return *root_; }

 private:
  class Machine;
  std::deque<PickleNode> nodes_;
  const PickleNode* root_ = nullptr;
};

}  // namespace railyard
