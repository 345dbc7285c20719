// Logits of imported Hugging Face models equal those of transformers in fp32 (hf/*.json,
// tests/parity/make_hf_models.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/checkpoint/hf/convert.hpp"
#include "runtime/train/sampler.hpp"
#include "tests/runtime/checkpoint/hf_case.hpp"
#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

class HuggingFaceLogits : public testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceLogits, EqualThoseOfTransformers) {
  const Json figures = read_json_file(hugging_face_cases() / (GetParam() + ".json"));
  Folder folder;
  make_folder(GetParam(), folder.path() / "hf");
  const ImportedModel imported = import_hf(folder.path() / "hf", folder.path() / "ckpt", {});
  JobSpec job = gpt_job();
  job.model = *imported.model.spec;
  const auto backend = make_cpu_backend({.threads = 1});
  LoadedModel model(job, step_folder(folder.path() / "ckpt", 0), *backend);
  const auto tokens = figures["tokens"].get<std::vector<std::int32_t>>();
  const auto expected = figures["logits_of_last_two"].get<std::vector<std::vector<double>>>();
  double largest = 0.0;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto logits = model.logits(std::span(tokens).first(tokens.size() - 1 + i));
    ASSERT_EQ(logits.size(), expected[i].size());
    for (std::size_t v = 0; v < logits.size(); ++v)
      largest = std::max(largest, std::abs(static_cast<double>(logits[v]) - expected[i][v]));
  }
  std::printf("%-12s largest difference of a logit %.1e\n", GetParam().c_str(), largest);
  EXPECT_LT(largest, 1e-4);
}

// Those whose layers exist.
std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(hugging_face_cases())) {
    const Json config = read_json_file(entry.path())["config"];
    if (read_hf_config(config, entry.path().string()).spec) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, HuggingFaceLogits, testing::ValuesIn(case_names()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace railyard::test
