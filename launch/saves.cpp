// Writes and reads log/saves.jsonl.
#include "launch/saves.hpp"

#include <fstream>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {
namespace {

std::filesystem::path file_of(const std::filesystem::path& run_dir) { return run_dir / "log" / "saves.jsonl"; }

}  // namespace

void record_save(const std::filesystem::path& run_dir, std::int64_t step, double seconds) noexcept {
  try {
    std::ofstream(file_of(run_dir), std::ios::app)
        << fmt::format("{{\"step\":{},\"seconds\":{:.3f}}}\n", step, seconds);
  } catch (const std::exception&) {
    // A full disk ends the run by the save itself.
  }
}

std::vector<double> last_saves(const std::filesystem::path& run_dir, std::size_t most) {
  std::vector<double> seconds;
  std::ifstream file(file_of(run_dir));
  for (std::string line; std::getline(file, line);) {
    try {
      seconds.push_back(parse_json(line, "saves.jsonl").at("seconds").get<double>());
    } catch (const std::exception&) {
      continue;  // cut off by a kill
    }
  }
  if (seconds.size() > most) seconds.erase(seconds.begin(), seconds.end() - static_cast<std::ptrdiff_t>(most));
  return seconds;
}

}  // namespace railyard::launch
