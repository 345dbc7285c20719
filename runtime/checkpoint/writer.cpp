// Staging, writing and publishing a checkpoint.
#include "runtime/checkpoint/writer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <unordered_map>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/file.hpp"
#include "runtime/checkpoint/safetensors.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;

// Checksum and copy go over pieces that stay in the cache between the two.
constexpr std::size_t kCopyPiece = 128 << 10;
// The data section begins on a page.
constexpr std::size_t kAlignment = 4096;
// Other nodes' view of a new folder may lag this long on a network file system.
constexpr auto kVisibleWithin = std::chrono::seconds(60);
constexpr auto kRetryAfter = std::chrono::milliseconds(50);

std::uint32_t copy_with_checksum(const std::byte* from, std::byte* to, std::size_t bytes, std::uint32_t crc) {
  while (bytes > 0) {
    const std::size_t piece = std::min(bytes, kCopyPiece);
    crc = crc32c({from, piece}, crc);
    std::memcpy(to, from, piece);
    from += piece;
    to += piece;
    bytes -= piece;
  }
  return crc;
}

// Whether the path comes into sight before the time is up.
bool wait_until_visible(const fs::path& path) {
  const auto deadline = std::chrono::steady_clock::now() + kVisibleWithin;
  std::error_code error;
  while (!fs::exists(path, error)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    // Listing the parent makes network file systems look again.
    for (fs::directory_iterator entry(path.parent_path(), error); !error && entry != fs::directory_iterator();)
      entry.increment(error);
    std::this_thread::sleep_for(kRetryAfter);
  }
  return true;
}

std::string file_name(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

}  // namespace

CheckpointWriter::CheckpointWriter(Collectives& collectives, fs::path dir, Retention retention)
    : collectives_(collectives), dir_(std::move(dir)), retention_(retention) {
  std::string failure;
  if (collectives_.rank() == 0) {
    std::error_code error;
    fs::create_directories(dir_, error);
    if (error) {
      failure = fmt::format("{}: cannot make the checkpoint folder: {}", dir_.string(), error.message());
    } else {
      remove_leftovers(dir_);
    }
  }
  failure = collectives_.broadcast(failure);
  if (!failure.empty()) throw RunError(failure);
}

CheckpointWriter::~CheckpointWriter() {
  wait_for_background();
  if (pruning_.joinable()) pruning_.join();
}

void CheckpointWriter::wait_for_background() {
  if (background_.joinable()) background_.join();
}

void CheckpointWriter::begin(CheckpointInfo info) {
  RAILYARD_CHECK(state_ == State::kIdle, "the save before was not published");
  std::string message;
  if (collectives_.rank() == 0) {
    try {
      message = fmt::format("+{}", make_temporary_folder(dir_, info.step).filename().string());
    } catch (const std::exception& error) {
      message = fmt::format("!{}", error.what());
    }
  }
  message = collectives_.broadcast(message);
  if (message.front() == '!') throw RunError(message.substr(1));
  temporary_ = dir_ / message.substr(1);
  info_ = std::move(info);
  staged_.clear();
  buffer_size_ = 0;
  written_ = false;
  state_ = State::kAdding;
}

std::byte* CheckpointWriter::stage(std::size_t bytes) {
  if (bytes > buffer_capacity_ - buffer_size_) {
    const std::size_t wanted = std::max(buffer_size_ + bytes, buffer_capacity_ + buffer_capacity_ / 2);
    void* grown = std::realloc(buffer_.get(), wanted);
    if (grown == nullptr)
      throw RunError("checkpoint: no host memory for a staging copy of {} bytes; use fewer ranks a node", wanted);
    static_cast<void>(buffer_.release());
    buffer_.reset(static_cast<std::byte*>(grown));
    buffer_capacity_ = wanted;
  }
  std::byte* at = buffer_.get() + buffer_size_;
  buffer_size_ += bytes;
  return at;
}

void CheckpointWriter::add(const Chunk& chunk) {
  RAILYARD_CHECK(state_ == State::kAdding, "add outside of a save");
  RAILYARD_CHECK(lies_inside(chunk.where, chunk.global_shape), "{}: {} + {} in {}", chunk.name,
                 shape_text(chunk.where.offset), shape_text(chunk.where.shape), shape_text(chunk.global_shape));
  const auto bytes = static_cast<std::size_t>(volume(chunk.where.shape)) * dtype_size(chunk.dtype);
  Staged staged{chunk.name, chunk.dtype, chunk.global_shape, chunk.where, buffer_size_, bytes, 0};
  if (bytes > 0) {
    RAILYARD_CHECK(chunk.data != nullptr, "{}", chunk.name);
    std::byte* to = stage(bytes);
    const auto* from = static_cast<const std::byte*>(chunk.data);
    const std::size_t rows = chunk.where.shape.empty() ? 1 : static_cast<std::size_t>(chunk.where.shape[0]);
    const std::size_t row = bytes / rows;
    if (chunk.row_stride == 0 || static_cast<std::size_t>(chunk.row_stride) == row) {
      staged.crc32c = copy_with_checksum(from, to, bytes, 0);
    } else {
      for (std::size_t i = 0; i < rows; ++i)
        staged.crc32c = copy_with_checksum(from + static_cast<std::ptrdiff_t>(i) * chunk.row_stride, to + i * row, row,
                                           staged.crc32c);
    }
  }
  staged_.push_back(std::move(staged));
}

void CheckpointWriter::finish(bool in_background) {
  RAILYARD_CHECK(state_ == State::kAdding, "finish outside of a save");
  state_ = State::kFinished;
  if (in_background) {
    background_ = std::thread([this] { write_part(); });
  } else {
    write_part();
  }
}

void CheckpointWriter::write_part() noexcept {
  try {
    part_ = fmt::format("+{}", write_file().to_text());
  } catch (const std::exception& error) {
    part_ = fmt::format("!{}", error.what());
  }
  written_.store(true, std::memory_order_release);
}

ManifestPart CheckpointWriter::write_file() const {
  ManifestPart part;
  std::vector<TensorEntry> entries;
  std::unordered_map<std::string, const Staged*> by_name;
  for (const Staged& staged : staged_) {
    auto [slot, fresh] = part.tensors.try_emplace(staged.tensor, ManifestTensor{staged.dtype, staged.global_shape, {}});
    if (!fresh && (slot->second.dtype != staged.dtype || slot->second.shape != staged.global_shape))
      throw RunError("tensor {} was added with two types or shapes", staged.tensor);
    if (staged.bytes == 0) continue;
    const std::string name = chunk_name(staged.tensor, staged.where.offset);
    entries.push_back({name, std::string(dtype_safetensors_name(staged.dtype)), staged.where.shape});
    by_name[name] = &staged;
  }
  if (entries.empty()) return part;
  const std::string start = layout_safetensors(entries, {{"format", "railyard"}}, kAlignment);
  if (!wait_until_visible(temporary_))
    throw RunError("{}: not visible on this node: checkpoint.dir must be on a file system that all nodes share",
                   temporary_.string());
  DirectFile file(temporary_ / file_name(collectives_.rank()));
  file.write(std::as_bytes(std::span(start)));
  for (const TensorEntry& entry : entries) {
    const Staged& staged = *by_name.at(entry.name);
    file.write({buffer_.get() + staged.begin, staged.bytes});
    part.tensors.at(staged.tensor).chunks.push_back({0, staged.where, start.size() + entry.begin, staged.crc32c});
  }
  file.finish();
  sync_directory(temporary_);
  part.file = ManifestFile{file_name(collectives_.rank()), start.size() + entries.back().end, start.size(),
                           crc32c(std::as_bytes(std::span(start)))};
  return part;
}

std::int64_t CheckpointWriter::publish() {
  RAILYARD_CHECK(state_ == State::kFinished, "publish outside of a save");
  wait_for_background();
  state_ = State::kIdle;
  const std::vector<std::string> parts = collectives_.gather(part_);
  part_.clear();
  std::string failure;
  if (collectives_.rank() == 0) {
    try {
      publish_on_rank_zero(parts);
    } catch (const std::exception& error) {
      failure = error.what();
      std::error_code ignored;
      fs::remove_all(temporary_, ignored);
    }
  }
  failure = collectives_.broadcast(failure);
  if (!failure.empty()) throw RunError("step {} was not saved: {}", info_.step, failure);
  return info_.step;
}

void CheckpointWriter::publish_on_rank_zero(const std::vector<std::string>& texts) {
  std::vector<ManifestPart> parts;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].front() == '!') throw RunError("rank {}: {}", rank, texts[rank].substr(1));
    parts.push_back(ManifestPart::parse(std::string_view(texts[rank]).substr(1)));
  }
  const Manifest manifest = Manifest::join(info_, std::move(parts));
  for (const ManifestFile& entry : manifest.files) {
    if (!wait_until_visible(temporary_ / entry.name))
      throw RunError("{}: not visible on rank 0: checkpoint.dir must be on a file system that all nodes share",
                     (temporary_ / entry.name).string());
    const std::uint64_t bytes = File::open(temporary_ / entry.name).size();
    if (bytes != entry.bytes)
      throw RunError("{}: has {} bytes, but {} were written", (temporary_ / entry.name).string(), bytes, entry.bytes);
  }
  publish_folder(dir_, temporary_, manifest);
  if (pruning_.joinable()) pruning_.join();
  pruning_ = std::thread([dir = dir_, step = info_.step, retention = retention_] {
    try {
      prune(dir, step, retention);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "railyard: warning: %s\n", error.what());
    }
  });
}

}  // namespace railyard
