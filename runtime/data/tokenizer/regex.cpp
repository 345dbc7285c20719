// PCRE2 behind Regex and Matcher.
#include "runtime/data/tokenizer/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "runtime/base/error.hpp"
#include "runtime/data/tokenizer/unicode_tables.hpp"

namespace railyard::data {
namespace {

constexpr std::string_view kWhitespace =
    "\\t\\n\\x0b\\f\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

// \p{Lu}, \P{L}, \p{^N}, \pL: how long the escape is (0: it is none), and of what.
struct Property {
  std::size_t length = 0;
  std::string_view name;
  bool negated = false;
};

Property property_at(std::string_view pattern, std::size_t at) {
  const std::string_view text = pattern.substr(at);
  if (text.size() < 3 || (text[1] != 'p' && text[1] != 'P')) return {};
  Property property{3, text.substr(2, 1), text[1] == 'P'};
  if (text[2] != '{') return property;
  const std::size_t end = text.find('}');
  if (end == std::string_view::npos) return {};
  property.length = end + 1;
  property.name = text.substr(3, end - 3);
  if (property.name.starts_with('^')) {
    property.name.remove_prefix(1);
    property.negated = !property.negated;
  }
  return property;
}

std::string property_escape(std::string_view name) { return fmt::format("\\p{{{}}}", name); }

// The characters that came to a general category (or to all that begin with a letter, "L") later, as ranges in a class.
std::string later_members(std::string_view name) {
  std::string out;
  for (const CategoryRange& range : later_categories())
    if (!name.empty() && std::string_view(range.category).starts_with(name))
      out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", range.first, range.last);
  return out;
}

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }
void Matcher::Free::operator()(pcre2_real_match_data_8* data) const { pcre2_match_data_free(data); }
void Matcher::Free::operator()(pcre2_real_match_context_8* context) const { pcre2_match_context_free(context); }
void Matcher::Free::operator()(pcre2_real_jit_stack_8* stack) const { pcre2_jit_stack_free(stack); }

std::string spell_out_classes(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      if (const Property property = property_at(pattern, i); property.length > 0 && !(property.negated && in_class)) {
        const std::string_view escape = pattern.substr(i, property.length);
        const std::string later = later_members(property.name);
        i += property.length - 1;
        if (later.empty()) {
          out += escape;
        } else if (in_class) {
          out.append(escape).append(later);
        } else {
          out.append(property.negated ? "[^" : "[").append(property_escape(property.name)).append(later) += ']';
        }
        continue;
      }
      const char escaped = pattern[++i];
      if (escaped == 's') {
        (in_class ? out : out.append("[")).append(kWhitespace);
        if (!in_class) out += ']';
      } else if (escaped == 'S' && !in_class) {
        out.append("[^").append(kWhitespace).append("]");
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[' && !in_class)
      in_class = true;
    else if (c == ']' && in_class && out.back() != '[')
      in_class = false;
    out += c;
  }
  return out;
}

std::string quote_for_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && std::string_view("\\^$.[|()*+?{}]-#").find(c) != std::string_view::npos)
      out += '\\';
    out += c;
  }
  return out;
}

Regex::Regex(const std::string& pattern, const std::string& source) {
  if (pattern.find("&&[") != std::string::npos)
    throw UsageError("{}: the pattern \"{}\" intersects character classes (&&): not built yet", source, pattern);
  const std::string spelt = spell_out_classes(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()), spelt.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  if (!code_) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw UsageError("{}: the pattern \"{}\" cannot be used: {} (at {})", source, pattern,
                     reinterpret_cast<const char*>(message), offset);
  }
  jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

Matcher::Matcher()
    : stack_(pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      data_(pcre2_match_data_create(1, nullptr)) {
  if (!stack_ || !context_ || !data_) throw std::bad_alloc();
  pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
}

bool Matcher::find(const Regex& regex, std::string_view subject, std::size_t start, std::size_t& first,
                   std::size_t& last) {
  const auto* text = reinterpret_cast<PCRE2_SPTR>(subject.data());
  const int result =
      regex.jit()
          ? pcre2_jit_match(regex.code(), text, subject.size(), start, 0, data_.get(), context_.get())
          : pcre2_match(regex.code(), text, subject.size(), start, PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) throw RunError("cutting text by a pattern failed with PCRE2 error {}", result);
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
  first = bounds[0];
  last = bounds[1];
  return true;
}

}  // namespace railyard::data
