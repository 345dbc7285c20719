// JSON lines: cutting a stream into batches of whole lines, and taking one string out of a line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/input_stream.hpp"

namespace railyard::data {

// Whole lines of one input.
struct LineBatch {
  std::string text;             // followed by kPadding bytes that belong to no line
  std::size_t size = 0;         // of the lines
  std::int64_t first_line = 1;  // number of the first of them
  std::int64_t lines = 0;
  static constexpr std::size_t kPadding = 64;
};

class LineReader {
 public:
  LineReader(InputStream& stream, std::int64_t first_line) : stream_(stream), next_line_(first_line) {}
  // About `wanted` bytes of whole lines (one line when it is longer); false at the end.
  bool next(std::size_t wanted, LineBatch& batch);

 private:
  InputStream& stream_;
  std::string rest_;  // what was read behind the last whole line
  std::int64_t next_line_;
  bool ended_ = false;
};

// Takes strings out of lines; one for each thread.
class JsonLine {
 public:
  JsonLine();
  ~JsonLine();
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;

  // Parses a line that is followed by LineBatch::kPadding readable bytes. Empty, or what is wrong with it.
  std::string parse(std::string_view line);
  // The string under `key` (the last of equal keys, as in Python); what is wrong goes to `problem`. Valid until
  // parse().
  std::string_view text(const std::string& key, std::string& problem);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace railyard::data
