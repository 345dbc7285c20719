// Formatting of numbers for people.
#include "runtime/report/format.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace railyard {

std::string format_loss(double loss) { return fmt::format("{:.4f}", loss); }

std::string format_learning_rate(double rate) {
  std::string text = fmt::format("{:.2E}", rate);
  const auto exponent = text.find('E');
  if (exponent == std::string::npos) return text;  // inf, nan
  auto digits = exponent + 2;
  if (text[exponent + 1] == '+') text.erase(exponent + 1, 1), --digits;
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

std::string format_grouped(double value) {
  if (!std::isfinite(value) || std::abs(value) >= 1e18) return fmt::format("{:g}", value);
  std::string text = fmt::format("{:.0f}", value);
  const std::size_t first = text[0] == '-' ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string format_significant(double value) {
  const double size = std::abs(value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  if (size == 0.0 || size >= 0.9995) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3g}", value);
}

std::string format_seconds(double seconds) {
  if (seconds >= 9.995) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.0995) return fmt::format("{:.2f} s", seconds);
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

std::string format_clock(double seconds) {
  if (!(seconds >= 0.0 && seconds < 1e11)) return "unknown";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return whole >= 86400 ? fmt::format("{}d {}", whole / 86400, clock) : clock;
}

std::string format_gib(double gib) { return format_bytes(gib * 1073741824.0); }

std::string format_tflops(double tflops) {
  if (tflops >= 0.1 || tflops <= 0.0) return format_significant(tflops) + " TFLOP/s";
  if (tflops >= 1e-4) return format_significant(tflops * 1e3) + " GFLOP/s";
  return format_significant(tflops * 1e6) + " MFLOP/s";
}

std::string format_bytes(double bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1023.95 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024.0;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace railyard
