// JSON values keep the order in which keys were written: job.json and metrics.jsonl are read by people.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace railyard {

using Json = nlohmann::ordered_json;

// Parses `text`; on failure throws UsageError naming `source`, line and column. Nesting deeper than 256 is refused.
Json parse_json(std::string_view text, const std::string& source);

// Reads and parses a file; UsageError when it cannot be read or parsed.
Json read_json_file(const std::filesystem::path& path);

// The whole content of a file; UsageError when it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Replaces `path` so that a reader, or a crash at any moment, sees the old or the new content, never a part:
// writes beside it, fsyncs, renames, fsyncs the folder. RunError (with errno's text) when any of these fails.
void write_file_atomic(const std::filesystem::path& path, std::string_view content);

}  // namespace railyard
