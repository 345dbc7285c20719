// Writes the samples of a blended data set, for comparison with Megatron's.
//   dump_samples SEQ_LENGTH SEED SPLIT TRAIN_SAMPLES VALID_SAMPLES OUT PREFIX[=WEIGHT]... : OUT.train and OUT.valid get
//   seq_length + 1 int32 tokens a sample, in the order in which training uses them.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/data/dataset.hpp"

namespace {

void dump(const railyard::data::Dataset& dataset, std::int64_t samples, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.seq_length()) + 1);
  for (std::int64_t n = 0; n < samples; ++n) {
    if (dataset.window(n, tokens) != dataset.seq_length() + 1) throw railyard::RunError("sample {} is short", n);
    out.write(reinterpret_cast<const char*>(tokens.data()),
              static_cast<std::streamsize>(tokens.size() * sizeof(std::int32_t)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace railyard;
  if (argc < 8) {
    std::fprintf(stderr,
                 "usage: dump_samples SEQ_LENGTH SEED SPLIT TRAIN_SAMPLES VALID_SAMPLES OUT PREFIX[=WEIGHT]...\n");
    return kExitUsage;
  }
  try {
    const std::int64_t train = std::atoll(argv[4]), valid = std::atoll(argv[5]);
    JobSpec job;
    job.model.seq_length = std::atoll(argv[1]);
    job.train.seed = static_cast<std::uint64_t>(std::atoll(argv[2]));
    job.data.split = argv[3];
    job.data.sampling = "sequential";
    job.train.global_batch = 1;
    job.train.iterations = train;
    job.eval.every = train + 1;  // one evaluation
    job.eval.batches = valid;
    for (int i = 7; i < argc; ++i) {
      const std::string text = argv[i];
      const std::size_t equals = text.find('=');
      DataSource source{text.substr(0, equals), std::nullopt};
      if (equals != std::string::npos) source.weight = std::atof(text.c_str() + equals + 1);
      job.data.train.push_back(source);
    }
    const std::string out = argv[6];
    const data::DataSplits splits = data::open_splits(job, {.run_dir = out + ".run", .data_root = {}});
    dump(*splits.train, train, out + ".train");
    if (splits.valid) dump(*splits.valid, valid, out + ".valid");
    return kExitDone;
  } catch (const Error& error) {
    std::fprintf(stderr, "dump_samples: %s\n", error.what());
    return error.exit_code();
  }
}
