// Saves the given steps, keeping two, and says so once each is safe. Values tell the step. Usage: checkpoint_saver DIR
// STEP...
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/checkpoint/writer.hpp"

int main(int argc, char** argv) {
  using namespace railyard;
  try {
    SingleProcess alone;
    CheckpointWriter writer(alone, argv[1], {.keep = 2});
    for (int i = 2; i < argc; ++i) {
      const std::int64_t step = std::atol(argv[i]);
      const std::vector<float> values(300, static_cast<float>(step));
      writer.begin({.step = step, .consumed_samples = step});
      writer.add({"w", DType::kFloat32, {30, 10}, {{0, 0}, {30, 4}}, values.data(), 0});
      writer.add({"w", DType::kFloat32, {30, 10}, {{0, 4}, {30, 6}}, values.data(), 0});
      writer.finish(true);
      writer.publish();
      std::printf("saved %ld\n", static_cast<long>(step));
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
  return 0;
}
