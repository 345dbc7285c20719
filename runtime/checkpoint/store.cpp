// Listing, verifying, choosing and pruning checkpoints.
#include "runtime/checkpoint/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <set>
#include <system_error>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/error.hpp"
#include "runtime/checkpoint/file.hpp"
#include "runtime/checkpoint/safetensors.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kTrash = ".trash";
constexpr std::size_t kReadPiece = 4 << 20;
constexpr char kNoneLeft = '=';

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* begin = name.data() + kStepPrefix.size();
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0 || name != step_folder({}, step).string()) return std::nullopt;
  return step;
}

std::string read_whole(const fs::path& path) {
  const File file = File::open(path);
  std::string text(file.size(), '\0');
  file.read_at(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void check_lengths(const fs::path& folder, const Manifest& manifest) {
  for (const ManifestFile& entry : manifest.files) {
    const std::uint64_t bytes = File::open(folder / entry.name).size();
    if (bytes != entry.bytes)
      throw UsageError("{}: has {} bytes, but {} were written", (folder / entry.name).string(), bytes, entry.bytes);
  }
}

struct PlacedChunk {
  const std::string* tensor;
  DType dtype;
  const ManifestChunk* chunk;
};

// The checksum of a stretch of a file.
std::uint32_t checksum_of(const File& file, std::uint64_t position, std::uint64_t bytes, std::vector<std::byte>& buffer,
                          const std::function<void(std::uint64_t)>& progress) {
  std::uint32_t crc = 0;
  while (bytes > 0) {
    buffer.resize(std::min<std::uint64_t>(bytes, kReadPiece));
    file.read_at(buffer, position);
    crc = crc32c(buffer, crc);
    position += buffer.size();
    bytes -= buffer.size();
    if (progress) progress(buffer.size());
  }
  return crc;
}

void verify_file(const fs::path& folder, const ManifestFile& entry, const std::vector<PlacedChunk>& chunks,
                 const std::function<void(std::uint64_t)>& progress, std::vector<std::string>& faults) {
  const fs::path path = folder / entry.name;
  const File file = File::open(path);
  if (file.size() != entry.bytes)
    throw UsageError("{}: has {} bytes, but {} were written", path.string(), file.size(), entry.bytes);
  std::vector<std::byte> buffer;
  if (checksum_of(file, 0, entry.header_bytes, buffer, {}) != entry.header_crc32c)
    throw UsageError("{}: the header's checksum does not fit: damaged", path.string());
  const SafetensorsReader reader(path);
  if (reader.data_position() != entry.header_bytes || reader.tensors().size() != chunks.size())
    throw UsageError("{}: does not hold the tensors that the manifest lists", path.string());
  for (const PlacedChunk& placed : chunks) {
    const std::string name = chunk_name(*placed.tensor, placed.chunk->where.offset);
    const TensorEntry& tensor = reader.at(name);
    if (tensor.dtype != dtype_safetensors_name(placed.dtype) || tensor.shape != placed.chunk->where.shape ||
        tensor.begin + entry.header_bytes != placed.chunk->position) {
      faults.push_back(fmt::format("{}: {} is not where the manifest says", path.string(), name));
    } else if (checksum_of(file, placed.chunk->position, tensor.bytes(), buffer, progress) != placed.chunk->crc32c) {
      faults.push_back(fmt::format("{}: the checksum of {} does not fit: damaged", path.string(), name));
    }
  }
}

// A verdict on one candidate, the same on all ranks: the share of each is read by itself, rank 0 collects the faults.
std::vector<std::string> verify_together(const fs::path& folder, const Manifest& manifest, Collectives& collectives) {
  const Share share{static_cast<std::size_t>(collectives.rank()), static_cast<std::size_t>(collectives.size())};
  std::string text;
  for (const std::string& fault : verify_files(folder, manifest, share)) text += fault + "\n";
  std::vector<std::string> faults;
  for (const std::string& part : collectives.gather(text)) {
    for (std::size_t begin = 0; begin < part.size();) {
      const std::size_t end = part.find('\n', begin);
      faults.push_back(part.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return faults;
}

// Makes a name free at once; what it held is deleted later.
void move_to_trash(const fs::path& dir, const fs::path& folder) {
  std::error_code error;
  fs::create_directory(dir / kTrash, error);
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  rename_path(folder, dir / kTrash / fmt::format("{}.{:x}-{:x}", folder.filename().string(), now, ::getpid()));
}

}  // namespace

fs::path step_folder(const fs::path& dir, std::int64_t step) { return dir / fmt::format("{}{}", kStepPrefix, step); }

std::vector<std::int64_t> list_steps(const fs::path& dir) {
  std::set<std::int64_t, std::greater<>> steps;
  std::error_code error;
  fs::directory_iterator entries(dir, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  while (!error && entries != fs::directory_iterator()) {
    if (const auto step = step_of(entries->path().filename().string())) steps.insert(*step);
    entries.increment(error);
  }
  if (error) throw UsageError("{}: cannot list the checkpoints: {}", dir.string(), error.message());
  // A listing may be stale on a network file system; the hint names the newest one.
  if (fs::exists(dir / "latest", error)) {
    std::string hint = read_whole(dir / "latest");
    while (!hint.empty() && hint.back() == '\n') hint.pop_back();
    const auto step = step_of(hint);
    if (step && fs::exists(step_folder(dir, *step), error)) steps.insert(*step);
  }
  return {steps.begin(), steps.end()};
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  Manifest manifest = Manifest::parse(read_whole(path), path.string());
  const auto step = step_of(folder.filename().string());
  if (step && *step != manifest.info.step)
    throw UsageError("{}: is the manifest of step {}", path.string(), manifest.info.step);
  check_lengths(folder, manifest);
  return manifest;
}

std::vector<std::string> verify_files(const fs::path& folder, const Manifest& manifest, Share share,
                                      const std::function<void(std::uint64_t)>& progress) {
  std::vector<std::vector<PlacedChunk>> by_file(manifest.files.size());
  for (const auto& [name, tensor] : manifest.tensors)
    for (const ManifestChunk& chunk : tensor.chunks) by_file[chunk.file].push_back({&name, tensor.dtype, &chunk});
  std::vector<std::string> faults;
  for (std::size_t i = share.first; i < manifest.files.size(); i += share.of) {
    std::sort(by_file[i].begin(), by_file[i].end(),
              [](const PlacedChunk& a, const PlacedChunk& b) { return a.chunk->position < b.chunk->position; });
    try {
      verify_file(folder, manifest.files[i], by_file[i], progress, faults);
    } catch (const std::exception& error) {  // whatever it is, the other ranks wait for a verdict
      faults.emplace_back(error.what());
    }
  }
  return faults;
}

std::optional<std::int64_t> latest_valid(const fs::path& dir, Collectives& collectives,
                                         const std::function<void(const std::string&)>& report) {
  // Rank 0 alone reads the folder; what it says goes to the others: "+manifest" to verify, "=" none is left, "!error".
  std::vector<std::int64_t> steps;
  std::size_t next = 0;
  std::string message;
  if (collectives.rank() == 0) {
    try {
      steps = list_steps(dir);
    } catch (const Error& error) {
      message = fmt::format("!{}", error.what());
    }
  }
  while (true) {
    if (collectives.rank() == 0 && message.empty()) {
      message.assign(1, kNoneLeft);
      for (; next < steps.size(); ++next) {
        try {
          message = fmt::format("+{}", read_manifest(step_folder(dir, steps[next])).to_text());
          break;
        } catch (const std::exception& error) {
          report(fmt::format("checkpoint of step {} rejected: {}", steps[next], error.what()));
        }
      }
    }
    message = collectives.broadcast(message);
    if (message.front() == kNoneLeft) return std::nullopt;
    if (message.front() == '!') throw UsageError(message.substr(1));
    const Manifest manifest = Manifest::parse(std::string_view(message).substr(1), kManifestName);
    const std::int64_t step = manifest.info.step;
    const auto faults = verify_together(step_folder(dir, step), manifest, collectives);
    const bool valid = collectives.broadcast(faults.empty() ? "valid" : "damaged") == "valid";
    if (valid) return step;
    if (collectives.rank() == 0) {
      const std::string more = faults.size() > 1 ? fmt::format(" (and {} more)", faults.size() - 1) : "";
      report(fmt::format("checkpoint of step {} rejected: {}{}", step, faults.front(), more));
      ++next;
    }
    message.clear();
  }
}

std::vector<std::int64_t> prune(const fs::path& dir, std::int64_t published, const Retention& retention) {
  std::vector<std::int64_t> removed;
  std::int64_t kept = 1;
  for (const std::int64_t step : list_steps(dir)) {
    if (step >= published || retention.keep == 0) continue;
    const fs::path folder = step_folder(dir, step);
    try {
      static_cast<void>(read_manifest(folder));
    } catch (const Error&) {
      continue;
    }
    if (kept < retention.keep) {
      ++kept;
      continue;
    }
    if (retention.keep_every > 0 && step % retention.keep_every == 0) continue;
    if (File::open(folder / kManifestName).lock_is_held()) continue;
    move_to_trash(dir, folder);
    removed.push_back(step);
  }
  std::error_code error;
  fs::remove_all(dir / kTrash, error);
  if (error) throw RunError("{}: cannot delete old checkpoints: {}", (dir / kTrash).string(), error.message());
  return removed;
}

void remove_leftovers(const fs::path& dir) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entries(dir, error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name == kTrash || name.starts_with("latest.tmp-") ||
        (name.starts_with(kStepPrefix) && name.find(".tmp-") != std::string::npos))
      leftovers.push_back(entries->path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

fs::path make_temporary_folder(const fs::path& dir, std::int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  fs::path folder = dir / fmt::format("{}.tmp-{:x}-{:x}", step_folder({}, step).string(), now, ::getpid());
  make_directory(folder);
  return folder;
}

void publish_folder(const fs::path& dir, const fs::path& temporary, const Manifest& manifest) {
  write_new_file(temporary / kManifestName, manifest.to_text());
  sync_directory(temporary);
  const fs::path final_folder = step_folder(dir, manifest.info.step);
  std::error_code error;
  if (fs::exists(final_folder, error)) {
    // A run that went back to an older step saves this one again: the name never stands for nothing in between, where
    // the file system can swap two names.
    if (exchange_paths(temporary, final_folder)) {
      move_to_trash(dir, temporary);
    } else {
      move_to_trash(dir, final_folder);
      rename_path(temporary, final_folder);
    }
  } else {
    rename_path(temporary, final_folder);
  }
  sync_directory(dir);
  // Only a hint: the step is saved without it.
  try {
    write_file_atomic(dir / "latest", final_folder.filename().string() + "\n");
  } catch (const Error&) {
    fs::remove(dir / "latest", error);
  }
}

}  // namespace railyard
