// Models as transformers writes them (hf/*.json, made by tests/parity/make_hf_models.py) come in and go out bit for
// bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/hf/convert.hpp"
#include "runtime/checkpoint/store.hpp"
#include "runtime/checkpoint/writer.hpp"
#include "tests/runtime/checkpoint/hf_case.hpp"
#include "tests/runtime/checkpoint/scratch.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using test::bytes_of;
using test::make_folder;
using test::Tensors;
using test::values;
using test::write_folder;
const fs::path kCases = test::hugging_face_cases();

Tensors read_folder(const fs::path& folder) {
  const HfWeights weights(folder);
  Tensors out;
  for (const std::string& name : weights.names()) {
    const TensorEntry& entry = weights.at(name);
    std::vector<std::byte> bytes(entry.bytes());
    weights.read(name, 0, bytes);
    out[name] = {entry.shape, bytes};
  }
  return out;
}

void export_step(const fs::path& ckpt, const fs::path& out, const ExportSettings& settings = {}) {
  CheckpointReader reader(step_folder(ckpt, 0));
  export_hf(reader, out, settings, {});
}

class EachModel : public testing::TestWithParam<std::string> {};

TEST_P(EachModel, ComesBackBitForBit) {
  const test::ScratchFolder scratch;
  Tensors original;
  make_folder(GetParam(), scratch / "in", &original);
  const ImportedModel imported = import_hf(scratch / "in", scratch / "ckpt", {});
  EXPECT_TRUE(imported.ignored.empty());
  EXPECT_TRUE(verify_files(scratch / "ckpt/step-0", read_manifest(scratch / "ckpt/step-0")).empty());
  export_step(scratch / "ckpt", scratch / "out");
  const Tensors back = read_folder(scratch / "out");
  EXPECT_EQ(back.size(), original.size());
  for (const auto& [name, tensor] : original) {
    ASSERT_TRUE(back.contains(name)) << name;
    EXPECT_TRUE(back.at(name) == tensor) << name;
  }
  // In many shards, and in again.
  export_step(scratch / "ckpt", scratch / "sharded", {.shard_bytes = 4000});
  EXPECT_TRUE(fs::exists(scratch / "sharded/model.safetensors.index.json"));
  import_hf(scratch / "sharded", scratch / "again", {});
  CheckpointReader left(scratch / "ckpt/step-0"), right(scratch / "again/step-0");
  ASSERT_EQ(left.manifest().tensors.size(), right.manifest().tensors.size());
  for (const auto& [name, tensor] : left.manifest().tensors) {
    const Rectangle whole{Extents(tensor.shape.size(), 0), tensor.shape};
    std::vector<float> a(static_cast<std::size_t>(volume(tensor.shape))), b(a.size());
    left.read(name, whole, {a.data()});
    right.read(name, whole, {b.data()});
    EXPECT_EQ(a, b) << name;
  }
}

// What we make of the config and write again says the same model.
TEST_P(EachModel, ConfigKeepsItsMeaning) {
  const Json config = read_json_file(kCases / (GetParam() + ".json"))["config"];
  const HfModel model = read_hf_config(config, "config.json");
  if (!model.spec) GTEST_SKIP() << model.not_built << " are not in ModelSpec";
  const HfModel made = make_hf_config(*model.spec, DType::kFloat32);
  EXPECT_EQ(made.architecture, model.architecture);
  EXPECT_EQ(job_of(*read_hf_config(made.config, "made").spec), job_of(*model.spec));
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kCases)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, EachModel, testing::ValuesIn(case_names()),
                         [](const auto& parameter) { return parameter.param; });

std::vector<float> read_ours(const fs::path& ckpt, const std::string& name) {
  CheckpointReader reader(step_folder(ckpt, 0));
  const Extents shape = reader.manifest().at(name).shape;
  std::vector<float> out(static_cast<std::size_t>(volume(shape)));
  reader.read(name, {Extents(shape.size(), 0), shape}, {out.data()});
  return out;
}

TEST(HuggingFace, Gpt2IsTransposedAndSplit) {
  const test::ScratchFolder scratch;
  make_folder("gpt2", scratch / "in");
  import_hf(scratch / "in", scratch / "ckpt", {});
  const auto theirs = values("transformer.h.1.attn.c_attn.weight", {32, 96});
  const auto key = read_ours(scratch / "ckpt", "layers.1.self_attention.key.weight");
  for (std::size_t out = 0; out < 32; ++out)
    for (std::size_t in = 0; in < 32; ++in) ASSERT_EQ(key[out * 32 + in], theirs[in * 96 + 32 + out]);
  const auto bias = values("transformer.h.1.attn.c_attn.bias", {96});
  EXPECT_EQ(read_ours(scratch / "ckpt", "layers.1.self_attention.value.bias"),
            std::vector<float>(bias.begin() + 64, bias.end()));
}

TEST(HuggingFace, Gpt2WithoutPrefixAndWithOldTables) {
  const test::ScratchFolder scratch;
  Tensors tensors, bare;
  const Json config = make_folder("gpt2", scratch / "in", &tensors);
  for (const auto& [name, tensor] : tensors) bare[name.substr(std::string("transformer.").size())] = tensor;
  bare["h.0.attn.bias"] = {{1, 1, 4, 4}, std::vector<std::byte>(64)};
  write_folder(scratch / "bare", config, bare);
  import_hf(scratch / "in", scratch / "a", {});
  const ImportedModel imported = import_hf(scratch / "bare", scratch / "b", {});
  EXPECT_THAT(imported.ignored, testing::ElementsAre("h.0.attn.bias"));
  EXPECT_EQ(read_ours(scratch / "a", "layers.0.mlp.up.weight").size(), 32U * 128);
}

TEST(HuggingFace, AModelWithoutBiasesExportsZeros) {
  const test::ScratchFolder scratch;
  const Json config = make_folder("gpt2", scratch / "in");
  import_hf(scratch / "in", scratch / "ckpt", {});
  // The same weights in a model without biases, as nanoGPT trains.
  CheckpointReader reader(scratch / "ckpt/step-0");
  ModelSpec spec = *model_of(reader.manifest().info, "test");
  spec.bias = false;
  spec.activation = "gelu";
  SingleProcess alone;
  CheckpointWriter writer(alone, scratch / "plain", {});
  CheckpointInfo info;
  info.job = job_of(spec);
  writer.begin(info);
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    if (name.ends_with(".bias")) continue;
    const auto data = read_ours(scratch / "ckpt", name);
    writer.add({name, DType::kFloat32, tensor.shape, {Extents(tensor.shape.size(), 0), tensor.shape}, data.data(), 0});
  }
  writer.finish(false);
  writer.publish();
  export_step(scratch / "plain", scratch / "out");
  const HfWeights out(scratch / "out");
  std::vector<float> bias(96, 1.0F);
  out.read("transformer.h.0.attn.c_attn.bias", 0, std::as_writable_bytes(std::span(bias)));
  EXPECT_EQ(std::count(bias.begin(), bias.end(), 0.0F), 96);
  EXPECT_EQ(read_json_file(scratch / "out/config.json")["activation_function"], "gelu");
}

TEST(HuggingFace, FusedExpertsOfTransformers5AreTheSameExperts) {
  const test::ScratchFolder scratch;
  Tensors tensors, fused;
  const Json config = make_folder("mixtral", scratch / "in", &tensors);
  for (const auto& [name, tensor] : tensors) {
    const auto at = name.find(".block_sparse_moe.");
    if (at == std::string::npos) {
      fused[name] = tensor;
    } else if (name.ends_with(".gate.weight")) {
      fused[name.substr(0, at) + ".mlp.gate.weight"] = tensor;
    }
  }
  for (int layer = 0; layer < 2; ++layer) {
    const std::string root = fmt::format("model.layers.{}.", layer);
    auto& both = fused[root + "mlp.experts.gate_up_proj"];
    auto& down = fused[root + "mlp.experts.down_proj"];
    both.first = {3, 96, 32};
    down.first = {3, 32, 48};
    for (int expert = 0; expert < 3; ++expert) {
      const std::string each = fmt::format("{}block_sparse_moe.experts.{}.", root, expert);
      const auto append = [](auto& to, const auto& from) {
        to.second.insert(to.second.end(), from.second.begin(), from.second.end());
      };
      append(both, tensors.at(each + "w1.weight"));
      append(both, tensors.at(each + "w3.weight"));
      append(down, tensors.at(each + "w2.weight"));
    }
  }
  write_folder(scratch / "fused", config, fused);
  import_hf(scratch / "fused", scratch / "ckpt", {});
  export_step(scratch / "ckpt", scratch / "out");
  EXPECT_EQ(read_folder(scratch / "out"), tensors);
}

TEST(HuggingFace, DeepseekRotaryRowsBecomeHalves) {
  const test::ScratchFolder scratch;
  make_folder("deepseek_v3", scratch / "in");
  import_hf(scratch / "in", scratch / "ckpt", {});
  // Heads of 8 + 4 rows: the last four are rotary.
  const auto theirs = values("model.layers.0.self_attn.q_b_proj.weight", {48, 20});
  const auto ours = read_ours(scratch / "ckpt", "layers.0.self_attention.query_up.weight");
  const std::size_t order[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 11};
  for (std::size_t row = 0; row < 48; ++row)
    for (std::size_t column = 0; column < 20; ++column)
      ASSERT_EQ(ours[row * 20 + column], theirs[(row / 12 * 12 + order[row % 12]) * 20 + column]);
}

TEST(HuggingFace, Fp8BlocksBecomeBf16) {
  const test::ScratchFolder scratch;
  Tensors tensors;
  const Json config = make_folder("deepseek_v3", scratch / "in", &tensors);
  fs::create_directories(scratch / "fp8");
  fs::copy_file(scratch / "in/config.json", scratch / "fp8/config.json");
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  std::vector<TensorEntry> entries = {{name + "_scale_inv", "F32", {1, 1}}};
  for (const auto& [key, tensor] : tensors) entries.push_back({key, key == name ? "F8_E4M3" : "F32", tensor.first});
  SafetensorsWriter writer(scratch / "fp8/model.safetensors", entries, {});
  const float scale = 0.5F;
  for (const TensorEntry& entry : writer.tensors()) {
    if (entry.name == name + "_scale_inv") {
      writer.write(entry, 0, std::as_bytes(std::span(&scale, 1)));
    } else if (entry.name == name) {
      std::vector<std::byte> bits(entry.bytes());
      for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::byte>(i % 127);
      writer.write(entry, 0, bits);
    } else {
      writer.write(entry, 0, tensors.at(entry.name).second);
    }
  }
  writer.finish();
  import_hf(scratch / "fp8", scratch / "ckpt", {});
  EXPECT_EQ(CheckpointReader(scratch / "ckpt/step-0").manifest().at("layers.0.self_attention.proj.weight").dtype,
            DType::kBFloat16);
  const auto ours = read_ours(scratch / "ckpt", "layers.0.self_attention.proj.weight");
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_EQ(ours[i], fp8_e4m3_to_float(static_cast<std::uint8_t>(i % 127)) * 0.5F);
}

TEST(HuggingFace, OldSpellingsMeanTheSame) {
  const Json now = read_json_file(kCases / "llama3_1.json")["config"];
  Json old = now;
  old.erase("rope_parameters");
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = {{"type", "llama3"},
                         {"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 16}};
  old["torch_dtype"] = "bfloat16";
  EXPECT_EQ(job_of(*read_hf_config(old, "old").spec), job_of(*read_hf_config(now, "now").spec));
  Json nemotron = read_json_file(kCases / "nemotron.json")["config"];
  nemotron.erase("rope_parameters");
  nemotron["rope_percentage"] = 0.5;
  nemotron["rope_theta"] = 10000.0;
  EXPECT_EQ(read_hf_config(nemotron, "old").spec->rotary_percent, 0.5);
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
    return "accepted";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(HuggingFace, WhatCannotBeExpressedIsRefusedByName) {
  const auto refused = [](const char* name, const Json& changes) {
    Json config = read_json_file(kCases / (std::string(name) + ".json"))["config"];
    config.update(changes);
    return error_of([&] { static_cast<void>(read_hf_config(config, "config.json")); });
  };
  EXPECT_THAT(refused("llama2", {{"architectures", {"FooForCausalLM"}}}), HasSubstr("architecture FooForCausalLM"));
  EXPECT_THAT(refused("llama2", {{"hidden_act", "gelu"}}), HasSubstr("hidden_act \"gelu\": not built yet"));
  EXPECT_THAT(refused("llama2", {{"attention_bias", true}}), HasSubstr("attention_bias and mlp_bias differ"));
  EXPECT_THAT(refused("llama2", {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}}}}), HasSubstr("yarn"));
  EXPECT_THAT(refused("llama2", {{"hidden_size", "big"}}), HasSubstr("hidden_size: expected an integer"));
  EXPECT_THAT(refused("llama2", {{"hidden_size", 0}}), HasSubstr("hidden_size: expected at least 1"));
  EXPECT_THAT(refused("llama2", {{"num_attention_heads", 5}, {"num_key_value_heads", 5}, {"head_dim", nullptr}}),
              HasSubstr("no multiple of num_attention_heads"));
  EXPECT_THAT(refused("mistral", {{"num_key_value_heads", 3}}), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(refused("qwen2", {{"layer_types", {"full_attention", "sliding_attention"}}}),
              HasSubstr("layers of different kinds"));
  EXPECT_THAT(refused("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}), HasSubstr("scale_attn_by_inverse"));

  ModelSpec spec = *read_hf_config(read_json_file(kCases / "llama2.json")["config"], "c").spec;
  spec.activation = "geglu";
  EXPECT_THAT(error_of([&] { static_cast<void>(make_hf_config(spec, DType::kFloat32)); }), HasSubstr("geglu"));
}

TEST(HuggingFace, TensorsThatDoNotFitAreNamed) {
  const test::ScratchFolder scratch;
  Tensors tensors;
  const Json config = make_folder("llama2", scratch / "in", &tensors);
  int count = 0;
  const auto refused = [&](const std::function<void(Tensors&, Json&)>& change) {
    Tensors changed = tensors;
    Json changed_config = config;
    change(changed, changed_config);
    const fs::path folder = scratch / ("bad" + std::to_string(count++));
    write_folder(folder, changed_config, changed);
    const std::string error = error_of([&] { import_hf(folder, scratch / "none", {}); });
    EXPECT_FALSE(fs::exists(scratch / "none/step-0"));
    return error;
  };
  EXPECT_THAT(refused([](Tensors& t, Json&) { t.erase("model.norm.weight"); }),
              HasSubstr("no tensor \"model.norm.weight\""));
  EXPECT_THAT(refused([](Tensors& t, Json&) {
                t["extra"] = {{1}, std::vector<std::byte>(4)};
              }),
              HasSubstr("tensor \"extra\" is none of a LlamaForCausalLM"));
  EXPECT_THAT(refused([](Tensors&, Json& c) { c["vocab_size"] = 38; }),
              HasSubstr("has shape [37, 32], but config.json makes it [38, 32]"));
  EXPECT_THAT(refused([](Tensors&, Json& c) { c["tie_word_embeddings"] = true; }), HasSubstr("lm_head.weight differs"));
  EXPECT_THAT(error_of([&] { import_hf(scratch / "nothing", scratch / "none", {}); }), HasSubstr("config.json"));
  fs::remove(scratch / "in/model.safetensors");
  EXPECT_THAT(error_of([&] { import_hf(scratch / "in", scratch / "none", {}); }),
              HasSubstr("neither model.safetensors"));
  std::ofstream(scratch / "in/pytorch_model.bin") << "x";
  EXPECT_THAT(error_of([&] { import_hf(scratch / "in", scratch / "none", {}); }), HasSubstr("pickled weights only"));
}

TEST(HuggingFace, ATiedHeadThatWasSavedAllTheSameIsChecked) {
  const test::ScratchFolder scratch;
  Tensors tensors;
  const Json config = make_folder("qwen2", scratch / "in", &tensors);
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  write_folder(scratch / "both", config, tensors);
  EXPECT_THAT(import_hf(scratch / "both", scratch / "ckpt", {}).ignored, testing::ElementsAre("lm_head.weight"));
}

TEST(HuggingFace, ExportConvertsAndLeavesNothingBehindWhenItFails) {
  const test::ScratchFolder scratch;
  make_folder("llama2", scratch / "in");
  import_hf(scratch / "in", scratch / "ckpt", {});
  export_step(scratch / "ckpt", scratch / "out", {.dtype = DType::kBFloat16});
  const HfWeights weights(scratch / "out");
  EXPECT_EQ(weights.at("model.norm.weight").dtype, "BF16");
  EXPECT_EQ(read_json_file(scratch / "out/config.json")["torch_dtype"], "bfloat16");
  EXPECT_THAT(error_of([&] { export_step(scratch / "ckpt", scratch / "out"); }), HasSubstr("exists already"));
  fs::resize_file(scratch / "ckpt/step-0/rank-00000.safetensors", 5000);
  EXPECT_THROW(export_step(scratch / "ckpt", scratch / "broken"), UsageError);
  EXPECT_FALSE(fs::exists(scratch / "broken"));
  EXPECT_FALSE(fs::exists(scratch / "broken.tmp"));
}

}  // namespace
}  // namespace railyard
