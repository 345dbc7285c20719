// Job files from Megatron's flags: the files of megatron/ and small cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lua/job.hpp"
#include "lua/megatron/import.hpp"
#include "lua/megatron/options.hpp"
#include "lua/megatron/shell_words.hpp"
#include "lua/schema/job_schema.hpp"
#include "runtime/base/error.hpp"
#include "tests/lua/temporary_files.hpp"

namespace railyard::lua {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JobSpec evaluated(const MegatronImport& import) {
  JobOptions options;
  options.require_built = false;
  options.environment = [](const std::string& name) -> std::optional<std::string> {
    return name == "NOT_SET" ? std::nullopt : std::optional("/from/" + name);
  };
  return evaluate_job_text(import.job, "job.lua", options).spec;
}

MegatronImport import_file(const std::string& name) {
  const std::string path = std::string(RAILYARD_SOURCE_DIR) + "/tests/lua/megatron/" + name;
  return import_megatron(read_file(path), path, "imported");
}

TEST(Megatron, launch_script_becomes_the_same_job) {
  const MegatronImport import = import_file("llama3_8b.sh");
  EXPECT_THAT(import.inexpressible,
              ElementsAre(HasSubstr("--wandb-project llama"), HasSubstr("--frobnicate 3: unknown option")));
  const JobSpec job = evaluated(import);
  EXPECT_EQ(job.model.layers, 32);
  EXPECT_EQ(job.model.kv_heads, 8);
  EXPECT_EQ(job.model.norm, "rmsnorm");
  EXPECT_EQ(job.model.activation, "swiglu");
  EXPECT_EQ(job.model.position, "rope");
  EXPECT_EQ(job.model.rope_theta, 500000);
  EXPECT_FALSE(job.model.bias);
  EXPECT_FALSE(job.model.tied_embeddings);
  EXPECT_EQ(job.model.hidden_dropout, 0.0);
  EXPECT_EQ(job.parallel.tp, 4);
  EXPECT_EQ(job.parallel.pp, 2);
  EXPECT_EQ(job.parallel.vpp, 4);
  EXPECT_TRUE(job.parallel.sequence_parallel);
  EXPECT_EQ(job.train.precision, "bf16");
  EXPECT_EQ(job.train.optimizer.beta2, 0.95);
  EXPECT_EQ(job.train.optimizer.weight_decay, 0.1);
  EXPECT_TRUE(job.train.optimizer.distributed);
  EXPECT_EQ(job.train.lr.warmup, 2000);
  EXPECT_EQ(job.train.lr.min, 3e-5);
  ASSERT_EQ(job.data.train.size(), 2U);
  EXPECT_EQ(job.data.train[0].weight, 0.7);
  EXPECT_EQ(job.data.train[1].path, "/from/DATA_ROOT/code_text_document");
  EXPECT_EQ(job.data.tokenizer->type, "huggingface");
  EXPECT_EQ(job.checkpoint.dir, "/checkpoints/llama3");
  EXPECT_EQ(job.checkpoint.resume, "auto");
}

TEST(Megatron, defaults_are_those_of_megatron) {
  const JobSpec job =
      evaluated(import_megatron("--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
                                "--max-position-embeddings 1024 --train-iters 10 "
                                "--micro-batch-size 4 --global-batch-size 8 --lr 1e-4 --data-path d --tokenizer-type "
                                "GPT2BPETokenizer --vocab-file gpt2/vocab.json",
                                "flags", "gpt"));
  EXPECT_TRUE(job.model.bias);
  EXPECT_TRUE(job.model.tied_embeddings);
  EXPECT_EQ(job.model.activation, "gelu_tanh");
  EXPECT_EQ(job.model.attention_dropout, 0.1);
  EXPECT_EQ(job.model.ffn, 3072);
  EXPECT_EQ(job.train.optimizer.beta2, 0.999);
  EXPECT_EQ(job.train.optimizer.weight_decay, 0.01);
  EXPECT_EQ(job.train.lr.schedule, "linear");
  EXPECT_EQ(job.data.split, "969,30,1");
  EXPECT_EQ(job.data.tokenizer->path, "gpt2");
  EXPECT_EQ(job.eval.batches, 100);
}

TEST(Megatron, data_lists_in_files_are_read) {
  const TemporaryFiles files;
  const std::string flags =
      "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 --train-iters "
      "10 "
      "--micro-batch-size 1 --global-batch-size 1 --lr 1e-4 --vocab-size 9 --tokenizer-type NullTokenizer ";
  const auto args = files.write("args", "0.25 /data/a_document\n0.75   /data/b_document\n");
  JobSpec job = evaluated(import_megatron(flags + "--data-args-path " + args.string(), "flags", "x"));
  ASSERT_EQ(job.data.train.size(), 2U);
  EXPECT_EQ(job.data.train[1].path, "/data/b_document");
  EXPECT_EQ(job.data.train[1].weight, 0.75);
  EXPECT_EQ(job.data.split, "969,30,1");
  const auto lists = files.write(
      "lists.json",
      R"({"train": ["0.3", "/data/a", 0.7, "/data/b"], "valid": ["/data/c", "/data/d", "/data/e"], "test": null})");
  const MegatronImport import = import_megatron(flags + "--per-split-data-args-path " + lists.string(), "flags", "x");
  EXPECT_THAT(import.inexpressible, IsEmpty());
  job = evaluated(import);
  ASSERT_EQ(job.data.train.size(), 2U);
  EXPECT_EQ(job.data.train[0].weight, 0.3);
  EXPECT_EQ(job.data.train[1].path, "/data/b");
  ASSERT_EQ(job.data.valid.size(), 3U);
  EXPECT_FALSE(job.data.valid[0].weight);
  EXPECT_TRUE(job.data.test.empty());
  EXPECT_EQ(job.data.split, "");
  EXPECT_THAT(import_megatron(flags + "--data-args-path /none", "flags", "x").inexpressible,
              ElementsAre(HasSubstr("put its list into data.train")));
}

TEST(Megatron, names_what_it_cannot_express) {
  const MegatronImport import =
      import_megatron("--num-experts 8 --optimizer sgd --lr-decay-style exotic --seq-length many --lr", "flags", "x");
  EXPECT_THAT(import.inexpressible, ElementsAre("--num-experts 8: mixture of experts is not built yet",
                                                "--optimizer sgd: train.optimizer.type has \"adamw\" only",
                                                "--lr-decay-style exotic: train.lr.schedule has no such choice",
                                                "--seq-length many: expected a number", "--lr: its value is missing"));
}

TEST(Megatron, refuses_a_text_without_flags) {
  EXPECT_THROW(import_megatron("", "x", "x"), UsageError);
  EXPECT_THROW(import_megatron("python pretrain.py -x", "x", "x"), UsageError);
}

TEST(Megatron, every_option_leads_to_a_key_of_the_schema) {
  std::set<std::string> keys;
  for (const Key& key : job_schema().keys()) keys.insert(key.path);
  std::set<std::string_view> names;
  for (const MegatronOption& option : megatron_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name << " stands twice";
    if (!option.ours.empty()) {
      EXPECT_TRUE(keys.contains(std::string(option.ours))) << option.name;
    }
  }
}

std::vector<std::string> plain(std::string_view text) {
  std::vector<std::string> words;
  for (const ShellWord& word : shell_words(text)) words.push_back(word.plain());
  return words;
}

TEST(ShellWords, reads_as_a_shell_does) {
  EXPECT_THAT(plain("--a 1 \\\n  --b '2 3' # --no\n--c \"4 $X\""),
              ElementsAre("--a", "1", "--b", "2 3", "--c", "4 $X"));
  EXPECT_THAT(plain("TP=8\nARGS=(\n --tp $TP --x ${TP} --y ${N:-4}\n)\nARGS+=( --z )\nrun \"${ARGS[@]}\" \"$@\""),
              ElementsAre("--tp", "8", "--x", "8", "--y", "4", "--z", "run"));
  EXPECT_THAT(plain("export A=1; echo $A"), ElementsAre("export", "echo", "1"));
  EXPECT_THAT(plain("--x=$A/b"), ElementsAre("--x=$A/b"));
}

TEST(ShellWords, takes_any_text) {
  for (const char* text :
       {"'", "\"", "\\", "$", "${", "${x", "(", ")", "A=(", "=", "#", "\"$", "$$", "${#x}", "a=b=c $a"})
    (void)shell_words(text);
  SUCCEED();
}

}  // namespace
}  // namespace railyard::lua
