// A torch_dist checkpoint as PyTorch writes it (megatron/, made by tests/parity/make_megatron_checkpoint.py) comes in;
// damaged and hostile ones are errors and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/checkpoint/megatron/import.hpp"
#include "runtime/checkpoint/megatron/pickle.hpp"
#include "runtime/checkpoint/megatron/torch_file.hpp"
#include "runtime/checkpoint/store.hpp"
#include "tests/runtime/checkpoint/hashed_values.hpp"
#include "tests/runtime/checkpoint/scratch.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kFixture = fs::path(RAILYARD_SOURCE_DIR) / "tests/runtime/checkpoint/megatron";

std::vector<float> read_ours(const fs::path& ckpt, const std::string& name) {
  CheckpointReader reader(step_folder(ckpt, 7));
  const Extents shape = reader.manifest().at(name).shape;
  std::vector<float> out(static_cast<std::size_t>(volume(shape)));
  reader.read(name, {Extents(shape.size(), 0), shape}, {out.data()});
  return out;
}

// Rows of layer `layer` of a stacked tensor [2, rows, columns].
std::vector<float> their_rows(const std::string& key, std::size_t layer, std::size_t rows, std::size_t columns,
                              const std::vector<std::size_t>& wanted, bool as_bf16) {
  const auto all = test::hashed_values(key, 2 * rows * columns);
  std::vector<float> out;
  for (const std::size_t row : wanted)
    for (std::size_t c = 0; c < columns; ++c) {
      const float value = all[(layer * rows + row) * columns + c];
      out.push_back(as_bf16 ? bf16_to_float(float_to_bf16(value)) : value);
    }
  return out;
}

TEST(Megatron, WeightsMomentsAndStepComeIn) {
  const test::ScratchFolder scratch;
  const ImportedMegatron imported = import_megatron(kFixture, scratch / "ckpt", {.vocab = 13}, {});
  EXPECT_EQ(imported.step, 7);
  EXPECT_EQ(imported.padded_vocab, 16);
  EXPECT_TRUE(imported.with_optimizer);
  EXPECT_EQ(imported.model.kv_heads, 2);
  EXPECT_EQ(imported.model.norm, "rmsnorm");
  EXPECT_EQ(imported.model.rope_theta, 500000.0);
  const Manifest manifest = read_manifest(scratch / "ckpt/step-7");
  EXPECT_TRUE(verify_files(scratch / "ckpt/step-7", manifest).empty());
  EXPECT_EQ(manifest.info.consumed_samples, 56);
  EXPECT_EQ(manifest.info.consumed_tokens, 56 * 32);
  EXPECT_EQ(manifest.at("output.weight").shape, (Extents{13, 8}));
  EXPECT_EQ(manifest.at("output.weight").dtype, DType::kBFloat16);
  // Two groups of two queries, a key and a value, two rows each.
  const std::string qkv = "decoder.layers.self_attention.linear_qkv.weight";
  EXPECT_EQ(read_ours(scratch / "ckpt", "layers.1.self_attention.query.weight"),
            their_rows(qkv, 1, 16, 8, {0, 1, 2, 3, 8, 9, 10, 11}, true));
  EXPECT_EQ(read_ours(scratch / "ckpt", "layers.0.self_attention.key.weight"),
            their_rows(qkv, 0, 16, 8, {4, 5, 12, 13}, true));
  EXPECT_EQ(read_ours(scratch / "ckpt", "exp_avg_sq/layers.1.self_attention.value.weight"),
            their_rows("exp_avg_sq." + qkv, 1, 16, 8, {6, 7, 14, 15}, false));
  const std::string fc1 = "decoder.layers.mlp.linear_fc1.weight";
  EXPECT_EQ(read_ours(scratch / "ckpt", "master/layers.1.mlp.up.weight"),
            their_rows("fp32_param." + fc1, 1, 24, 8, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}, false));
  EXPECT_EQ(read_ours(scratch / "ckpt", "layers.1.pre_mlp_norm.weight"),
            their_rows("decoder.layers.mlp.linear_fc1.layer_norm_weight", 1, 1, 8, {0}, true));
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
    return "accepted";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Megatron, WhatIsMissingIsNamed) {
  const test::ScratchFolder scratch;
  const auto refused = [&](const fs::path& folder, const MegatronSettings& settings) {
    return error_of([&] { import_megatron(folder, scratch / "none", settings, {}); });
  };
  EXPECT_THAT(refused(kFixture, {}), HasSubstr("give --vocab"));
  EXPECT_THAT(refused(kFixture, {.vocab = 17}), HasSubstr("larger than the embedding's 16 rows"));
  EXPECT_THAT(refused(scratch.path(), {.vocab = 13}), HasSubstr("holds no torch_dist checkpoint"));
  const fs::path copy = scratch / "copy";
  fs::copy(kFixture, copy, fs::copy_options::recursive);
  std::ofstream(copy / "latest_checkpointed_iteration.txt", std::ios::trunc)
      << "";  // a crash between truncate and write
  EXPECT_EQ(import_megatron(copy, scratch / "found", {.vocab = 13, .weights_only = true}, {}).step, 7);
  fs::resize_file(copy / "iter_0000007/__0_0.distcp", 40000);
  EXPECT_THAT(refused(copy, {.vocab = 13}), HasSubstr("cut short"));
  EXPECT_FALSE(fs::exists(scratch / "none/step-7"));
}

Pickle parse(const std::string& text) {
  return {std::as_bytes(std::span(text)), "test", torch_allows, Pickle::Unknown::kRefuse};
}

TEST(Pickle, RefusesNamesThatAreNotOnTheList) {
  EXPECT_THAT(error_of([] {
                parse(
                    "\x80\x02"
                    "cposix\nsystem\n(S'id'\ntR.");
              }),
              HasSubstr("refers to posix system, which is not on the list"));
  EXPECT_THAT(error_of([] {
                parse(
                    "\x80\x02"
                    "cbuiltins\neval\n.");
              }),
              HasSubstr("builtins eval"));
  EXPECT_THAT(error_of([] { parse("\x80\x02i."); }), HasSubstr("not one that data needs"));
  EXPECT_THAT(error_of([] { parse("\x80\x02"); }), HasSubstr("ends too early"));
  EXPECT_THAT(error_of([] { parse("abc"); }), HasSubstr("does not begin as a pickle"));
  EXPECT_THAT(error_of([] {
                parse(
                    "\x80\x02X\xff\xff\xff\xff"
                    "a.");
              }),
              HasSubstr("ends too early"));
  EXPECT_THAT(error_of([] { parse("\x80\x02h\x05."); }), HasSubstr("unknown memo"));
  EXPECT_THAT(error_of([] { parse("\x80\x02t."); }), HasSubstr("no mark"));
  EXPECT_THAT(error_of([] { parse("\x80\x02(0."); }), HasSubstr("stack is empty"));
}

TEST(Pickle, ReadsPlainData) {
  // {'a': [1, -2, 3.5, None, True], 'b': ('x',)} by protocol 2, with a list that holds itself.
  using namespace std::string_literals;
  const Pickle pickle = parse(
      "\x80\x02}(X\x01\x00\x00\x00"
      "a](K\x01J\xfe\xff\xff\xffG\x40\x0c\x00\x00\x00\x00\x00\x00N\x88"
      "eX\x01\x00\x00\x00"
      "bX\x01\x00\x00\x00x\x85u."s);
  const PickleNode* list = pickle.root().find("a");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 5U);
  EXPECT_EQ(list->items[1]->to_integer("a"), -2);
  EXPECT_EQ(list->items[2]->number, 3.5);
  EXPECT_EQ(pickle.root().find("b")->items[0]->to_string("b"), "x");
  const Pickle circle = parse(
      "\x80\x02]q\x00h\x00"
      "a."s);
  EXPECT_EQ(circle.root().items[0], &circle.root());
  // Depth costs nothing.
  static_cast<void>(parse("\x80\x02N" + std::string(1000000, '\x85') + "."));
}

// Any byte of any file changed, or the file cut there: an error or an import, never a crash.
TEST(Megatron, DamageIsAnErrorOrHarmless) {
  const test::ScratchFolder scratch;
  const fs::path copy = scratch / "copy";
  fs::copy(kFixture, copy, fs::copy_options::recursive);
  int errors = 0, tries = 0;
  for (const char* name : {".metadata", "common.pt", "__0_0.distcp"}) {
    const fs::path path = copy / "iter_0000007" / name;
    const std::string original = read_file(path);
    for (std::size_t at = 0; at < original.size(); at += 1 + original.size() / 150) {
      for (const bool cut : {false, true}) {
        std::string damaged = cut ? original.substr(0, at) : original;
        if (!cut) damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
        std::ofstream(path, std::ios::trunc | std::ios::binary) << damaged;
        ++tries;
        try {
          import_megatron(copy, scratch / fmt::format("out{}", tries), {.vocab = 13}, {});
        } catch (const Error&) {
          ++errors;
        }
        fs::remove_all(scratch / fmt::format("out{}", tries));
      }
    }
    std::ofstream(path, std::ios::trunc | std::ios::binary) << original;
  }
  EXPECT_GT(errors, tries / 2);
}

}  // namespace
}  // namespace railyard
