// Megatron files: the worked example byte by byte, damaged files, samples through the indices, blends, the cache.
#include <gmock/gmock.h>

#include <set>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/blended_dataset.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/indexed_writer.hpp"
#include "runtime/data/npy.hpp"
#include "tests/runtime/data/fixture.hpp"

namespace railyard::data {
namespace {

using test::job_of;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

using Documents = std::vector<std::vector<std::vector<std::int32_t>>>;  // documents of sequences of ids

void write(const std::filesystem::path& prefix, const Documents& documents, TokenType type = TokenType::kUInt16) {
  IndexedWriter writer(prefix, type);
  for (const auto& document : documents) {
    for (const auto& sequence : document) writer.add(sequence);
    writer.end_document();
  }
  writer.finish();
}

// Documents of the given lengths; the ids count up through all of them.
Documents counting(const std::vector<int>& lengths) {
  Documents documents;
  std::int32_t next = 0;
  for (const int length : lengths) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < length; ++i) ids.push_back(next++);
    documents.push_back({ids});
  }
  return documents;
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

TEST(Indexed, WritesTheWorkedExample) {
  const TemporaryFolder folder;
  write(folder / "x", {{{10, 11, 12}}, {{20}}, {{30, 31}}});
  EXPECT_EQ(hex(read_file(folder / "x.idx")),
            "4d4d494449445800000100000000000000080300000000000000040000000000000003000000010000000200000000000000000000"
            "000600000000"
            "0000000800000000000000000000000000000001000000000000000200000000000000030000000000000"
            "0");
  EXPECT_EQ(hex(read_file(folder / "x.bin")), "0a000b000c0014001e001f00");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.insert(entry.path().filename());
  EXPECT_THAT(names, ElementsAre("x.bin", "x.idx"));
}

TEST(Indexed, EveryIntegerTypeComesBack) {
  for (const TokenType type : {TokenType::kUInt8, TokenType::kInt8, TokenType::kInt16, TokenType::kInt32,
                               TokenType::kInt64, TokenType::kUInt16}) {
    const TemporaryFolder folder;
    write(folder / "x", {{{1, 2, 3}, {100}}, {}, {{7}}}, type);
    const IndexedDataset file(folder / "x.bin");
    EXPECT_EQ(file.type(), type);
    EXPECT_EQ(file.sequences(), 3);
    EXPECT_EQ(file.documents(), 3);  // one of them without any sequence
    EXPECT_EQ(file.tokens(), 5);
    EXPECT_EQ(file.document_of(2), 2);
    std::vector<std::int32_t> ids(2);
    file.read(0, 1, ids);
    EXPECT_THAT(ids, ElementsAre(2, 3));
  }
}

TEST(Indexed, ModesAreTolerated) {
  const TemporaryFolder folder;
  IndexedWriter writer(folder / "x", TokenType::kInt32, true);
  writer.add(std::vector<std::int32_t>{1, 2}, 0);
  writer.add(std::vector<std::int32_t>{3}, 1);
  writer.end_document();
  writer.finish();
  const IndexedDataset file(folder / "x");
  EXPECT_TRUE(file.multimodal());
  EXPECT_EQ(file.mode(1), 1);
}

TEST(Indexed, AWriterGoesOnAfterAStop) {
  const TemporaryFolder folder;
  WriterState state;
  {
    IndexedWriter writer(folder / "x", TokenType::kUInt16);
    writer.add(std::vector<std::int32_t>{1, 2, 3});
    writer.end_document();
    writer.sync();
    state = writer.state();
    writer.add(std::vector<std::int32_t>{9, 9});  // lost
    writer.sync();
  }
  {
    IndexedWriter writer(folder / "x", TokenType::kUInt16, false, state);
    writer.add(std::vector<std::int32_t>{4});
    writer.end_document();
    writer.finish();
  }
  write(folder / "y", {{{1, 2, 3}}, {{4}}});
  EXPECT_EQ(read_file(folder / "x.idx"), read_file(folder / "y.idx"));
  EXPECT_EQ(read_file(folder / "x.bin"), read_file(folder / "y.bin"));
}

TEST(Indexed, DamageIsExplained) {
  const TemporaryFolder folder;
  write(folder / "x", counting({5, 3, 8}));
  const std::string good = read_file(folder / "x.idx");
  const auto with = [&](std::size_t at, const std::string& bytes) {
    std::string bad = good;
    bad.replace(at, bytes.size(), bytes);
    folder.write("x.idx", bad);
    return message_of([&] { IndexedDataset(folder / "x"); });
  };
  EXPECT_THAT(with(0, "X"), HasSubstr("not a Megatron index"));
  EXPECT_THAT(with(0, std::string("TNTIDX\0\0", 8)), HasSubstr("old Megatron"));
  EXPECT_THAT(with(9, "\2"), HasSubstr("version 2"));
  EXPECT_THAT(with(17, "\x9"), HasSubstr("token type 9"));
  EXPECT_THAT(with(18, "\x4"), HasSubstr("truncated"));
  EXPECT_THAT(with(18, "\x67"), HasSubstr("truncated"));  // one more than the file has bytes
  EXPECT_THAT(with(18, "\xff\xff\xff\xff\xff\xff\xff\xff"), HasSubstr("truncated"));
  EXPECT_THAT(with(26, "\xff\xff\xff\xff\xff\xff\xff\x1f"), HasSubstr("truncated"));
  EXPECT_THAT(with(34, "\xff\xff\xff\xff"), HasSubstr("sequence 0 has length -1"));
  EXPECT_THAT(with(46 + 7, "\x80"), HasSubstr("sequence 0"));
  EXPECT_THAT(with(46 + 16, "\x7f"), HasSubstr(".bin is truncated"));
  EXPECT_THAT(with(70, "\1"), HasSubstr("document bounds go from 1"));
  EXPECT_THAT(with(78, "\3"), HasSubstr("lies before"));
  for (std::size_t length = 0; length < good.size(); ++length) {
    folder.write("x.idx", good.substr(0, length));
    EXPECT_THROW(IndexedDataset(folder / "x"), UsageError) << length;
  }
  folder.write("x.idx", good);
  std::filesystem::resize_file(folder / "x.bin", 31);
  EXPECT_THAT(message_of([&] { IndexedDataset(folder / "x"); }), HasSubstr(".bin is truncated"));
  std::filesystem::remove(folder / "x.bin");
  EXPECT_THAT(message_of([&] { IndexedDataset(folder / "x"); }), HasSubstr("x.bin: cannot read"));
}

TEST(Npy, ComesBackAndFindsDamage) {
  const TemporaryFolder folder;
  write_npy(folder / "a.npy", IntArray(std::vector<std::int32_t>{1, -2, 3, 4}), 2);
  const std::string bytes = read_file(folder / "a.npy");
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }"));
  EXPECT_EQ(bytes.size(), 128U + 16U);
  EXPECT_EQ(read_npy(folder / "a.npy")[1], -2);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    folder.write("b.npy", bytes.substr(0, length));
    EXPECT_THROW(read_npy(folder / "b.npy"), UsageError) << length;
  }
}

JobSpec indexed_job(const std::filesystem::path& prefix, std::int64_t seq_length, std::int64_t iterations,
                    std::int64_t batch) {
  JobSpec job = job_of(seq_length, iterations, batch);
  job.data.train = {{prefix.string(), std::nullopt}};
  job.data.split = "1";
  return job;
}

std::vector<std::int32_t> tokens(const Dataset& dataset, std::int64_t number) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(dataset.seq_length()) + 1);
  out.resize(static_cast<std::size_t>(dataset.window(number, out)));
  return out;
}

// The documents of the golden vectors, lengths [5,3,8,1,13,2,7,4,9,6]: document 7 holds 39..42, document 2 holds 8..15.
TEST(GptDataset, SamplesFollowTheIndices) {
  const TemporaryFolder folder;
  write(folder / "x", counting({5, 3, 8, 1, 13, 2, 7, 4, 9, 6}));
  const auto file = std::make_shared<const IndexedDataset>(folder / "x");
  GptIndexRequest request;
  request.last = 10;
  request.seq_length = 8;
  const GptDataset dataset(file, request, cached_gpt_index(*file, request, {}), {});
  // shuffle is [6 4 0 5 3 2 1], documents [7 2 9 1 0 8 4 5 6 3], samples[0] = (0,0), samples[1] = (1,4)
  EXPECT_THAT(tokens(dataset, 2), ElementsAre(39, 40, 41, 42, 8, 9, 10, 11, 12));
  EXPECT_THAT(tokens(dataset, 6), ElementsAre(12, 13, 14, 15, 52, 53, 54, 55, 56));
  EXPECT_EQ(dataset.size(), 7);
}

TEST(GptDataset, ShortLastSampleIsPaddedAndMasked) {
  const TemporaryFolder folder;
  write(folder / "x", counting({4, 6}));
  const auto file = std::make_shared<const IndexedDataset>(folder / "x");
  GptIndexRequest request;
  request.last = 2;
  request.seq_length = 4;
  request.drop_last_partial = false;
  const GptDataset dataset(file, request, cached_gpt_index(*file, request, {}), {});
  ASSERT_EQ(dataset.size(), 3);  // 9 / 4
  int padded = 0;
  for (std::int64_t n = 0; n < 3; ++n) {
    std::vector<std::int32_t> ids(4), labels(4);
    std::vector<float> mask(4);
    dataset.read(n, {ids, labels, mask, {}, nullptr});
    if (tokens(dataset, n).size() == 5) continue;
    ++padded;
    EXPECT_EQ(tokens(dataset, n).size(), 2U);
    EXPECT_THAT(mask, ElementsAre(1, 0, 0, 0));
    EXPECT_EQ(ids[2], 0);
    EXPECT_EQ(labels[1], 0);
  }
  EXPECT_EQ(padded, 1);
  EXPECT_TRUE(dataset.has_loss_mask());
}

TEST(GptDataset, EndOfDocumentRules) {
  const TemporaryFolder folder;
  write(folder / "x", {{{1, 2, 256, 3, 256, 4, 5, 6, 256}}});
  JobSpec job = indexed_job(folder / "x", 8, 1, 1);
  job.data.tokenizer = TokenizerSpec{"bytes", ""};
  job.data.reset_position_ids = job.data.reset_attention_mask = job.data.eod_mask_loss = true;
  const DataSplits data = open_splits(job, {.run_dir = folder / "run", .data_root = {}});
  std::vector<std::int32_t> ids(8), labels(8), positions(8), starts;
  std::vector<float> mask(8);
  data.train->read(0, {ids, labels, mask, positions, &starts});
  EXPECT_THAT(ids, ElementsAre(1, 2, 256, 3, 256, 4, 5, 6));
  EXPECT_THAT(labels, ElementsAre(2, 256, 3, 256, 4, 5, 6, 256));
  EXPECT_THAT(mask, ElementsAre(1, 1, 0, 1, 0, 1, 1, 1));
  EXPECT_THAT(positions, ElementsAre(0, 1, 2, 0, 1, 0, 1, 2));
  EXPECT_THAT(starts, ElementsAre(3, 5));
}

TEST(GptDataset, CacheIsKeyedOnContentAndRepaired) {
  const TemporaryFolder folder;
  write(folder / "x", counting({5, 3, 8, 1, 13, 2, 7, 4, 9, 6}));
  const JobSpec job = indexed_job(folder / "x", 8, 4, 4);
  const DataOptions options{.run_dir = folder / "run", .data_root = {}};
  const auto all = [&] {
    const DataSplits data = open_splits(job, options);
    std::vector<std::int32_t> out;
    for (std::int64_t n = 0; n < data.train->size(); ++n)
      for (const auto id : tokens(*data.train, n)) out.push_back(id);
    return out;
  };
  const auto first = all();
  EXPECT_EQ(first.size(), 21U * 9U);
  int arrays = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run/cache"))
    if (entry.path().extension() == ".npy") {
      ++arrays;
      std::filesystem::resize_file(entry.path(), 140);
      EXPECT_EQ(all(), first) << entry.path();
      std::string bytes = read_file(entry.path());
      bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 0x40);
      folder.write("run/cache/" + entry.path().filename().string(), bytes);
      EXPECT_EQ(all(), first) << entry.path();
    }
  EXPECT_EQ(arrays, 3);
  write(folder / "x", counting({6, 2, 8, 1, 13, 2, 7, 4, 9, 6}));
  EXPECT_NE(all(), first);
}

TEST(Blend, EqualsMegatron) {
  const std::vector<double> weights{0.3, 0.5, 0.2};
  const BlendIndex index = build_blend_index(normalised(weights), 20);
  std::vector<std::int64_t> datasets;
  for (std::size_t i = 0; i < 20; ++i) datasets.push_back(index.datasets[i]);
  EXPECT_THAT(datasets, ElementsAre(1, 0, 2, 1, 0, 1, 2, 1, 0, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1));
  EXPECT_THAT(index.counts, ElementsAre(6, 10, 4));
}

TEST(Blend, WeightsAndExtremeOnes) {
  const TemporaryFolder folder;
  write(folder / "a", counting({50, 60, 70}));
  write(folder / "b", {{std::vector<std::int32_t>(90, 60000)}});
  JobSpec job = indexed_job(folder / "a", 8, 40, 4);
  job.data.train = {{(folder / "a").string(), 0.999}, {(folder / "b").string(), 0.001}};
  const DataSplits data = open_splits(job, {.run_dir = folder / "run", .data_root = {}});
  EXPECT_EQ(data.train->size(), 161);  // ceil(159.84) + ceil(0.16)
  int from_b = 0;
  for (std::int64_t n = 0; n < data.train->size(); ++n) from_b += tokens(*data.train, n)[0] == 60000 ? 1 : 0;
  EXPECT_LE(from_b, 1);
  job.data.train[1].weight.reset();
  EXPECT_THAT(message_of([&] { open_splits(job, {.run_dir = folder / "run", .data_root = {}}); }),
              HasSubstr("to all or to none"));
  job.data.train[0].weight.reset();
  EXPECT_EQ(open_splits(job, {.run_dir = folder / "run", .data_root = {}}).train->size(), 22 + 11);  // each once
}

TEST(Sources, EmptySplitsAndListsAreExplained) {
  const TemporaryFolder folder;
  write(folder / "x", counting({50, 60, 70, 80}));
  const DataOptions options{.run_dir = folder / "run", .data_root = {}};
  JobSpec job = indexed_job(folder / "x", 8, 10, 2);
  job.data.split = "969,30,1";
  job.eval.every = 5;
  job.eval.batches = 1;
  const auto fails = [&] { return message_of([&] { open_splits(job, options); }); };
  EXPECT_THAT(fails(), HasSubstr("valid split (sequences 4 to 4)"));
  job.data.split = "1,0,0";
  EXPECT_THAT(fails(), HasSubstr("leaves nothing for validation"));
  job.data.split = "0,1,0";
  EXPECT_THAT(fails(), HasSubstr("leaves nothing for training"));
  job.data.split = "1,1,0";
  EXPECT_EQ(fails(), "no error");
  job.data.valid = {{(folder / "x").string(), std::nullopt}};
  EXPECT_THAT(fails(), HasSubstr("cannot go with"));
  job.data.split = "";
  EXPECT_EQ(fails(), "no error");
  job.data.train[0].path = (folder / "missing").string();
  EXPECT_THAT(fails(), HasSubstr("missing.idx: cannot read"));
}

TEST(Sources, IdsOutsideTheVocabularyAreNamed) {
  const TemporaryFolder folder;
  write(folder / "x", counting({50, 60}));
  JobSpec job = indexed_job(folder / "x", 8, 5, 2);
  job.model.vocab = 100;
  const DataSplits data = open_splits(job, {.run_dir = folder / "run", .data_root = {}});
  std::string message;
  for (std::int64_t n = 0; n < data.train->size(); ++n) {
    std::vector<std::int32_t> ids(8), labels(8);
    try {
      data.train->read(n, {ids, labels, {}, {}, nullptr});
    } catch (const RunError& error) {
      message = error.what();
    }
  }
  EXPECT_THAT(message, HasSubstr("outside the vocabulary of 100"));
  EXPECT_THAT(message, HasSubstr("x.bin, from document"));
}

}  // namespace
}  // namespace railyard::data
