// The folder of a run's checkpoints: DIR/step-N/ each, DIR/latest as a hint, DIR/.trash on its way out. The truth is a
// scan for valid manifests, newest first; a folder that is not named step-N is never taken for a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/collectives.hpp"
#include "runtime/checkpoint/manifest.hpp"

namespace railyard {

[[nodiscard]] std::filesystem::path step_folder(const std::filesystem::path& dir, std::int64_t step);

// Steps that have a folder, newest first, valid or not; empty when DIR does not exist. UsageError when it cannot be
// read.
[[nodiscard]] std::vector<std::int64_t> list_steps(const std::filesystem::path& dir);

// Reads and checks the manifest of one checkpoint, and that its files exist with the recorded lengths. UsageError.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

// Which of a checkpoint's files to verify: every `of`-th, from `first`.
struct Share {
  std::size_t first = 0;
  std::size_t of = 1;
};

// Reads the files of a share whole and compares lengths, headers and the checksum of every chunk. One line a fault,
// naming file and tensor; empty when all is well. `progress` (may be empty) is told the bytes read since its last call.
[[nodiscard]] std::vector<std::string> verify_files(const std::filesystem::path& folder, const Manifest& manifest,
                                                    Share share = {},
                                                    const std::function<void(std::uint64_t)>& progress = {});

// The newest checkpoint of DIR whose every byte is as it was written, or nothing. Collective: rank 0 looks, all ranks
// verify a share of its files, rank 0 decides, all get the same answer. `report` is called on rank 0 with one line for
// each newer checkpoint that was rejected.
[[nodiscard]] std::optional<std::int64_t> latest_valid(const std::filesystem::path& dir, Collectives& collectives,
                                                       const std::function<void(const std::string&)>& report);

// What to keep besides the newest: the last `keep` (0: all) and each step that `keep_every` (0: none) divides.
struct Retention {
  std::int64_t keep = 0;
  std::int64_t keep_every = 0;
};

// After `published` was verified: moves older checkpoints that need not be kept to .trash and deletes them there.
// Leaves alone what is newer, damaged, or being read. Returns the steps removed. RunError when a removal fails.
std::vector<std::int64_t> prune(const std::filesystem::path& dir, std::int64_t published, const Retention& retention);

// Deletes what killed programs left: half-written checkpoints and trash. Only for the owner of the run.
void remove_leftovers(const std::filesystem::path& dir);

// A new folder DIR/step-N.tmp-... to fill; RunError.
[[nodiscard]] std::filesystem::path make_temporary_folder(const std::filesystem::path& dir, std::int64_t step);

// Makes a filled and synced folder the checkpoint of its step: manifest, syncs, rename, sync of DIR, hint. An older one
// of the same step gives way at that instant. RunError; then the old one, if any, still stands.
void publish_folder(const std::filesystem::path& dir, const std::filesystem::path& temporary, const Manifest& manifest);

}  // namespace railyard
