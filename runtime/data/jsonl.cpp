// JSON lines by simdjson; lines with numbers that it refuses go through the slower parser of the base library.
#include "runtime/data/jsonl.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "runtime/base/json.hpp"

namespace railyard::data {

bool LineReader::next(std::size_t wanted, LineBatch& batch) {
  std::string text = std::move(rest_);
  rest_.clear();
  std::size_t searched = 0, end = std::string::npos;
  for (;;) {
    if (text.size() >= wanted || ended_) {
      // The last newline that makes a batch; in a longer line, the first.
      const std::size_t last = text.rfind('\n');
      if (last != std::string::npos && last >= searched) end = last + 1;
      searched = text.size();
      if (end != std::string::npos || ended_) break;
    }
    const std::size_t have = text.size();
    const std::size_t more = std::max(wanted, have / 2);
    text.resize(have + more);
    const std::size_t count = stream_.read(text.data() + have, more);
    text.resize(have + count);
    ended_ = count == 0;
  }
  if (end == std::string::npos) end = text.size();  // the last line may lack its newline
  if (end == 0) return false;
  rest_.assign(text, end);
  text.resize(end);
  batch.size = end;
  batch.first_line = next_line_;
  batch.lines = std::count(text.begin(), text.end(), '\n') + (text.back() == '\n' ? 0 : 1);
  next_line_ += batch.lines;
  text.resize(end + LineBatch::kPadding);
  batch.text = std::move(text);
  return true;
}

struct JsonLine::Parser {
  simdjson::dom::parser simd;
  simdjson::dom::element element;
  std::optional<Json> slow;
};

JsonLine::JsonLine() : parser_(std::make_unique<Parser>()) {}
JsonLine::~JsonLine() = default;

std::string JsonLine::parse(std::string_view line) {
  static_assert(LineBatch::kPadding >= simdjson::SIMDJSON_PADDING);
  parser_->slow.reset();
  const auto code = parser_->simd.parse(line.data(), line.size(), false).get(parser_->element);
  if (code == simdjson::SUCCESS) return parser_->element.is_object() ? "" : "expected a JSON object";
  if (code == simdjson::NUMBER_ERROR) {
    Json json = Json::parse(line.begin(), line.end(), nullptr, false);
    if (json.is_object()) {
      parser_->slow = std::move(json);
      return "";
    }
  }
  return fmt::format("not valid JSON: {}", simdjson::error_message(code));
}

std::string_view JsonLine::text(const std::string& key, std::string& problem) {
  if (parser_->slow) {
    const auto found = parser_->slow->find(key);
    if (found == parser_->slow->end())
      problem = fmt::format("no key \"{}\"", key);
    else if (!found->is_string())
      problem = fmt::format("\"{}\" is not a string", key);
    else
      return found->get_ref<const std::string&>();
    return {};
  }
  const simdjson::dom::object object = parser_->element.get_object().value_unsafe();
  std::optional<simdjson::dom::element> found;
  for (const auto field : object)
    if (field.key == key) found = field.value;
  std::string_view text;
  if (!found)
    problem = fmt::format("no key \"{}\"", key);
  else if (found->get(text) != simdjson::SUCCESS)
    problem = fmt::format("\"{}\" is not a string", key);
  return text;
}

}  // namespace railyard::data
