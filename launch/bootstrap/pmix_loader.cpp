// Loads the PMIx bootstrap when it is used.
#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "launch/bootstrap/bootstrap.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {

std::unique_ptr<Bootstrap> make_pmix_bootstrap(const BootstrapOptions& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array<fs::path, 2> places = {beside / "librailyard_pmix.so",
                                          beside.parent_path() / "lib/railyard/librailyard_pmix.so"};
  std::string why =
      "it is neither in " + places[0].parent_path().string() + " nor in " + places[1].parent_path().string();
  for (const fs::path& place : places) {
    if (!fs::exists(place, ignored)) continue;
    // Global: PMIx loads components of its own, which look up its symbols.
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      why = dlerror();
      continue;
    }
    using Maker = Bootstrap* (*)(double);
    const auto make = reinterpret_cast<Maker>(dlsym(library, "railyard_make_pmix_bootstrap"));
    if (make == nullptr) throw RunError("{}: not of this version of the program", place.string());
    return std::unique_ptr<Bootstrap>(make(options.timeout));
  }
  throw RunError(
      "started under PMIx, but librailyard_pmix.so cannot be loaded: {}; is libpmix (package libpmix2) installed on "
      "{}?",
      why, host_name());
}

}  // namespace railyard::launch
