// The progress bar.
#include "launch/cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace railyard::launch {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kWidth = 30;

bool can_draw() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(2) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

Progress::Progress(std::string label, std::uint64_t total_bytes)
    : label_(std::move(label)),
      total_(total_bytes),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_),
      shown_(can_draw()) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::advance(std::uint64_t bytes) {
  done_ += bytes;
  if (!shown_ || std::chrono::steady_clock::now() - drawn_ < kRedraw) return;
  drawn_ = std::chrono::steady_clock::now();
  draw();
}

void Progress::draw() {
  const double fraction = total_ == 0 ? 1.0 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double rate = static_cast<double>(done_) / seconds;
  const int filled = static_cast<int>(fraction * kWidth);
  const auto left = static_cast<long>(std::max(0.0, static_cast<double>(total_) - static_cast<double>(done_)) / rate);
  fmt::print(stderr, "\r{} [{}{}] {:3.0f} %  {:.0f} MB/s  {:02}:{:02} left\033[K", label_, std::string(filled, '#'),
             std::string(kWidth - filled, '-'), 100.0 * fraction, rate / 1e6, left / 60, left % 60);
}

}  // namespace railyard::launch
