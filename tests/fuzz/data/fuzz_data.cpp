// Feeds damaged files to the readers of data sets and tokenizers: whatever comes, they answer or refuse, and never
// crash.
//   fuzz_data TARGET SECONDS [SEED] : idx, npy, tokenizer, gpt2, tiktoken, jsonl. Build with the preset `asan` for a
//   long run.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "tests/fuzz/data/targets.hpp"

namespace {

namespace fs = std::filesystem;
using namespace railyard;
using namespace railyard::data::fuzz;

// A few bytes changed, cut out, doubled or set to values at the edges.
std::string mutate(std::string bytes, std::mt19937_64& random) {
  for (std::uint64_t changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    const std::size_t length = std::min<std::size_t>(1 + random() % 16, bytes.size() - at);
    switch (random() % 6) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1U << (random() % 8)));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(random() % bytes.size(), length));
        break;
      case 4:
        bytes.resize(at);
        break;
      default:
        for (std::size_t i = at; i < at + length; ++i) bytes[i] = random() % 2 == 0 ? '\xff' : '\0';
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const auto targets = all_targets();
  if (argc < 3 || !targets.contains(argv[1])) {
    std::fprintf(stderr, "usage: fuzz_data idx|npy|tokenizer|gpt2|tiktoken|jsonl SECONDS [SEED]\n");
    return kExitUsage;
  }
  std::string pattern = (fs::temp_directory_path() / "railyard-fuzz-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return kExitFailed;
  const fs::path folder = pattern;
  std::mt19937_64 random(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  const Target target = targets.at(argv[1])(folder);
  std::uint64_t refused = 0, taken = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[2]));
  std::string bytes = target.seed;
  while (std::chrono::steady_clock::now() < end) {
    try {
      target.read(folder, bytes);
      ++taken;
    } catch (const Error&) {
      ++refused;
    }
    bytes = mutate(target.seed, random);
  }
  fs::remove_all(folder);
  std::printf("%s: %llu files read, %llu refused\n", argv[1], static_cast<unsigned long long>(taken),
              static_cast<unsigned long long>(refused));
  return taken > 0 && refused > 0 ? kExitDone : kExitFailed;
}
