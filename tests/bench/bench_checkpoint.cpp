// How fast a checkpoint reaches the disk, beside plain direct writes of as many bytes to the same disk:
//
//   bench_checkpoint FOLDER [MIB]      default: 1024 MiB in tensors of 16 MiB
//
// Direct writes before and after; the save is timed until its file is synced (not published), and the copy into the
// staging buffer apart, since training waits for nothing else.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/writer.hpp"

namespace railyard {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Seconds to write `bytes` as dd oflag=direct bs=16M conv=fsync does.
double direct_write(const std::filesystem::path& path, const std::byte* data, std::size_t bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0644);
  if (file < 0) throw RunError("{}: cannot open for direct writes: {}", path.string(), std::strerror(errno));
  constexpr std::size_t kBlock = std::size_t{16} << 20;
  const auto start = Clock::now();
  for (std::size_t at = 0; at < bytes; at += kBlock)
    if (::write(file, data + at, kBlock) != static_cast<ssize_t>(kBlock))
      throw RunError("{}: cannot write: {}", path.string(), std::strerror(errno));
  ::fsync(file);
  const double seconds = seconds_since(start);
  ::close(file);
  std::filesystem::remove(path);
  return seconds;
}

void run(const std::filesystem::path& folder, std::size_t mebibytes) {
  constexpr std::int64_t kRows = 4096, kColumns = 1024;  // 16 MiB of fp32
  const std::size_t tensors = mebibytes / 16, bytes = tensors * kRows * kColumns * sizeof(float);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
  if (memory == nullptr) throw RunError("no memory for {} bytes", bytes);
  std::memset(memory, 7, bytes);
  SingleProcess alone;
  CheckpointWriter writer(alone, folder / "ckpt", {});
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  double before = direct_write(folder / "direct", memory, bytes);
  for (int round = 0; round < 3; ++round) {
    CheckpointInfo info;
    info.step = round;
    writer.begin(info);
    const auto start = Clock::now();
    for (std::size_t i = 0; i < tensors; ++i)
      writer.add({.name = fmt::format("tensor.{}", i),
                  .global_shape = {kRows, kColumns},
                  .where = {{0, 0}, {kRows, kColumns}},
                  .data = memory + i * kRows * kColumns * sizeof(float)});
    const double staged = seconds_since(start);
    writer.finish(false);
    const double saved = seconds_since(start) - staged;
    writer.publish();
    const double after = direct_write(folder / "direct", memory, bytes);
    const double direct = 0.5 * (before + after);
    fmt::print("{:.2f} GB: staged at {:.2f} GB/s, written at {:.2f} GB/s, direct writes {:.2f} GB/s: ratio {:.2f}\n",
               gigabytes, gigabytes / staged, gigabytes / saved, gigabytes / direct, direct / saved);
    before = after;
  }
  std::free(memory);
  std::filesystem::remove_all(folder / "ckpt");
}

}  // namespace
}  // namespace railyard

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_checkpoint FOLDER [MIB]\n");
    return railyard::kExitUsage;
  }
  try {
    railyard::run(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024);
    return railyard::kExitDone;
  } catch (const railyard::Error& error) {
    fmt::print(stderr, "bench_checkpoint: {}\n", error.what());
    return error.exit_code();
  }
}
