// libFuzzer: any bytes as the file of a target, which is the program's own name behind "fuzz_".
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "tests/fuzz/data/targets.hpp"

namespace {

namespace fs = std::filesystem;
using namespace railyard;

struct Subject {
  fs::path folder;
  data::fuzz::Target target;
};
std::unique_ptr<Subject> subject;  // libFuzzer has no place for it

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string program = fs::path((*argv)[0]).filename().string(), name = program.substr(program.find('_') + 1);
  const auto targets = data::fuzz::all_targets();
  std::string pattern = (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) / "fuzz-XXXXXX";
  if (!targets.contains(name) || ::mkdtemp(pattern.data()) == nullptr) {
    std::fprintf(stderr, "%s: no such target, or no temporary folder\n", name.c_str());
    return kExitUsage;
  }
  subject = std::make_unique<Subject>(Subject{pattern, targets.at(name)(pattern)});
  // A valid file to begin with, in the corpus folder.
  if (const fs::path corpus = (*argv)[*argc - 1]; fs::is_directory(corpus))
    data::fuzz::put(corpus / "seed", subject->target.seed);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    subject->target.read(subject->folder, std::string(reinterpret_cast<const char*>(bytes), size));
  } catch (const Error&) {
  }
  return 0;
}
