// GPUs' health through a driver library of our own (programs/fake_nvml.cpp), in processes that load it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/health/node_check.hpp"
#include "launch/health/nvml.hpp"
#include "launch/process.hpp"

namespace railyard::launch {
namespace {

CommandResult with_fake_driver(const std::vector<std::string>& command) {
  Environment environment = current_environment();
  environment["LD_LIBRARY_PATH"] = RAILYARD_BINARY_DIR "/fake-nvml";
  return run_command(command, 30, &environment);
}

TEST(GpuHealth, NamesWhatIsWrongWithAGpu) {
  const auto result = with_fake_driver({RAILYARD_BINARY_DIR "/railyard", "check-node", "--no-speed"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const NodeReport report = NodeReport::from_json(parse_json(result.output, "check-node"));
  EXPECT_EQ(report.facts.at("gpus"), 2);
  EXPECT_EQ(report.facts.at("gpu_name"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(report.facts.at("gpu_memory_gib"), 80.0);
  std::vector<std::string> words, fatal;
  for (const Finding& finding : report.findings) {
    if (!finding.word.starts_with("gpu")) continue;
    EXPECT_THAT(finding.text, testing::StartsWith("gpu1 (NVIDIA H100 80GB HBM3) "));
    words.push_back(finding.word);
    if (finding.fatal) fatal.push_back(finding.word);
  }
  EXPECT_THAT(words, testing::UnorderedElementsAre("gpu_ecc", "gpu_remap_failed", "gpu_remap_pending", "gpu_throttled",
                                                   "gpu_pcie", "gpu_nvlink", "gpu_nvlink_errors", "gpu_in_use"));
  EXPECT_THAT(fatal, testing::UnorderedElementsAre("gpu_ecc", "gpu_remap_failed", "gpu_remap_pending"));
}

TEST(GpuHealth, HearsOfCriticalErrors) {
  const auto result = with_fake_driver({RAILYARD_BINARY_DIR "/xid_probe"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, "1 79\n");
}

TEST(GpuHealth, NamesThrottlingThatNobodyWants) {
  EXPECT_EQ(throttle_text(0x1 | 0x4), "");  // idle, and the owner's power cap
  EXPECT_EQ(throttle_text(0x40), "too hot (hardware)");
  EXPECT_EQ(throttle_text(0x88), "hardware slowdown, power brake");
}

}  // namespace
}  // namespace railyard::launch
