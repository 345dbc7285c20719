// Reads `#SBATCH` lines as sbatch does, and empties the lines that are not Lua's.
#include "lua/source/preamble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "lua/source/lexer.hpp"

namespace railyard::lua {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Short options of sbatch with their long names (sbatch --help).
constexpr std::array<std::pair<char, std::string_view>, 31> kShortOptions{{
    {'A', "account"},       {'a', "array"},     {'b', "begin"},    {'C', "constraint"}, {'c', "cpus-per-task"},
    {'d', "dependency"},    {'D', "chdir"},     {'e', "error"},    {'F', "nodefile"},   {'G', "gpus"},
    {'H', "hold"},          {'i', "input"},     {'J', "job-name"}, {'k', "no-kill"},    {'L', "licenses"},
    {'m', "distribution"},  {'M', "clusters"},  {'N', "nodes"},    {'n', "ntasks"},     {'o', "output"},
    {'O', "overcommit"},    {'p', "partition"}, {'q', "qos"},      {'Q', "quiet"},      {'S', "core-spec"},
    {'s', "oversubscribe"}, {'t', "time"},      {'v', "verbose"},  {'w', "nodelist"},   {'W', "wait"},
    {'x', "exclude"},
}};

// Options that never take a value behind a space (their value, where they have one, follows '=').
constexpr std::array<std::string_view, 22> kFlags{
    "contiguous", "exclusive", "get-user-env",     "hold",           "ignore-pbs", "no-kill",
    "no-requeue", "nice",      "overcommit",       "oversubscribe",  "parsable",   "propagate",
    "quiet",      "reboot",    "requeue",          "spread-job",     "test-only",  "use-min-nodes",
    "verbose",    "wait",      "kill-on-bad-exit", "disable-status",
};

bool is_flag(std::string_view name) { return std::find(kFlags.begin(), kFlags.end(), name) != kFlags.end(); }

// The words of an `#SBATCH` line, quotes and backslashes taken as the shell does; ends at an unquoted '#'.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == quote)
        quote = '\0';
      else if (c == '\\' && quote == '"' && i + 1 < line.size())
        word += line[++i];
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      inside = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (inside) words.push_back(std::exchange(word, {}));
      inside = false;
    } else if (c == '#' && !inside) {
      break;
    } else {
      word += c;
      inside = true;
    }
  }
  if (inside) words.push_back(word);
  return words;
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) {
    if (text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
      warn(1,
           "begins with a byte order mark, which hides the first line from the shell and from sbatch; save it without");
    }
    result_.lua = text;
  }

  Preamble run() {
    std::string& text = result_.lua;
    for (std::size_t start = 0, line = 1; start < text.size(); ++line) {
      const std::size_t end = std::min(text.find('\n', start), text.size());
      std::string_view content(text.data() + start, end - start);
      const bool carriage_return = content.ends_with('\r');
      if (carriage_return) content.remove_suffix(1);
      one_line(content, static_cast<int>(line));
      if (carriage_return && sbatch_lines_ > 0 && !dos_warned_) {
        dos_warned_ = true;
        warn(static_cast<int>(line), "has DOS line ends, and sbatch refuses such files; save it with Unix line ends");
      }
      if (done_) break;
      if (content.starts_with('#')) std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(start), content.size(), ' ');
      start = end + 1;
    }
    if (sbatch_lines_ > 0 && !shebang_)
      warn(1,
           "has #SBATCH lines but does not begin with #!, which sbatch asks for; begin with #!/usr/bin/env railyard");
    return std::move(result_);
  }

 private:
  void one_line(std::string_view content, int line) {
    if (content.starts_with('#')) {
      if (line == 1 && content.starts_with("#!")) shebang_ = true;
      if (is_sbatch(content))
        sbatch_line(content.substr(7), line);
      else if (const auto word = content.substr(0, content.find_first_of(" \t", 2)); resembles_sbatch(content))
        warn(line, fmt::format("sbatch does not read \"{}\"; the line must begin with \"#SBATCH \"", word));
      return;
    }
    const std::size_t first = content.find_first_not_of(" \t\f\v");
    if (first == std::string_view::npos) return;
    if (comment_depth_ >= 0 || content.substr(first).starts_with("--")) {
      lua_comment(content.substr(first), line);
    } else {
      done_ = true;
    }
  }

  static bool is_sbatch(std::string_view content) {
    return content.starts_with("#SBATCH") && content.size() > 7 && (content[7] == ' ' || content[7] == '\t');
  }

  // "#sbatch", "# SBATCH" and "#SBATCH--nodes": meant for sbatch, but not read by it. "##SBATCH" is a usual way to turn
  // a line off.
  static bool resembles_sbatch(std::string_view content) {
    std::string letters;
    for (const char c : content.substr(1)) {
      if (letters.empty() && (c == ' ' || c == '\t')) continue;
      letters += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      if (letters.size() == 6) break;
    }
    return letters == "SBATCH";
  }

  // Follows comments that precede the first token, so that a long one may hold lines for the shell too.
  void lua_comment(std::string_view content, int line) {
    if (hidden_since_ == 0) hidden_since_ = line;
    std::size_t at = 0;
    while (at < content.size()) {
      if (comment_depth_ >= 0) {
        const std::string close = long_close(static_cast<std::size_t>(comment_depth_));
        at = content.find(close, at);
        if (at == std::string_view::npos) return;
        at += close.size();
        comment_depth_ = -1;
        continue;
      }
      at = content.find_first_not_of(" \t", at);
      if (at == std::string_view::npos) return;
      if (content.substr(at, 2) != "--") {
        done_ = true;
        return;
      }
      at += 2;
      if (at >= content.size() || content[at] != '[') return;
      const std::size_t after = content.find_first_not_of('=', at + 1);
      if (after == std::string_view::npos || content[after] != '[') return;
      comment_depth_ = static_cast<int>(after - at - 1);
      at = after + 1;
    }
  }

  void sbatch_line(std::string_view content, int line) {
    ++sbatch_lines_;
    if (hidden_since_ != 0) {
      if (!std::exchange(hidden_warned_, true))
        warn(line,
             fmt::format("this #SBATCH line is hidden from sbatch, which stops reading at line {}; move the #SBATCH "
                         "lines above everything but the #! line",
                         hidden_since_));
      return;
    }
    const auto words = words_of(content);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word.starts_with("--") && word.size() > 2) {
        const std::size_t equals = word.find('=');
        SbatchOption option{word.substr(2, equals == std::string::npos ? equals : equals - 2), std::nullopt, line};
        if (equals != std::string::npos)
          option.value = word.substr(equals + 1);
        else if (!is_flag(option.name) && i + 1 < words.size())
          option.value = words[++i];
        result_.options.push_back(option);
      } else if (word.starts_with('-') && word.size() > 1) {
        short_option(words, i, line);
      } else {
        warn(line, fmt::format("\"{}\" is no option of sbatch, which begin with -", word));
      }
    }
  }

  void short_option(const std::vector<std::string>& words, std::size_t& i, int line) {
    const std::string& word = words[i];
    const auto known =
        std::find_if(kShortOptions.begin(), kShortOptions.end(), [&](const auto& row) { return row.first == word[1]; });
    if (known == kShortOptions.end()) {
      warn(line, fmt::format("sbatch has no option \"{}\"", word.substr(0, 2)));
      return;
    }
    SbatchOption option{std::string(known->second), std::nullopt, line};
    if (!is_flag(option.name)) {
      if (word.size() > 2)
        option.value = word.substr(word[2] == '=' ? 3 : 2);
      else if (i + 1 < words.size())
        option.value = words[++i];
    }
    result_.options.push_back(option);
  }

  void warn(int line, const std::string& what) { result_.warnings.push_back(fmt::format("{}: {}", line, what)); }

  Preamble result_;
  int sbatch_lines_ = 0;
  int hidden_since_ = 0;    // the line at which sbatch stopped reading
  int comment_depth_ = -1;  // of the open long comment: the number of its '='
  bool shebang_ = false, done_ = false, dos_warned_ = false, hidden_warned_ = false;
};

}  // namespace

Preamble split_preamble(std::string_view text) { return Splitter(text).run(); }

}  // namespace railyard::lua
