// Loss and every gradient against figures made by PyTorch in float64 (tests/parity/make_figures.py), on one rank and
// split.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/checkpoint/writer.hpp"
#include "runtime/data/indexed_writer.hpp"
#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

std::filesystem::path figures() { return std::filesystem::path(RAILYARD_SOURCE_DIR) / "tests/parity/figures"; }

std::map<std::string, std::pair<Extents, std::vector<float>>> read_safetensors(const std::filesystem::path& path) {
  SafetensorsReader reader(path);
  std::map<std::string, std::pair<Extents, std::vector<float>>> tensors;
  for (const TensorEntry& entry : reader.tensors()) {
    auto& [shape, values] = tensors[entry.name];
    shape = entry.shape;
    values.resize(static_cast<size_t>(volume(entry.shape)));
    reader.read(entry, 0, std::as_writable_bytes(std::span(values)));
  }
  return tensors;
}

// A checkpoint of the figures' weights, for init_from.
void write_initial(const std::filesystem::path& dir, const std::string& name) {
  SingleProcess alone;
  CheckpointWriter writer(alone, dir, {});
  writer.begin({});
  for (const auto& [tensor, content] : read_safetensors(figures() / (name + ".weights.safetensors")))
    writer.add({.name = tensor,
                .dtype = DType::kFloat32,
                .global_shape = content.first,
                .where = {Extents(content.first.size(), 0), content.first},
                .data = content.second.data()});
  writer.finish(false);
  writer.publish();
}

// One step at a rate of zero from the figures' weights: exp_avg then holds (1 - beta1) times the gradient.
JobSpec parity_job(const Json& figure, const Folder& folder) {
  JobSpec job = gpt_job();
  job.model = {.layers = figure["layers"],
               .hidden = figure["hidden"],
               .heads = figure["heads"],
               .kv_heads = figure["kv_heads"],
               .head_dim = figure["head_dim"],
               .ffn = figure["ffn"],
               .vocab = figure["vocab"],
               .vocab_divisible_by = 1,
               .seq_length = figure["seq_length"],
               .max_positions = figure["seq_length"],
               .norm = figure["norm"],
               .activation = figure["activation"],
               .position = figure["position"],
               .rotary_percent = figure.value("rotary_percent", 1.0),
               .bias = figure["bias"],
               .qkv_bias = figure.value("qkv_bias", false),
               .qk_norm = figure.value("qk_norm", false),
               .window = figure.value("window", 0),
               .tied_embeddings = figure["tied"]};
  job.data.mock = false;
  job.data.tokenizer = TokenizerSpec{"bytes", ""};
  job.data.split = "100,0,0";
  if (figure.contains("ends")) {
    const auto tokens = figure["tokens"].get<std::vector<std::int32_t>>();
    data::IndexedWriter writer(folder.path() / "tokens", data::TokenType::kUInt16);
    writer.add(tokens);
    writer.end_document();
    writer.finish();
    job.data.train = {{"tokens", std::nullopt}};
    job.data.reset_attention_mask = job.data.reset_position_ids = job.data.eod_mask_loss = true;
  } else {
    std::ofstream(folder.path() / "text.txt") << figure["text"].get<std::string>();
    job.data.text = "text.txt";
  }
  job.train.iterations = 1;
  job.train.micro_batch = 1;
  job.train.global_batch = figure["batch"];
  job.train.lr = {.schedule = "constant", .peak = 0.0, .min = 0.0, .init = 0.0, .decay_iterations = 1};
  job.train.optimizer.clip_grad = 0.0;
  job.checkpoint.init_from = InitFromSpec{.path = "initial", .weights_only = true};
  return job;
}

struct Split {
  int tp, pp, dp;
  bool sequence_parallel;
};

class Parity : public testing::TestWithParam<std::string> {};

TEST_P(Parity, LossAndGradientsAgreeWithPyTorch) {
  const std::string name = GetParam();
  const Json figure = read_json_file(figures() / (name + ".json"));
  const auto expected = read_safetensors(figures() / (name + ".gradients.safetensors"));
  const int kv_heads = figure["kv_heads"];
  for (const Split& split : {Split{1, 1, 1, false}, {2, 1, 1, false}, {2, 2, 1, true}, {1, 2, 3, false}}) {
    if (kv_heads % split.tp != 0) continue;
    Folder folder;
    write_initial(folder.path() / "initial", name);
    JobSpec job = parity_job(figure, folder);
    job.parallel.tp = split.tp;
    job.parallel.pp = split.pp;
    job.parallel.dp = split.dp;
    job.parallel.sequence_parallel = split.sequence_parallel;
    const RunOutcome run = run_job(job, folder.path(), split.tp * split.pp * split.dp);
    ASSERT_EQ(run.steps.size(), 1U);
    EXPECT_NEAR(run.steps[0].loss / figure["loss"].get<double>(), 1.0, 1e-6);
    EXPECT_NEAR(run.steps[0].grad_norm / figure["gradient_norm"].get<double>(), 1.0, 1e-5);
    const auto state = read_checkpoint(folder.path(), 1);
    const double scale = 1.0 - static_cast<double>(static_cast<float>(job.train.optimizer.beta1));
    for (const auto& [tensor, content] : expected) {
      ASSERT_TRUE(state.contains("exp_avg/" + tensor)) << tensor;
      const auto& moment = state.at("exp_avg/" + tensor);
      ASSERT_EQ(moment.size(), content.second.size()) << tensor;
      double difference = 0.0, norm = 0.0;
      for (size_t i = 0; i < moment.size(); ++i) {
        difference += std::pow(moment[i] / scale - content.second[i], 2);
        norm += std::pow(content.second[i], 2);
      }
      // Some true gradients are zero (a key bias shifts every score of a query alike): an absolute floor.
      EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(norm) + 1e-7)
          << tensor << " tp " << split.tp << " pp " << split.pp << " dp " << split.dp;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Parity,
                         testing::Values("gpt", "gpt_tanh", "llama", "nemotron", "qwen_window", "qwen3", "documents"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace railyard::test
