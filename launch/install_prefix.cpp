// Finds the install prefix from the path of the running program.
#include "launch/install_prefix.hpp"

#include <system_error>

namespace railyard::launch {

std::optional<std::filesystem::path> install_prefix() {
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || program.parent_path().filename() != "bin") return std::nullopt;
  return program.parent_path().parent_path();
}

}  // namespace railyard::launch
