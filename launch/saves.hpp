// How long a run's saves took: log/saves.jsonl, one object a save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace railyard::launch {

// Appends {"step":N,"seconds":S}; problems are swallowed: it is a hint for later starts.
void record_save(const std::filesystem::path& run_dir, std::int64_t step, double seconds) noexcept;

// Seconds of the last `most` saves, oldest first.
[[nodiscard]] std::vector<double> last_saves(const std::filesystem::path& run_dir, std::size_t most = 10);

}  // namespace railyard::launch
