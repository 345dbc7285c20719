// Asking about terminals, drawing with characters.
#include "runtime/report/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

namespace railyard {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

int terminal_columns(std::FILE* stream) {
  const int descriptor = ::fileno(stream);
  if (descriptor < 0 || ::isatty(descriptor) != 1) return 0;
  const char* term = variable("TERM");
  if (term == nullptr || std::strcmp(term, "dumb") == 0) return 0;
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool colour_is_welcome() { return variable("NO_COLOR") == nullptr; }

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = variable(name);
    if (value == nullptr) continue;
    std::string text = value;
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

std::string progress_bar(double share, int cells, bool unicode) {
  static constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  // Rounded down, so that only what is done looks done.
  const double filled = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) * cells : 0.0;
  const int eighths = static_cast<int>(std::floor(filled * 8.0 + 1e-9));
  std::string text;
  int drawn = 0;
  for (; drawn < eighths / 8; ++drawn) text += unicode ? "█" : "#";
  if (unicode && eighths % 8 != 0) {
    text += kEighths[static_cast<std::size_t>(eighths % 8)];
    ++drawn;
  }
  text.append(static_cast<std::size_t>(cells - drawn), ' ');
  return text;
}

std::string sparkline(std::span<const double> values, int cells) {
  static constexpr std::array<const char*, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t count = std::min(values.size(), static_cast<std::size_t>(std::max(cells, 0)));
  std::vector<double> means;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0.0;
    int known = 0;
    for (std::size_t j = i * values.size() / count; j < (i + 1) * values.size() / count; ++j) {
      if (!std::isfinite(values[j])) continue;
      sum += values[j];
      ++known;
    }
    means.push_back(known > 0 ? sum / known : std::numeric_limits<double>::quiet_NaN());
    if (known > 0) {
      low = std::min(low, means.back());
      high = std::max(high, means.back());
    }
  }
  std::string text;
  for (double mean : means) {
    const double height = high > low ? (mean - low) / (high - low) * 7.0 : 0.0;
    text += std::isfinite(mean) ? kHeights[static_cast<std::size_t>(std::lround(height))] : " ";
  }
  return text;
}

}  // namespace railyard
