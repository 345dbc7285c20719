// Regular expressions for cutting text, by PCRE2 with its JIT compiler.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace railyard::data {

// A compiled pattern, safe to share between threads.
class Regex {
 public:
  // UTF-8 with Unicode properties. `\s` means the 25 characters of White_Space, as in Rust and Oniguruma (PCRE2 alone
  // adds U+180E); general categories are those of Unicode 16, as in both. UsageError, naming `source`, when it cannot
  // be compiled.
  Regex(const std::string& pattern, const std::string& source);

  [[nodiscard]] const pcre2_real_code_8* code() const { return code_.get(); }
  [[nodiscard]] bool jit() const { return jit_; }

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool jit_ = false;
};

// The memory that one thread needs for matching.
class Matcher {
 public:
  Matcher();

  // The first match in `subject` (valid UTF-8) at or after `start`: true with its bounds, or false.
  bool find(const Regex& regex, std::string_view subject, std::size_t start, std::size_t& first, std::size_t& last);

 private:
  struct Free {
    void operator()(pcre2_real_match_data_8* data) const;
    void operator()(pcre2_real_match_context_8* context) const;
    void operator()(pcre2_real_jit_stack_8* stack) const;
  };
  std::unique_ptr<pcre2_real_jit_stack_8, Free> stack_;
  std::unique_ptr<pcre2_real_match_context_8, Free> context_;
  std::unique_ptr<pcre2_real_match_data_8, Free> data_;
};

// A pattern with `\s`, `\S` and the later members of general categories spelt out (see Regex).
[[nodiscard]] std::string spell_out_classes(std::string_view pattern);

// A pattern that matches `text` literally.
[[nodiscard]] std::string quote_for_regex(std::string_view text);

}  // namespace railyard::data
