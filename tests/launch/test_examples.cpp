// Every file of examples/ resolves, has a layout and a memory plan for the ranks that it asks for, says so when its
// data are missing, and opens them when they are there (stand-ins of its kind).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "launch/prepare.hpp"
#include "lua/job.hpp"
#include "runtime/base/error.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/indexed_writer.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"
#include "runtime/data/tokenizer/utf8.hpp"
#include "runtime/model/rank_model.hpp"
#include "runtime/train/trainer.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> example_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "examples"))
    if (entry.path().extension() == ".lua") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

lua::EvaluatedJob evaluate_example(const std::string& name) {
  lua::JobOptions options;
  options.environment = [](const std::string&) -> std::optional<std::string> { return std::nullopt; };
  return lua::evaluate_job(fs::path(RAILYARD_SOURCE_DIR) / "examples" / (name + ".lua"), options);
}

// The number behind an #SBATCH option, or `otherwise`.
int asked(const lua::EvaluatedJob& job, const std::string& option, int otherwise) {
  for (const lua::SbatchOption& line : job.sbatch)
    if (line.name == option && line.value) return std::stoi(*line.value);
  return otherwise;
}

int asked_ranks(const lua::EvaluatedJob& job) {
  if (const int tasks = asked(job, "ntasks", 0); tasks > 0) return tasks;
  return asked(job, "nodes", 1) * asked(job, "ntasks-per-node", asked(job, "gpus-per-node", 1));
}

// A vocabulary of the 256 bytes and an end of document, as GPT-2 and as Hugging Face keep it.
void write_tokenizers(const fs::path& folder) {
  Json vocab = Json::object();
  for (std::uint32_t c = 0; c < 0x180; ++c) {
    std::string text;
    data::append_code_point(c, text);
    if (data::bytes_of_byte_level(text)) vocab[text] = vocab.size();
  }
  Json json{{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
            {"decoder", {{"type", "ByteLevel"}}},
            {"added_tokens", Json::array({{{"id", 256}, {"content", "<|end_of_text|>"}, {"special", true}}})}};
  std::ofstream(folder / "tokenizer.json") << json.dump();
  vocab["<|endoftext|>"] = 256;
  std::ofstream(folder / "vocab.json") << vocab.dump();
  std::ofstream(folder / "merges.txt") << "#version: 0.2\n";
}

// The job with stand-ins for its text, token files and tokenizer.
JobSpec with_stand_ins(JobSpec job, const fs::path& folder) {
  write_tokenizers(folder);
  if (!job.data.text.empty()) {
    std::ofstream text(folder / "text.txt");
    for (int line = 0; line < 4000; ++line) text << "the " << line << "th line of a text\n";
    job.data.text = (folder / "text.txt").string();
  }
  for (auto* list : {&job.data.train, &job.data.valid, &job.data.test})
    for (DataSource& source : *list) {
      source.path = (folder / "tokens").string();
      data::IndexedWriter writer(source.path, data::TokenType::kUInt16);
      for (int document = 0; document < 200; ++document) {
        std::vector<std::int32_t> ids(1000);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 256);
        writer.add(ids);
        writer.end_document();
      }
      writer.finish();
    }
  if (job.data.tokenizer && !job.data.tokenizer->path.empty())
    job.data.tokenizer->path = (job.data.tokenizer->type == "gpt2" ? folder : folder / "tokenizer.json").string();
  job.train.iterations = 4;
  job.eval.every = std::min<std::int64_t>(job.eval.every, 4);
  return job;
}

class Example : public testing::TestWithParam<std::string> {};

TEST_P(Example, PlansForTheRanksItAsksFor) {
  const lua::EvaluatedJob job = evaluate_example(GetParam());
  EXPECT_THAT(job.warnings, testing::IsEmpty());
  const int ranks = asked_ranks(job);
  EXPECT_EQ(natural_ranks(job.spec.parallel, ranks), ranks);
  const Layout layout = Layout::resolve(job.spec.parallel, ranks);
  JobSpec known = job.spec;
  if (known.model.vocab == 0) known.model.vocab = 256;
  const std::size_t bytes = plan_memory(known, layout, Coordinate{}, MemoryTarget{}).bytes();
  EXPECT_GT(bytes, std::size_t{1} << 20);
}

TEST_P(Example, NamesDataThatAreMissing) {
  const TemporaryFolder folder;
  const JobSpec job = evaluate_example(GetParam()).spec;
  ASSERT_FALSE(job.data.mock);
  const std::string missing = job.data.tokenizer && !job.data.tokenizer->path.empty() ? job.data.tokenizer->path
                              : !job.data.text.empty()                                ? job.data.text
                                                                                      : job.data.train.at(0).path;
  try {
    data::open_splits(job, {folder.path(), folder.path()});
    FAIL() << "opened data that are not there";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(missing));
  }
}

TEST_P(Example, OpensItsKindOfData) {
  const TemporaryFolder folder;
  const JobSpec job = with_stand_ins(evaluate_example(GetParam()).spec, folder.path());
  const data::DataSplits splits = data::open_splits(job, {folder.path(), folder.path()});
  EXPECT_GE(splits.train->size(), job.train.iterations * job.train.global_batch);
  EXPECT_EQ(splits.valid != nullptr, job.eval.every > 0);
  EXPECT_GT(splits.vocab_size, 0);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(job.model.seq_length)), labels(tokens.size());
  splits.train->read(0, {.tokens = tokens, .labels = labels, .loss_mask = {}, .positions = {}});
  EXPECT_EQ(tokens.at(1), labels.at(0));
}

INSTANTIATE_TEST_SUITE_P(Files, Example, testing::ValuesIn(example_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace railyard::launch
