// The pickle machine, without the parts that run code.
#include "runtime/checkpoint/megatron/pickle.hpp"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "runtime/base/error.hpp"

namespace railyard {

using Kind = PickleNode::Kind;

class Pickle::Machine {
 public:
  Machine(std::deque<PickleNode>& nodes, std::span<const std::byte> data, const std::string& source,
          const std::function<bool(std::string_view)>& allowed, Unknown unknown)
      : nodes_(nodes), data_(data), source_(source), allowed_(allowed), unknown_(unknown) {}

  const PickleNode* run() {
    if (byte() != 0x80) fail("does not begin as a pickle");
    if (const unsigned protocol = byte(); protocol < 2 || protocol > 5) fail("an unknown protocol");
    while (true) {
      const unsigned opcode = byte();
      if (opcode == '.') return pop();
      if (!push_value(opcode) && !build_container(opcode) && !use_memo(opcode) && !make_object(opcode))
        fail(fmt::format("the operation 0x{:02x} is not one that data needs", opcode));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError("{}: cannot be read as a pickle: byte {}: {}", source_, position_, what);
  }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > data_.size() - position_) fail("the data ends too early");
    const auto out = data_.subspan(position_, count);
    position_ += count;
    return out;
  }
  unsigned byte() { return std::to_integer<unsigned>(take(1)[0]); }
  std::uint64_t little(std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(bytes).data(), bytes);
    return value;
  }
  std::string text(std::uint64_t size) {
    const auto bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string line() {
    std::string out;
    while (true) {
      const unsigned next = byte();
      if (next == '\n') return out;
      out += static_cast<char>(next);
    }
  }

  PickleNode* node(Kind kind) {
    nodes_.emplace_back().kind = kind;
    return &nodes_.back();
  }
  PickleNode* push(Kind kind) {
    stack_.push_back(node(kind));
    return stack_.back();
  }
  void push_text(Kind kind, std::uint64_t size) { push(kind)->text = text(size); }
  void push_integer(Kind kind, std::int64_t value) { push(kind)->integer = value; }

  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleNode* pop() {
    if (stack_.size() <= floor()) fail("the stack is empty");
    PickleNode* top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleNode* top() {
    if (stack_.size() <= floor()) fail("the stack is empty");
    return stack_.back();
  }
  std::vector<const PickleNode*> pop_to_mark() {
    if (marks_.empty()) fail("there is no mark");
    std::vector<const PickleNode*> out(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  PickleNode* expect_top(Kind kind) {
    PickleNode* found = top();
    // What a refused name would have made takes no content.
    if (found->kind != kind && found->kind != Kind::kCall && found->kind != Kind::kOpaque) fail("the wrong container");
    return found;
  }

  void push_long(std::uint64_t bytes) {
    const auto digits = take(bytes);
    if (bytes > 8) {
      push(Kind::kOpaque);
      return;
    }
    std::int64_t value = 0;
    if (bytes > 0) {
      std::memcpy(&value, digits.data(), bytes);
      const int shift = static_cast<int>(64 - 8 * bytes);
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << shift) >> shift;
    }
    push_integer(Kind::kInteger, value);
  }

  bool push_value(unsigned opcode) {
    switch (opcode) {
      case 'N':
        push(Kind::kNone);
        return true;
      case 0x88:
        push_integer(Kind::kBool, 1);
        return true;
      case 0x89:
        push_integer(Kind::kBool, 0);
        return true;
      case 'J':
        push_integer(Kind::kInteger, static_cast<std::int32_t>(little(4)));
        return true;
      case 'K':
        push_integer(Kind::kInteger, static_cast<std::int64_t>(little(1)));
        return true;
      case 'M':
        push_integer(Kind::kInteger, static_cast<std::int64_t>(little(2)));
        return true;
      case 0x8a:
        push_long(little(1));
        return true;
      case 0x8b:
        push_long(little(4));
        return true;
      case 'G':
        push(Kind::kFloat)->number = std::bit_cast<double>(__builtin_bswap64(little(8)));
        return true;
      case 0x8c:
        push_text(Kind::kString, little(1));
        return true;
      case 'X':
        push_text(Kind::kString, little(4));
        return true;
      case 0x8d:
        push_text(Kind::kString, little(8));
        return true;
      case 'C':
      case 'U':
        push_text(Kind::kBytes, little(1));
        return true;
      case 'B':
      case 'T':
        push_text(Kind::kBytes, little(4));
        return true;
      case 0x8e:
      case 0x96:
        push_text(Kind::kBytes, little(8));
        return true;
      case 0x95:
        little(8);
        return true;  // a frame: only a hint for reading
      default:
        return false;
    }
  }

  void push_tuple(std::size_t count) {
    std::vector<const PickleNode*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push(Kind::kTuple)->items = std::move(items);
  }

  bool build_container(unsigned opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case ')':
        push(Kind::kTuple);
        return true;
      case 0x85:
        push_tuple(1);
        return true;
      case 0x86:
        push_tuple(2);
        return true;
      case 0x87:
        push_tuple(3);
        return true;
      case 't': {
        auto items = pop_to_mark();
        push(Kind::kTuple)->items = std::move(items);
        return true;
      }
      case ']':
      case 0x8f:
        push(Kind::kList);
        return true;
      case '}':
        push(Kind::kDict);
        return true;
      case 0x91: {
        auto items = pop_to_mark();
        push(Kind::kList)->items = std::move(items);
        return true;
      }
      case 'a': {
        const PickleNode* item = pop();
        expect_top(Kind::kList)->items.push_back(item);
        return true;
      }
      case 'e':
      case 0x90: {
        const auto items = pop_to_mark();
        PickleNode* list = expect_top(Kind::kList);
        list->items.insert(list->items.end(), items.begin(), items.end());
        return true;
      }
      case 's': {
        const PickleNode* value = pop();
        const PickleNode* key = pop();
        PickleNode* dict = expect_top(Kind::kDict);
        dict->items.push_back(key);
        dict->items.push_back(value);
        return true;
      }
      case 'u': {
        const auto items = pop_to_mark();
        if (items.size() % 2 != 0) fail("a key without a value");
        PickleNode* dict = expect_top(Kind::kDict);
        dict->items.insert(dict->items.end(), items.begin(), items.end());
        return true;
      }
      default:
        return false;
    }
  }

  bool use_memo(unsigned opcode) {
    switch (opcode) {
      case 0x94:
        memo_[memo_.size()] = top();
        return true;
      case 'q':
        memo_[little(1)] = top();
        return true;
      case 'r':
        memo_[little(4)] = top();
        return true;
      case 'h':
        recall(little(1));
        return true;
      case 'j':
        recall(little(4));
        return true;
      case '2':
        stack_.push_back(top());
        return true;
      default:
        return false;
    }
  }
  void recall(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("an unknown memo");
    stack_.push_back(found->second);
  }

  void push_global(const std::string& name) {
    if (allowed_(name)) {
      push(Kind::kGlobal)->text = name;
    } else if (unknown_ == Unknown::kOpaque) {
      push(Kind::kOpaque);
    } else {
      fail(fmt::format("refers to {}, which is not on the list of what a checkpoint needs", name));
    }
  }
  void push_call(const PickleNode* callable, const PickleNode* arguments) {
    push(callable->kind == Kind::kGlobal ? Kind::kCall : Kind::kOpaque)->items = {callable, arguments};
  }

  bool make_object(unsigned opcode) {
    switch (opcode) {
      case 'c': {
        const std::string module = line();
        push_global(module + " " + line());
        return true;
      }
      case 0x93: {
        const PickleNode* name = pop();
        const PickleNode* module = pop();
        if (name->kind != Kind::kString || module->kind != Kind::kString) fail("a name that is no text");
        push_global(module->text + " " + name->text);
        return true;
      }
      case 'R':
      case 0x81: {
        const PickleNode* arguments = pop();
        push_call(pop(), arguments);
        return true;
      }
      case 0x92: {
        pop();
        const PickleNode* arguments = pop();
        push_call(pop(), arguments);
        return true;
      }
      case 'b': {
        const PickleNode* state = pop();
        top()->state = state;
        return true;
      }
      case 'Q': {
        const PickleNode* identifier = pop();
        push(Kind::kPersistent)->items = {identifier};
        return true;
      }
      default:
        return false;
    }
  }

  std::deque<PickleNode>& nodes_;
  std::span<const std::byte> data_;
  const std::string& source_;
  const std::function<bool(std::string_view)>& allowed_;
  Unknown unknown_;
  std::size_t position_ = 0;
  std::vector<PickleNode*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleNode*> memo_;
};

Pickle::Pickle(std::span<const std::byte> data, const std::string& source,
               const std::function<bool(std::string_view)>& allowed, Unknown unknown)
    : root_(Machine(nodes_, data, source, allowed, unknown).run()) {}

const PickleNode* PickleNode::find(std::string_view key) const {
  const PickleNode* table = this;
  if (kind == Kind::kCall || kind == Kind::kOpaque) {
    table = state;
    if (table != nullptr && table->kind == Kind::kTuple && table->items.size() == 2) table = table->items[0];
  }
  if (table == nullptr || table->kind != Kind::kDict) return nullptr;
  for (std::size_t i = 0; i + 1 < table->items.size(); i += 2)
    if (table->items[i]->kind == Kind::kString && table->items[i]->text == key) return table->items[i + 1];
  return nullptr;
}

bool PickleNode::is_call(std::string_view global) const { return kind == Kind::kCall && items[0]->text == global; }

std::int64_t PickleNode::to_integer(const std::string& what) const {
  if (kind != Kind::kInteger && kind != Kind::kBool) throw UsageError("{}: expected an integer", what);
  return integer;
}

const std::string& PickleNode::to_string(const std::string& what) const {
  if (kind != Kind::kString) throw UsageError("{}: expected a text", what);
  return text;
}

std::vector<std::int64_t> PickleNode::to_integers(const std::string& what) const {
  const PickleNode* list = this;
  if (is_call("torch Size") && items[1]->items.size() == 1) list = items[1]->items[0];
  if (list->kind != Kind::kTuple && list->kind != Kind::kList) throw UsageError("{}: expected integers", what);
  std::vector<std::int64_t> out;
  for (const PickleNode* item : list->items) out.push_back(item->to_integer(what));
  return out;
}

}  // namespace railyard
