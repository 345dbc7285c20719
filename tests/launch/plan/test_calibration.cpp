// Calibration files: what is written is read, the right file is found, broken ones are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launch/plan/calibration.hpp"
#include "launch/plan/gpu_spec.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;

Calibration measured() {
  Calibration c;
  c.device = "NVIDIA H200";
  c.date = "2026-12-01";
  c.program = "railyard 0.1.0";
  c.copy_gb_s = 4250;
  c.gemm = {{"bf16", 8192, 4096, 14336, 690.5}, {"fp8", 8192, 8192, 8192, 1400}};
  c.attention = {{8192, 32, 128, "bf16", 584, 430}};
  c.comm = {{"all_gather", 8, 33554432, 240.5, "nvlink"}};
  return c;
}

TEST(Calibration, SurvivesAFile) {
  const TemporaryFolder folder;
  CalibrationSearch search;
  search.home = (folder.path() / "a/b").string();
  const fs::path written = store_calibration(measured(), search);
  EXPECT_EQ(written.filename(), "NVIDIA_H200.json");
  const auto found = find_calibration("NVIDIA H200", search);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, written);
  EXPECT_EQ(found->calibration.to_json(), measured().to_json());
}

TEST(Calibration, NewerEntriesReplaceOlderOfTheSameShape) {
  const TemporaryFolder folder;
  CalibrationSearch search;
  search.home = folder.path().string();
  store_calibration(measured(), search);
  Calibration newer;
  newer.device = "NVIDIA H200";
  newer.date = "2026-12-02";
  newer.program = "railyard 0.2.0";
  newer.gemm = {{"bf16", 8192, 4096, 14336, 701}, {"bf16", 1, 2, 3, 4}};
  store_calibration(newer, search);
  const auto found = find_calibration("NVIDIA H200", search);
  ASSERT_TRUE(found);
  const Calibration& c = found->calibration;
  EXPECT_EQ(c.date, "2026-12-02");
  ASSERT_EQ(c.gemm.size(), 3U);
  EXPECT_EQ(c.gemm[0].tflops, 701);
  EXPECT_EQ(c.copy_gb_s, 4250);
  EXPECT_EQ(c.attention.size(), 1U);
}

TEST(Calibration, IsFoundByAnyNameOfTheGpuAndNotForOthers) {
  const TemporaryFolder folder;
  CalibrationSearch search;
  search.site = folder.path().string();
  store_calibration(measured(), search);
  std::ofstream(folder.path() / "AAA.json") << "not JSON";
  EXPECT_TRUE(find_calibration("H200-SXM5-141GB", search));
  EXPECT_FALSE(find_calibration("H100-SXM5-80GB", search));
  EXPECT_FALSE(find_calibration("a card that nobody knows", search));
}

TEST(Calibration, TheVariableCountsFirst) {
  const TemporaryFolder folder;
  CalibrationSearch search;
  search.home = (folder.path() / "home").string();
  store_calibration(measured(), search);
  search.named = (folder.path() / "mine.json").string();
  EXPECT_THROW((void)find_calibration("NVIDIA H200", search), UsageError);  // named, and not there
  Calibration mine = measured();
  mine.copy_gb_s = 1;
  EXPECT_EQ(store_calibration(mine, search), *search.named);
  EXPECT_EQ(find_calibration("anything", search)->calibration.copy_gb_s, 1);
  search.named = (folder.path() / "folder").string();
  EXPECT_EQ(find_calibration("NVIDIA H200", search)->calibration.copy_gb_s, 4250);  // nothing there: the next place
}

TEST(Calibration, BadValuesAreNamed) {
  const auto refuse = [](const char* change, const char* message) {
    Json document = measured().to_json();
    document.merge_patch(Json::parse(change));
    try {
      (void)Calibration::from_json(document, "here.json");
      ADD_FAILURE() << change;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  };
  refuse(R"({"gemm": [{"dtype": "bf16", "m": 1, "n": 0, "k": 2, "tflops": 3}]})", "here.json: gemm[0]: n:");
  refuse(R"({"gemm": [{"dtype": "bf16", "m": 1.5, "n": 1, "k": 2, "tflops": 3}]})", "gemm[0]: m: an integer");
  refuse(R"({"gemm": [7]})", "gemm[0]: an object");
  refuse(R"({"gemm": 7})", "gemm: a list");
  refuse(R"({"comm": [{"operation": "x", "ranks": 1e9, "bytes": 1, "gb_s": 1, "class": "rail"}]})", "ranks");
  refuse(R"({"schema": 2})", "schema: 2 is not 1");
  refuse(R"({"copy_gb_s": -1})", "copy_gb_s");
  refuse(R"({"device": null})", "device: missing");
  EXPECT_THROW((void)Calibration::from_json(Json::array(), "here.json"), UsageError);
}

TEST(Calibration, AnUnwritablePlaceIsPassedOver) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "in the way";
  CalibrationSearch search;
  search.home = (folder.path() / "file/below").string();
  EXPECT_THROW((void)store_calibration(measured(), search), RunError);
  search.site = (folder.path() / "site").string();
  EXPECT_EQ(store_calibration(measured(), search).parent_path(), folder.path() / "site");
}

TEST(GpuSpec, IsFoundByTheNamesInUse) {
  const auto name = [](const char* of) { return find_gpu(of) ? find_gpu(of)->name : std::string("none"); };
  EXPECT_EQ(name("H100-SXM5-80GB"), "H100-SXM5-80GB");
  EXPECT_EQ(name("NVIDIA H100 80GB HBM3"), "H100-SXM5-80GB");
  EXPECT_EQ(name("NVIDIA H100 PCIe"), "H100-PCIe-80GB");
  EXPECT_EQ(name("NVIDIA H200"), "H200-SXM5-141GB");
  EXPECT_EQ(name("NVIDIA A100-SXM4-80GB"), "A100-SXM4-80GB");
  EXPECT_EQ(name("NVIDIA A100-SXM4-40GB"), "A100-SXM4-40GB");
  EXPECT_EQ(name("NVIDIA A100 80GB PCIe"), "A100-PCIe-80GB");
  EXPECT_EQ(name("GB200-186GB"), "GB200-186GB");
  EXPECT_EQ(name("NVIDIA GH200 480GB"), "GH200-96GB");
  EXPECT_EQ(name("AMD Instinct MI300X"), "none");
  EXPECT_EQ(name(""), "none");
}

}  // namespace
}  // namespace railyard::launch
