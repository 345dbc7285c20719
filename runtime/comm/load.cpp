// Loads the shared objects of MPI and CUDA when a job first needs them.
#include "runtime/comm/load.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/comm/shared_object.hpp"

namespace railyard {
namespace {

// What was not built, as told when no file is there.
struct Part {
  const char* file;
  const char* symbol;
  const char* remedy;
};

constexpr Part kMpi{"librailyard_mpi.so", "railyard_mpi_library",
                    "build Railyard where an MPI is installed (libopenmpi-dev)"};
constexpr Part kCuda{"librailyard_cuda.so", "railyard_cuda_library",
                     "build Railyard where the CUDA toolkit is installed"};

std::vector<std::filesystem::path> candidates(const char* file) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw RunError("/proc/self/exe: {}", error.message());
  const std::filesystem::path folder = program.parent_path();
  return {folder / file, folder / ".." / "lib" / "railyard" / file};
}

// Libraries are never unloaded: MPI and CUDA keep threads and exit handlers.
template <class Library>
const Library& load(const Part& part) {
  std::string tried;
  for (const std::filesystem::path& path : candidates(part.file)) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      tried += (tried.empty() ? "" : " and ") + path.lexically_normal().string();
      continue;
    }
    // Global, because MPI's own plug-ins look for its symbols.
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) throw RunError("cannot load {}: {}", path.lexically_normal().string(), dlerror());
    using Entry = const Library* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(handle, part.symbol));
    if (entry == nullptr) throw RunError("{} is no part of Railyard: it has no {}", path.string(), part.symbol);
    const Library* library = entry();
    if (library->interface != kSharedObjectInterface)
      throw RunError("{} is from another build (interface {}, the program has {}): build or install both together",
                     path.lexically_normal().string(), library->interface, kSharedObjectInterface);
    return *library;
  }
  throw RunError("{} is not there (looked for {}): {}", part.file, tried, part.remedy);
}

const MpiLibrary& mpi_library() {
  static const MpiLibrary& library = load<MpiLibrary>(kMpi);
  return library;
}

const CudaLibrary& cuda_library() {
  static const CudaLibrary& library = load<CudaLibrary>(kCuda);
  return library;
}

}  // namespace

MpiWorld initialize_mpi() { return mpi_library().initialize(); }

std::unique_ptr<Communicator> make_mpi_communicator(Backend& backend, const CommunicatorOptions& options) {
  return mpi_library().make_communicator(backend, options);
}

void finalize_mpi() { mpi_library().finalize(); }

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) { return cuda_library().make_backend(options); }

std::unique_ptr<Communicator> make_nccl_communicator(Backend& backend, Communicator& host,
                                                     const CommunicatorOptions& options) {
  return cuda_library().make_nccl_communicator(backend, host, options);
}

}  // namespace railyard
