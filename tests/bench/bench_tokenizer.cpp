// Encodes files with one tokenizer on one thread: prints megabytes a second and, on request, writes all ids.
//   bench_tokenizer TYPE:PATH LIST [IDS] : LIST names a file a line, each one document; IDS gets int32 ids, each
//   document's count first. Every document is decoded again and compared, outside of the time taken.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

int main(int argc, char** argv) {
  using namespace railyard;
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_tokenizer TYPE:PATH LIST [IDS]\n");
    return kExitUsage;
  }
  try {
    using Clock = std::chrono::steady_clock;
    const auto seconds_since = [](Clock::time_point start) {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    const auto opened = Clock::now();
    const auto tokenizer = data::open_tokenizer(data::parse_tokenizer_spec(argv[1]));
    const double open_s = seconds_since(opened);
    std::vector<std::string> documents;
    std::size_t bytes = 0, tokens = 0, different = 0;
    std::ifstream list(argv[2]);
    for (std::string name; std::getline(list, name);) {
      documents.push_back(read_file(name));
      bytes += documents.back().size();
    }
    std::vector<std::vector<std::int32_t>> ids(documents.size());
    const auto start = Clock::now();
    for (std::size_t i = 0; i < documents.size(); ++i) tokenizer->encode(documents[i], ids[i]);
    const double encode_s = seconds_since(start);
    std::ofstream out;
    if (argc > 3) out.open(argv[3], std::ios::binary);
    for (std::size_t i = 0; i < documents.size(); ++i) {
      tokens += ids[i].size();
      std::string back;
      tokenizer->decode(ids[i], back);
      different += back != documents[i] ? 1 : 0;
      const auto count = static_cast<std::int32_t>(ids[i].size());
      out.write(reinterpret_cast<const char*>(&count), sizeof count);
      out.write(reinterpret_cast<const char*>(ids[i].data()),
                static_cast<std::streamsize>(ids[i].size() * sizeof(std::int32_t)));
    }
    fmt::print(
        "{{\"bytes\": {}, \"tokens\": {}, \"open_s\": {:.3f}, \"encode_s\": {:.3f}, \"mb_per_s\": {:.1f}, "
        "\"documents\": {}, \"changed_by_round_trip\": {}}}\n",
        bytes, tokens, open_s, encode_s, static_cast<double>(bytes) / encode_s / 1e6, documents.size(), different);
    return kExitDone;
  } catch (const Error& error) {
    std::fprintf(stderr, "bench_tokenizer: %s\n", error.what());
    return error.exit_code();
  }
}
