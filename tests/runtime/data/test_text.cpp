// Text, mock data and the job's splits.
#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/data/dataset.hpp"
#include "tests/runtime/data/fixture.hpp"

namespace railyard::data {
namespace {

using test::job_of;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Read {
  std::vector<std::int32_t> tokens, labels, positions, starts;
  std::vector<float> mask;
};

Read read(const Dataset& dataset, std::int64_t number) {
  const auto length = static_cast<std::size_t>(dataset.seq_length());
  Read out{std::vector<std::int32_t>(length),
           std::vector<std::int32_t>(length),
           std::vector<std::int32_t>(length),
           {},
           std::vector<float>(length)};
  dataset.read(number, {out.tokens, out.labels, out.mask, out.positions, &out.starts});
  return out;
}

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

JobSpec text_job(const std::filesystem::path& text, std::int64_t seq_length) {
  JobSpec job = job_of(seq_length, 10, 4);
  job.data.text = text.string();
  job.data.tokenizer = TokenizerSpec{"char", ""};
  job.data.split = "90,10";
  job.eval.every = 5;
  job.eval.batches = 2;
  return job;
}

TEST(Text, CharactersAreSortedAndCut) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "zyx\xc3\xa9wvuts";  // ten characters each, one of two bytes
  JobSpec job = text_job(folder.write("t.txt", text), 4);
  const DataSplits data = open_splits(job, {.run_dir = folder / "run", .data_root = {}});
  EXPECT_EQ(data.vocab_size, 9);
  const Read first = read(*data.train, 0);
  std::string back;
  data.tokenizer->decode(first.tokens, back);
  EXPECT_THAT(text, HasSubstr(back));
  for (std::size_t i = 0; i + 1 < 4; ++i) EXPECT_EQ(first.labels[i], first.tokens[i + 1]);
  EXPECT_THAT(first.mask, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(first.starts.empty());
  EXPECT_GE(data.train->size(), 40);
}

TEST(Text, RandomWindowsStayInTheirSplitAndReachItsEnds) {
  const TemporaryFolder folder;
  std::string text(90, 'a');
  text += "bcdefghijk";
  JobSpec job = text_job(folder.write("t.txt", text), 8);
  job.data.sampling = "random";
  job.train.iterations = 500;
  const DataSplits data = open_splits(job, {.run_dir = folder / "run", .data_root = {}});
  std::set<std::int32_t> starts;
  for (std::int64_t n = 0; n < data.train->size(); ++n) EXPECT_EQ(read(*data.train, n).labels[7], 0);
  for (std::int64_t n = 0; n < data.valid->size(); ++n) starts.insert(read(*data.valid, n).tokens[0]);
  EXPECT_THAT(starts, ElementsAre(1, 2));  // ten tokens, windows of nine: two places
}

TEST(Text, SequentialCoversTheTextOnceAnEpoch) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 101; ++i) text += static_cast<char>(20 + i);
  JobSpec job = text_job(folder.write("t.txt", text), 10);
  job.data.split = "1";
  job.eval.every = 0;
  job.train.iterations = 5;
  job.train.global_batch = 2;
  const DataSplits data = open_splits(job, {.run_dir = folder / "run", .data_root = {}});
  ASSERT_EQ(data.train->size(), 10);
  std::set<std::int32_t> seen;
  for (std::int64_t n = 0; n < 10; ++n)
    for (const std::int32_t token : read(*data.train, n).tokens) seen.insert(token);
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_EQ(data.valid, nullptr);
}

TEST(Text, PreparedOnceAndKeyedOnContent) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.txt", std::string(400, 'a') + std::string(400, 'b'));
  const JobSpec job = text_job(path, 4);
  const DataOptions options{.run_dir = folder / "run", .data_root = {}};
  const std::string digest = open_splits(job, options).digest;
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "run/cache"))
      names.insert(entry.path().filename());
    return names;
  };
  const auto before = files();
  EXPECT_EQ(before.size(), 2U);
  EXPECT_EQ(open_splits(job, options).digest, digest);
  EXPECT_EQ(files(), before);
  // A damaged cache is made again.
  for (const auto& name : before)
    if (name.ends_with(".bin")) std::filesystem::resize_file(folder / "run/cache" / name, 5);
  EXPECT_EQ(read(*open_splits(job, options).train, 0).tokens, read(*open_splits(job, options).train, 0).tokens);
  // Other content, other order.
  folder.write("t.txt", std::string(400, 'a') + std::string(401, 'b'));
  EXPECT_NE(open_splits(job, options).digest, digest);
}

TEST(Text, DigestFollowsTheOrderAlone) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.txt", std::string(4000, 'a') + std::string(400, 'b'));
  JobSpec job = text_job(path, 4);
  const DataOptions options{.run_dir = folder / "run", .data_root = {}};
  const std::string digest = open_splits(job, options).digest;
  JobSpec longer = job;
  longer.train.iterations = 20;  // still within the first epoch
  EXPECT_EQ(open_splits(longer, options).digest, digest);
  JobSpec other = job;
  other.train.seed = 7;
  EXPECT_NE(open_splits(other, options).digest, digest);
  other = job;
  other.model.seq_length = 5;
  EXPECT_NE(open_splits(other, options).digest, digest);
}

TEST(Text, BadInputIsExplained) {
  const TemporaryFolder folder;
  const DataOptions options{.run_dir = folder / "run", .data_root = {}};
  const auto fails = [&](const JobSpec& job) { return message_of([&] { open_splits(job, options); }); };
  EXPECT_THAT(fails(text_job(folder / "missing.txt", 4)), HasSubstr("missing.txt: cannot read"));
  EXPECT_THAT(fails(text_job(folder.write("empty.txt", ""), 4)), HasSubstr("empty"));
  EXPECT_THAT(fails(text_job(folder.path(), 4)), HasSubstr("expected a plain file"));
  EXPECT_THAT(fails(text_job(folder.write("short.txt", "abc"), 4)), HasSubstr("train split"));
  EXPECT_THAT(fails(text_job(folder.write("short.txt", std::string(30, 'a')), 4)), HasSubstr("valid split"));
  JobSpec job = text_job(folder.write("t.txt", std::string(100, 'a')), 4);
  job.data.tokenizer.reset();
  EXPECT_THAT(fails(job), HasSubstr("data.tokenizer"));
  job = text_job(folder / "t.txt", 4);
  job.data.mock = true;
  EXPECT_THAT(fails(job), HasSubstr("give one of"));
  job = text_job(folder / "t.txt", 4);
  job.data.eod_mask_loss = true;
  EXPECT_THAT(fails(job), HasSubstr("end-of-document"));
  job = text_job(folder.write("ab.txt", std::string(50, 'a') + std::string(50, 'b')), 4);
  job.model.vocab = 1;
  EXPECT_THAT(fails(job), HasSubstr("model.vocab"));
}

TEST(Text, ReadsAreTheSameFromManyThreads) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 26);
  JobSpec job = text_job(folder.write("t.txt", text), 16);
  job.data.sampling = "random";
  const DataSplits data = open_splits(job, {.run_dir = folder / "run", .data_root = {}});
  std::vector<Read> expected;
  for (std::int64_t n = 0; n < data.train->size(); ++n) expected.push_back(read(*data.train, n));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t n = 0; n < data.train->size(); ++n)
        wrong[t] += read(*data.train, n).tokens != expected[static_cast<std::size_t>(n)].tokens ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(Mock, IsAFunctionOfSeedAndNumber) {
  JobSpec job = job_of(16, 10, 2);
  job.data.mock = true;
  job.model.vocab = 50;
  job.eval.every = 5;
  job.eval.batches = 1;
  const DataSplits a = open_splits(job, {}), b = open_splits(job, {});
  EXPECT_EQ(read(*a.train, 3).tokens, read(*b.train, 3).tokens);
  EXPECT_NE(read(*a.train, 3).tokens, read(*a.train, 4).tokens);
  EXPECT_NE(read(*a.train, 3).tokens, read(*a.valid, 3).tokens);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.vocab_size, 50);
}

TEST(Samples, CountsAreMegatrons) {
  JobSpec job = job_of(16, 1001, 8);
  job.eval.every = 100;
  job.eval.batches = 5;
  const SampleCounts counts = sample_counts(job);
  EXPECT_EQ(counts.train, 8008);
  EXPECT_EQ(counts.valid, 11 * 5 * 8);
  EXPECT_EQ(counts.test, 40);
}

}  // namespace
}  // namespace railyard::data
