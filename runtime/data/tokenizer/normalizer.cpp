// Unicode normal forms by utf8proc, with a quick check that leaves text alone which is in NFC already.
#include "runtime/data/tokenizer/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "runtime/base/error.hpp"
#include "runtime/data/tokenizer/unicode_tables.hpp"
#include "runtime/data/tokenizer/utf8.hpp"

namespace railyard::data {
namespace {

void append_form(std::string_view text, utf8proc_option_t form, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form);
  const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                               static_cast<utf8proc_ssize_t>(text.size()), &result, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (length < 0) throw RunError("normalising text failed: {}", utf8proc_errmsg(length));
  out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
}

// Characters before which text can be cut for NFC: not combining, not changed by it, never joined to what is before.
class NfcStarters {
 public:
  NfcStarters() : unsafe_(0x110000, false), ordinary_(0x110000, false) {
    std::string form;
    for (std::uint32_t c = 0xA0; c < unsafe_.size(); ++c) {
      const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
      if (property->combining_class != 0) unsafe_[c] = true;
      const bool hangul = c >= 0xAC00 && c <= 0xD7A3;
      if (hangul || property->decomp_seqindex == UINT16_MAX || property->decomp_type != 0) continue;
      utf8proc_int32_t parts[8];
      int boundary = 0;
      const auto count =
          utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 8, UTF8PROC_DECOMPOSE, &boundary);
      if (count > 1 && count <= 8) unsafe_[static_cast<std::size_t>(parts[count - 1])] = true;
      std::string text;
      append_code_point(c, text);
      form.clear();
      append_form(text, UTF8PROC_COMPOSE, form);
      if (form != text) unsafe_[c] = true;
    }
    for (std::uint32_t c = 0x1161; c <= 0x1175; ++c) unsafe_[c] = true;  // vowels and final consonants of Hangul
    for (std::uint32_t c = 0x11A8; c <= 0x11C2; ++c) unsafe_[c] = true;
    for (const PointRange& range : nfc_ordinary())
      for (std::uint32_t c = range.first; c <= range.last; ++c) {
        unsafe_[c] = false;
        ordinary_[c] = true;
      }
  }
  [[nodiscard]] bool safe(std::uint32_t c) const { return !unsafe_[c]; }
  // Nothing behind it composes with it or moves before it, whatever utf8proc thinks.
  [[nodiscard]] bool ordinary(std::uint32_t c) const { return ordinary_[c]; }

 private:
  std::vector<bool> unsafe_, ordinary_;
};

// NFC into `out`; false (and `out` untouched) when the text is NFC already.
bool nfc(std::string_view text, std::string& out) {
  static const NfcStarters starters;  // a constant table, made on first use
  std::size_t copied = 0;             // input up to here is in `out`
  std::size_t safe_start = 0;         // start of the last safe character
  bool changed = false;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      safe_start = at++;
      continue;
    }
    const CodePoint point = code_point_at(text, at);
    if (starters.safe(point.value)) {
      safe_start = starters.ordinary(point.value) ? at + point.bytes : at;
      at += point.bytes;
      continue;
    }
    std::size_t end = at + point.bytes;
    while (end < text.size()) {
      const CodePoint next = code_point_at(text, end);
      if (starters.safe(next.value)) break;
      end += next.bytes;
    }
    const std::size_t from = std::max(safe_start, copied);
    if (!changed) out.clear();
    changed = true;
    out.append(text.substr(copied, from - copied));
    append_form(text.substr(from, end - from), UTF8PROC_COMPOSE, out);
    copied = end;
    safe_start = end;
    at = end;
  }
  if (changed) out.append(text.substr(copied));
  return changed;
}

bool replace_all(std::string_view text, const std::string& from, const std::string& to, std::string& out) {
  std::size_t found = from.empty() ? std::string_view::npos : text.find(from);
  if (found == std::string_view::npos) return false;
  out.clear();
  std::size_t at = 0;
  for (; found != std::string_view::npos; found = text.find(from, at)) {
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  out.append(text.substr(at));
  return true;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string_view Normalizer::apply(std::string_view text, bool first, std::string& buffer) const {
  std::string next;
  for (const Step& step : steps_) {
    bool changed = false;
    const auto form = [&](int option) {
      if (is_ascii(text)) return false;
      next.clear();
      append_form(text, static_cast<utf8proc_option_t>(option), next);
      return true;
    };
    const auto prepend = [&] {
      next = step.to;
      next += text;
      return true;
    };
    switch (step.kind) {
      case Kind::kNfc:
        changed = nfc(text, next);
        break;
      case Kind::kNfd:
        changed = form(UTF8PROC_DECOMPOSE);
        break;
      case Kind::kNfkc:
        changed = form(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
        break;
      case Kind::kNfkd:
        changed = form(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
        break;
      case Kind::kReplace:
        changed = replace_all(text, step.from, step.to, next);
        break;
      case Kind::kPrepend:
        changed = !text.empty() && (first || !step.first_only) && !(step.unless_there && text.starts_with(step.to)) &&
                  prepend();
        break;
    }
    if (!changed) continue;
    buffer.swap(next);
    text = buffer;
  }
  return text;
}

}  // namespace railyard::data
