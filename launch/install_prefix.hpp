// Where the program is installed.
#pragma once

#include <filesystem>
#include <optional>

namespace railyard::launch {

// PREFIX of a program that runs as PREFIX/bin/railyard; nothing when it runs from a build folder.
std::optional<std::filesystem::path> install_prefix();

}  // namespace railyard::launch
