// Event files, read back with a parser of their own.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <span>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/json.hpp"
#include "runtime/report/tensorboard.hpp"
#include "tests/runtime/report/fixture.hpp"

namespace railyard {
namespace {

using test::example_step;
using test::ScratchFolder;

// A protobuf message as field number -> values; lengths are checked, groups refused.
struct Fields {
  std::multimap<int, std::uint64_t> numbers;
  std::multimap<int, std::string> bytes;

  explicit Fields(const std::string& text) {
    std::size_t at = 0;
    const auto fixed = [&](int size) {
      std::uint64_t value = 0;
      for (int i = 0; i < size; ++i)
        value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text.at(at++))) << (8 * i);
      return value;
    };
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(text.at(at++));
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
    };
    while (at < text.size()) {
      const std::uint64_t key = varint();
      const int field = static_cast<int>(key >> 3);
      switch (key & 7) {
        case 0:
          numbers.emplace(field, varint());
          break;
        case 1:
          numbers.emplace(field, fixed(8));
          break;
        case 5:
          numbers.emplace(field, fixed(4));
          break;
        case 2: {
          const std::size_t size = varint();
          EXPECT_LE(size, text.size() - at);
          bytes.emplace(field, text.substr(at, size));
          at += size;
          break;
        }
        default:
          throw std::runtime_error("unknown wire type");
      }
    }
  }
};

std::uint32_t masked(const std::string& text) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(text)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// The events of a file; checksums are checked.
std::vector<Fields> read_events(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<Fields> events;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t size = 0;
    std::uint32_t length_crc = 0, data_crc = 0;
    std::memcpy(&size, text.data() + at, 8);
    std::memcpy(&length_crc, text.data() + at + 8, 4);
    EXPECT_EQ(length_crc, masked(text.substr(at, 8)));
    const std::string data = text.substr(at + 12, size);
    std::memcpy(&data_crc, text.data() + at + 12 + size, 4);
    EXPECT_EQ(data_crc, masked(data));
    events.emplace_back(data);
    at += 16 + size;
  }
  return events;
}

// tag -> value of one event.
std::map<std::string, float> scalars(const Fields& event) {
  std::map<std::string, float> values;
  const Fields summary(event.bytes.find(5)->second);
  for (const auto& [field, text] : summary.bytes) {
    const Fields value(text);
    values[value.bytes.find(1)->second] =
        std::bit_cast<float>(static_cast<std::uint32_t>(value.numbers.find(2)->second));
  }
  return values;
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(TensorBoard, WritesMegatronsTagsByStepAndBySamples) {
  const ScratchFolder folder;
  TensorBoard board(folder / "tensorboard");
  board.step(example_step(1));
  board.step(example_step(2));
  board.evaluation({2, 1.5, 0.1});
  const auto files = event_files(folder / "tensorboard");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(files[0].filename().string().starts_with("events.out.tfevents."));
  const auto events = read_events(files[0]);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].bytes.find(3)->second, "brain.Event:2");
  EXPECT_EQ(events[2].numbers.find(2)->second, 2u);
  const auto values = scalars(events[2]);
  EXPECT_EQ(values.at("lm loss"), static_cast<float>(example_step(2).loss));
  EXPECT_EQ(values.at("learning-rate"), 1e-3f);
  EXPECT_EQ(values.at("grad-norm"), 0.42f);
  EXPECT_EQ(values.at("batch-size"), 16.0f);
  EXPECT_EQ(values.at("loss-scale"), 1.0f);
  EXPECT_EQ(values.at("world-size"), 2.0f);
  EXPECT_EQ(values.at("iteration-time"), 0.266f);
  EXPECT_EQ(values.at("throughput"), 506.1f);
  EXPECT_EQ(values.at("mfu"), 0.511f);
  EXPECT_EQ(values.at("mem-max-allocated-bytes"), 51.0f * 1073741824.0f);
  EXPECT_EQ(scalars(events[3]).at("lm loss validation"), 1.5f);
  EXPECT_FLOAT_EQ(scalars(events[3]).at("lm loss validation ppl"), std::exp(1.5f));

  const auto by_samples = read_events(event_files(folder / "tensorboard/samples").at(0));
  ASSERT_EQ(by_samples.size(), 4u);
  EXPECT_EQ(by_samples[2].numbers.find(2)->second, 32u);
  EXPECT_EQ(scalars(by_samples[2]).at("lm loss vs samples"), static_cast<float>(example_step(2).loss));
  EXPECT_EQ(by_samples[3].numbers.find(2)->second, 32u);
}

TEST(TensorBoard, ARunThatBeginsAnewDropsEverything) {
  const ScratchFolder folder;
  TensorBoard board(folder.path(), TensorBoard::Resume{0, 0});
  board.evaluation({0, 4.0, 0.1});
  for (const auto& file : {event_files(folder.path()).at(0), event_files(folder.path() / "samples").at(0)}) {
    const auto events = read_events(file);
    ASSERT_EQ(events.size(), 3u);
    EXPECT_TRUE(events[1].bytes.contains(7));
    EXPECT_EQ(events[1].numbers.find(2)->second, 0u);
    EXPECT_EQ(events[2].numbers.find(2)->second, 0u);
    EXPECT_EQ(scalars(events[2]).size(), 2u);
  }
}

TEST(TensorBoard, AResumedRunTellsReadersToDropThePointsOfTheDeadOne) {
  const ScratchFolder folder;
  { TensorBoard first(folder.path()); }
  TensorBoard second(folder.path(), TensorBoard::Resume{100, 1600});
  second.step(example_step(101));
  const auto files = event_files(folder.path());
  ASSERT_EQ(files.size(), 2u);
  std::size_t sessions = 0;
  for (const auto& file : files) {
    for (const Fields& event : read_events(file)) {
      const auto session = event.bytes.find(7);
      if (session == event.bytes.end()) continue;
      ++sessions;
      EXPECT_EQ(event.numbers.find(2)->second, 101u);
      EXPECT_EQ(Fields(session->second).numbers.find(1)->second, 1u);
    }
  }
  EXPECT_EQ(sessions, 1u);
}

}  // namespace
}  // namespace railyard
