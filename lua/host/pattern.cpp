// Compiles a Lua pattern into items and matches them by backtracking, charging the meter for each step.
#include "lua/host/pattern.hpp"

#include <cctype>
#include <stdexcept>
#include <string>
#include <utility>

namespace railyard::lua {
namespace {

constexpr int kMaximumCaptures = 32;
constexpr int kMaximumDepth = 200;           // as in Lua: beyond it a pattern is "too complex"
constexpr std::int64_t kChargeEvery = 1024;  // steps

[[noreturn]] void malformed(const std::string& what) { throw std::invalid_argument(what); }

std::size_t value_of(char c) { return static_cast<unsigned char>(c); }

}  // namespace

class Pattern::Parser {
 public:
  Parser(Pattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}

  void run(bool anchors) {
    if (anchors && text_.starts_with('^')) {
      pattern_.anchored_ = true;
      ++at_;
    }
    while (at_ < text_.size()) item();
    if (!open_.empty()) malformed("unfinished capture");
  }

 private:
  void item() {
    const char c = text_[at_];
    if (c == '(') return open();
    if (c == ')') return close();
    if (c == '$' && at_ + 1 == text_.size()) {
      ++at_;
      return push(Kind::kEnd);
    }
    if (c == '%' && at_ + 1 < text_.size()) {
      const char next = text_[at_ + 1];
      if (next == 'b') return balance();
      if (next == 'f') return frontier();
      if (std::isdigit(static_cast<unsigned char>(next)) != 0) return backreference();
    }
    Item item;
    item.set = single();
    if (at_ < text_.size()) {
      switch (text_[at_]) {
        case '?':
          item.repeat = Repeat::kOptional;
          break;
        case '*':
          item.repeat = Repeat::kGreedy;
          break;
        case '+':
          item.repeat = Repeat::kGreedyOnce;
          break;
        case '-':
          item.repeat = Repeat::kLazy;
          break;
        default:
          break;
      }
      if (item.repeat != Repeat::kOnce) ++at_;
    }
    pattern_.items_.push_back(item);
  }

  void push(Kind kind, int capture = 0) {
    Item item;
    item.kind = kind;
    item.capture = capture;
    pattern_.items_.push_back(item);
  }

  void open() {
    ++at_;
    if (pattern_.capture_count_ == kMaximumCaptures) malformed("too many captures");
    const int capture = pattern_.capture_count_++;
    if (at_ < text_.size() && text_[at_] == ')') {
      ++at_;
      push(Kind::kPosition, capture);
      closed_.push_back(true);
    } else {
      push(Kind::kOpen, capture);
      open_.push_back(capture);
      closed_.push_back(false);
    }
  }

  void close() {
    ++at_;
    if (open_.empty()) malformed("invalid pattern capture");
    push(Kind::kClose, open_.back());
    closed_[static_cast<std::size_t>(open_.back())] = true;
    open_.pop_back();
  }

  void balance() {
    if (at_ + 3 >= text_.size()) malformed("malformed pattern (missing arguments to '%b')");
    Item item;
    item.kind = Kind::kBalance;
    item.open = static_cast<unsigned char>(text_[at_ + 2]);
    item.close = static_cast<unsigned char>(text_[at_ + 3]);
    pattern_.items_.push_back(item);
    at_ += 4;
  }

  void frontier() {
    at_ += 2;
    if (at_ >= text_.size() || text_[at_] != '[') malformed("missing '[' after '%f' in pattern");
    Item item;
    item.kind = Kind::kFrontier;
    item.set = single();
    pattern_.items_.push_back(item);
  }

  void backreference() {
    const int capture = text_[at_ + 1] - '1';
    if (capture < 0 || capture >= pattern_.capture_count_ || !closed_[static_cast<std::size_t>(capture)])
      malformed("invalid capture index %" + std::to_string(capture + 1));
    at_ += 2;
    push(Kind::kBackreference, capture);
  }

  // One character class at `at_`: a character, '.', %x or [set].
  Set single() {
    const char c = text_[at_++];
    if (c == '.') return Set().set();
    if (c == '%') {
      if (at_ == text_.size()) malformed("malformed pattern (ends with '%')");
      return escaped(text_[at_++]);
    }
    if (c == '[') return bracket();
    return Set().set(value_of(c));
  }

  Set bracket() {
    Set set;
    const bool negated = at_ < text_.size() && text_[at_] == '^';
    if (negated) ++at_;
    for (bool first = true;; first = false) {
      if (at_ >= text_.size()) malformed("malformed pattern (missing ']')");
      const char c = text_[at_++];
      if (c == ']' && !first) break;
      if (c == '%') {
        if (at_ >= text_.size()) malformed("malformed pattern (missing ']')");
        set |= escaped(text_[at_++]);
      } else if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        for (std::size_t value = value_of(c); value <= value_of(text_[at_ + 1]); ++value) set.set(value);
        at_ += 2;
      } else {
        set.set(value_of(c));
      }
    }
    return negated ? ~set : set;
  }

  static Set escaped(char letter) {
    int (*test)(int) = nullptr;
    switch (std::tolower(static_cast<unsigned char>(letter))) {
      case 'a':
        test = std::isalpha;
        break;
      case 'c':
        test = std::iscntrl;
        break;
      case 'd':
        test = std::isdigit;
        break;
      case 'g':
        test = std::isgraph;
        break;
      case 'l':
        test = std::islower;
        break;
      case 'p':
        test = std::ispunct;
        break;
      case 's':
        test = std::isspace;
        break;
      case 'u':
        test = std::isupper;
        break;
      case 'w':
        test = std::isalnum;
        break;
      case 'x':
        test = std::isxdigit;
        break;
      case 'z':
        test = [](int value) { return value == 0 ? 1 : 0; };
        break;
      default:
        return Set().set(value_of(letter));
    }
    Set set;
    for (int value = 0; value < 256; ++value)
      if (test(value) != 0) set.set(static_cast<std::size_t>(value));
    return std::isupper(static_cast<unsigned char>(letter)) != 0 ? ~set : set;
  }

  Pattern& pattern_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<int> open_;     // captures that are not closed yet
  std::vector<bool> closed_;  // of each capture
};

Pattern::Pattern(std::string_view text, bool anchors, Meter& meter) : meter_(&meter) {
  meter.require(static_cast<std::int64_t>(text.size()));
  meter.require_memory(text.size() * sizeof(Item));
  Parser(*this, text).run(anchors);
}

class Matcher {
 public:
  Matcher(const Pattern& pattern, std::string_view subject)
      : pattern_(pattern), subject_(subject), captures_(static_cast<std::size_t>(pattern.capture_count_)) {}

  std::optional<PatternMatch> at(std::size_t start) {
    step();
    const auto end = match(0, start);
    if (!end) return std::nullopt;
    return PatternMatch{start, *end, captures_};
  }

  void settle() { pattern_.meter_->require(std::exchange(steps_, 0)); }

 private:
  using Item = Pattern::Item;
  using Kind = Pattern::Kind;
  using Repeat = Pattern::Repeat;
  using End = std::optional<std::size_t>;

  // One level of the recursion, left again however the match ends.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) {
      if (++depth_ > kMaximumDepth) {
        --depth_;
        malformed("pattern too complex");
      }
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --depth_; }

   private:
    int& depth_;
  };

  void step() {
    if (++steps_ >= kChargeEvery) settle();
  }

  // Matches the items from `index` on at `at`; the end of the match, or nothing.
  End match(std::size_t index, std::size_t at) {
    const Level level(depth_);
    for (; index < pattern_.items_.size(); ++index) {
      step();
      const Item& item = pattern_.items_[index];
      switch (item.kind) {
        case Kind::kSet:
          if (item.repeat != Repeat::kOnce) return repeated(item, index, at);
          if (!fits(item, at)) return std::nullopt;
          ++at;
          break;
        case Kind::kOpen:
        case Kind::kPosition: {
          Capture& capture = captures_[static_cast<std::size_t>(item.capture)];
          const Capture before = std::exchange(capture, {at, 0, item.kind == Kind::kPosition});
          const End end = match(index + 1, at);
          if (!end) capture = before;
          return end;
        }
        case Kind::kClose: {
          Capture& capture = captures_[static_cast<std::size_t>(item.capture)];
          const std::size_t before = std::exchange(capture.length, at - capture.start);
          const End end = match(index + 1, at);
          if (!end) capture.length = before;
          return end;
        }
        case Kind::kBalance: {
          const End end = balanced(item, at);
          if (!end) return std::nullopt;
          at = *end;
          break;
        }
        case Kind::kFrontier: {
          const std::size_t before = at == 0 ? 0 : value_of(subject_[at - 1]);
          const std::size_t after = at == subject_.size() ? 0 : value_of(subject_[at]);
          if (item.set[before] || !item.set[after]) return std::nullopt;
          break;
        }
        case Kind::kBackreference: {
          const Capture& capture = captures_[static_cast<std::size_t>(item.capture)];
          if (capture.position_only) return std::nullopt;  // as in Lua: a place is no text to repeat
          steps_ += static_cast<std::int64_t>(capture.length);
          if (subject_.substr(at, capture.length) != subject_.substr(capture.start, capture.length))
            return std::nullopt;
          at += capture.length;
          break;
        }
        case Kind::kEnd:
          if (at != subject_.size()) return std::nullopt;
          break;
      }
    }
    return at;
  }

  [[nodiscard]] bool fits(const Item& item, std::size_t at) const {
    return at < subject_.size() && item.set[value_of(subject_[at])];
  }

  End repeated(const Item& item, std::size_t index, std::size_t at) {
    if (item.repeat == Repeat::kLazy) {
      for (;; ++at) {
        if (const End end = match(index + 1, at)) return end;
        if (!fits(item, at)) return std::nullopt;
      }
    }
    const std::size_t least = item.repeat == Repeat::kGreedyOnce ? 1 : 0;
    const std::size_t most = item.repeat == Repeat::kOptional ? 1 : subject_.size();
    std::size_t count = 0;
    while (count < most && fits(item, at + count)) {
      step();
      ++count;
    }
    for (; count >= least; --count) {
      if (const End end = match(index + 1, at + count)) return end;
      if (count == 0) break;
    }
    return std::nullopt;
  }

  End balanced(const Item& item, std::size_t at) {
    if (at >= subject_.size() || value_of(subject_[at]) != item.open) return std::nullopt;
    for (std::size_t open = 1, i = at + 1; i < subject_.size(); ++i) {
      step();
      const std::size_t c = value_of(subject_[i]);
      if (c == item.close) {
        if (--open == 0) return i + 1;
      } else if (c == item.open) {
        ++open;
      }
    }
    return std::nullopt;
  }

  const Pattern& pattern_;
  std::string_view subject_;
  std::vector<Capture> captures_;
  std::int64_t steps_ = 0;
  int depth_ = 0;
};

std::optional<PatternMatch> Pattern::search(std::string_view subject, std::size_t from, bool only_there) const {
  Matcher matcher(*this, subject);
  for (std::size_t start = from; start <= subject.size(); ++start) {
    if (auto found = matcher.at(start)) {
      matcher.settle();
      return found;
    }
    if (anchored_ || only_there) break;
  }
  matcher.settle();
  return std::nullopt;
}

}  // namespace railyard::lua
