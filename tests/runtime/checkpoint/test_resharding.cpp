// Save at one layout, load at any other: the same bits, only the bytes needed, whole or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/reader.hpp"
#include "runtime/checkpoint/writer.hpp"
#include "tests/runtime/checkpoint/scratch.hpp"

namespace railyard {
namespace {

using testing::HasSubstr;

// A logical tensor with recognisable values.
std::vector<float> whole(const Extents& shape, float start) {
  std::vector<float> out(static_cast<std::size_t>(volume(shape)));
  std::iota(out.begin(), out.end(), start);
  return out;
}

struct Logical {
  const char* name;
  Extents shape;
  int split_axis;  // -1: replicated
};

// Nothing divides evenly; one tensor is empty, one a scalar.
const std::vector<Logical> kTensors = {{"embedding.word_embeddings.weight", {13, 6}, 0},
                                       {"layers.0.self_attention.proj.weight", {6, 10}, 1},
                                       {"layers.0.experts", {3, 5, 7}, 0},
                                       {"layers.0.input_norm.weight", {6}, -1},
                                       {"scale", {}, -1},
                                       {"empty", {0, 4}, -1}};

std::pair<std::int64_t, std::int64_t> part_of(std::int64_t extent, int part, int parts) {
  return {extent * part / parts, extent * (part + 1) / parts};
}

// The rectangle of a tensor-parallel rank.
Rectangle tp_part(const Logical& tensor, int tp_rank, int tp) {
  Rectangle part{Extents(tensor.shape.size(), 0), tensor.shape};
  if (tensor.split_axis < 0) return part;
  const auto axis = static_cast<std::size_t>(tensor.split_axis);
  const auto [begin, end] = part_of(tensor.shape[axis], tp_rank, tp);
  part.offset[axis] = begin;
  part.shape[axis] = end - begin;
  return part;
}

// Copies a rectangle of a packed tensor of at most three axes.
std::vector<float> cut(const std::vector<float>& all, const Extents& shape, const Rectangle& part) {
  std::vector<float> out;
  const std::size_t axes = shape.size();
  const auto extent = [&](const Extents& s, std::size_t axis) { return axis < 3 - axes ? 1 : s[axis - (3 - axes)]; };
  const auto offset = [&](std::size_t axis) { return axis < 3 - axes ? 0 : part.offset[axis - (3 - axes)]; };
  for (std::int64_t i = 0; i < extent(part.shape, 0); ++i)
    for (std::int64_t j = 0; j < extent(part.shape, 1); ++j)
      for (std::int64_t k = 0; k < extent(part.shape, 2); ++k)
        out.push_back(all[static_cast<std::size_t>(
            ((offset(0) + i) * extent(shape, 1) + offset(1) + j) * extent(shape, 2) + offset(2) + k)]);
  return out;
}

// Saves with tp x dp ranks. Weights: dp rank 0 writes. Moments: each dp rank has a flat part of the local tensor.
std::vector<std::string> save(const std::filesystem::path& dir, int tp, int dp, std::int64_t step, float start,
                              bool in_background = true) {
  return test::on_ranks(tp * dp, [&](Collectives& ranks) {
    const int tp_rank = ranks.rank() % tp, dp_rank = ranks.rank() / tp;
    CheckpointWriter writer(ranks, dir, {});
    CheckpointInfo info;
    info.step = step;
    info.consumed_samples = 8 * step;
    info.state = {{"note", "kept"}};
    writer.begin(info);
    std::vector<std::vector<float>> sources;
    for (const Logical& tensor : kTensors) {
      const auto all = whole(tensor.shape, start);
      const Rectangle part = tp_part(tensor, tp_rank, tp);
      const bool owner = tensor.split_axis >= 0 || tp_rank == 0;
      sources.push_back(cut(all, tensor.shape, part));
      // The weights' source has a gap behind each row.
      const std::int64_t rows = part.shape.empty() ? 1 : part.shape[0];
      const std::size_t row = rows == 0 ? 0 : sources.back().size() / static_cast<std::size_t>(rows);
      std::vector<float> strided;
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
        strided.insert(strided.end(), sources.back().begin() + static_cast<std::ptrdiff_t>(i * row),
                       sources.back().begin() + static_cast<std::ptrdiff_t>((i + 1) * row));
        strided.insert(strided.end(), 3, -1.0F);
      }
      if (owner && dp_rank == 0)
        writer.add({tensor.name, DType::kFloat32, tensor.shape, part, strided.data(),
                    static_cast<std::int64_t>((row + 3) * sizeof(float))});
      std::fill(strided.begin(), strided.end(), -2.0F);  // a training step that goes on
      if (!owner) continue;
      const auto [begin, end] = part_of(volume(part.shape), dp_rank, dp);
      std::int64_t position = begin;
      for (Rectangle piece : decompose_range(part.shape, begin, end)) {
        for (std::size_t axis = 0; axis < piece.offset.size(); ++axis) piece.offset[axis] += part.offset[axis];
        writer.add({std::string("exp_avg/") + tensor.name, DType::kFloat32, tensor.shape, piece,
                    sources.back().data() + position, 0});
        position += volume(piece.shape);
      }
      if (volume(part.shape) == 0)
        writer.add({std::string("exp_avg/") + tensor.name, DType::kFloat32, tensor.shape, part, nullptr, 0});
    }
    writer.finish(in_background);
    for (auto& source : sources) std::fill(source.begin(), source.end(), -2.0F);
    EXPECT_EQ(writer.publish(), step);
  });
}

TEST(Resharding, EveryLayoutReadsEveryOther) {
  const test::ScratchFolder folder;
  std::int64_t step = 0;
  for (const auto& [tp, dp] : std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {1, 3}, {2, 2}, {4, 2}, {1, 8}}) {
    const auto dir = folder / "ckpt";
    ++step;
    ASSERT_THAT(save(dir, tp, dp, step, 100.0F * static_cast<float>(step)), testing::Each(""));
    CheckpointReader reader(step_folder(dir, step));
    EXPECT_EQ(reader.manifest().info.consumed_samples, 8 * step);
    EXPECT_EQ(reader.manifest().info.state["note"], "kept");
    for (const Logical& tensor : kTensors) {
      const auto all = whole(tensor.shape, 100.0F * static_cast<float>(step));
      for (const std::string prefix : {"", "exp_avg/"}) {
        for (int to_tp = 1; to_tp <= 4; ++to_tp) {
          for (int rank = 0; rank < to_tp; ++rank) {
            const Rectangle part = tp_part(tensor, rank, to_tp);
            const auto expected = cut(all, tensor.shape, part);
            std::vector<float> loaded(expected.size(), -9.0F);
            reader.read(prefix + tensor.name, part, {loaded.data(), DType::kFloat32, 0});
            ASSERT_EQ(loaded, expected) << prefix << tensor.name << " " << tp << "x" << dp << " -> " << to_tp;
            // As bf16 and with a gap behind each row.
            if (tensor.shape.size() != 2 || expected.empty()) continue;
            const auto row = static_cast<std::size_t>(part.shape[1]);
            std::vector<std::uint16_t> spaced(static_cast<std::size_t>(part.shape[0]) * (row + 5), 7);
            reader.read(prefix + tensor.name, part,
                        {spaced.data(), DType::kBFloat16, static_cast<std::int64_t>((row + 5) * 2)});
            for (std::size_t i = 0; i < spaced.size(); ++i) {
              const std::size_t column = i % (row + 5);
              ASSERT_EQ(spaced[i], column < row ? float_to_bf16(expected[i / (row + 5) * row + column]) : 7);
            }
          }
        }
      }
    }
  }
  SingleProcess alone;
  EXPECT_EQ(latest_valid(folder / "ckpt", alone, [](const std::string& reason) { ADD_FAILURE() << reason; }), step);
}

TEST(Resharding, ReadsOnlyTheBytesItNeeds) {
  const test::ScratchFolder folder;
  const Extents shape = {512, 16384};  // 32 MiB: rows of 64 KiB
  const std::vector<float> data(static_cast<std::size_t>(volume(shape)), 1.0F);
  SingleProcess alone;
  CheckpointWriter writer(alone, folder / "ckpt", {});
  writer.begin({.step = 1});
  writer.add({"w", DType::kFloat32, shape, {{0, 0}, shape}, data.data(), 0});
  writer.finish(true);
  writer.publish();
  CheckpointReader reader(folder / "ckpt/step-1");
  std::vector<float> rows(4 * 16384);
  reader.read("w", {{100, 0}, {4, 16384}}, {rows.data(), DType::kFloat32, 0});
  EXPECT_EQ(reader.bytes_read(), rows.size() * 4);
  std::vector<float> columns(512 * 4096);
  reader.read("w", {{0, 4096}, {512, 4096}}, {columns.data(), DType::kFloat32, 0});
  EXPECT_EQ(reader.bytes_read(), (rows.size() + columns.size()) * 4);
  EXPECT_EQ(std::count(columns.begin(), columns.end(), 1.0F), std::ssize(columns));
  // Through the window, in several pieces, with conversion.
  std::vector<double> wide(data.size());
  reader.read("w", {{0, 0}, shape}, {wide.data(), DType::kFloat64, 0});
  EXPECT_EQ(std::count(wide.begin(), wide.end(), 1.0), std::ssize(wide));
}

std::vector<std::string> save_parts(const std::filesystem::path& dir, const std::vector<Rectangle>& parts,
                                    DType second_dtype = DType::kFloat32) {
  const std::vector<float> data(100, 0.0F);
  return test::on_ranks(static_cast<int>(parts.size()), [&](Collectives& ranks) {
    CheckpointWriter writer(ranks, dir, {});
    writer.begin({.step = 5});
    const auto rank = static_cast<std::size_t>(ranks.rank());
    writer.add({"w", rank == 0 ? DType::kFloat32 : second_dtype, {4, 6}, parts[rank], data.data(), 0});
    writer.finish(true);
    writer.publish();
  });
}

TEST(Resharding, IncompleteOrDoubleCoverageIsNeverPublished) {
  const test::ScratchFolder folder;
  const auto dir = folder / "ckpt";
  EXPECT_THAT(save_parts(dir, {{{0, 0}, {2, 6}}, {{2, 0}, {1, 6}}}),
              testing::Each(HasSubstr("step 5 was not saved: checkpoint: tensor w of shape [4, 6] was not saved whole: "
                                      "6 of its 24 elements are in no part")));
  EXPECT_THAT(save_parts(dir, {{{0, 0}, {2, 6}}, {{1, 0}, {3, 6}}}), testing::Each(HasSubstr("(ranks 0 and 1)")));
  EXPECT_THAT(save_parts(dir, {{{0, 0}, {2, 6}}, {{2, 0}, {2, 6}}}, DType::kBFloat16),
              testing::Each(HasSubstr("rank 1 has tensor w as bf16 [4, 6], but rank 0 as fp32")));
  EXPECT_TRUE(list_steps(dir).empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir));  // nothing half-written stays
  EXPECT_THAT(save_parts(dir, {{{0, 0}, {2, 6}}, {{2, 0}, {2, 6}}}), testing::Each(""));
}

TEST(Resharding, ReadingOutsideOrTheWrongKindIsAnError) {
  const test::ScratchFolder folder;
  ASSERT_THAT(save(folder / "ckpt", 1, 1, 1, 0.0F), testing::Each(""));
  CheckpointReader reader(folder / "ckpt/step-1");
  std::vector<float> out(1000);
  EXPECT_THROW(reader.read("nothing", {{0}, {1}}, {out.data()}), UsageError);
  EXPECT_THROW(reader.read("layers.0.input_norm.weight", {{0}, {7}}, {out.data()}), UsageError);
  EXPECT_THROW(reader.read("layers.0.input_norm.weight", {{0, 0}, {1, 1}}, {out.data()}), UsageError);
  EXPECT_THROW(reader.read("layers.0.input_norm.weight", {{0}, {6}}, {out.data(), DType::kInt32}), UsageError);
}

}  // namespace
}  // namespace railyard
