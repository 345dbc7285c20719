// JSON errors name the place; the job document survives a round trip; a replaced file is never a part.
#include <gtest/gtest.h>

#include "runtime/base/error.hpp"
#include "runtime/base/job.hpp"
#include "runtime/base/json.hpp"

namespace railyard {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Json, ErrorNamesLineAndColumn) {
  EXPECT_NE(message_of([] { parse_json("{\n \"a\": ,}", "x.json"); }).find("x.json:2:7:"), std::string::npos);
}

TEST(Json, RefusesDeepNesting) {
  EXPECT_NE(message_of([] { parse_json(std::string(100000, '['), "x.json"); }).find("nested deeper"),
            std::string::npos);
}

TEST(JobSpec, RoundTrips) {
  JobSpec job;
  job.name = "x";
  job.model.rope_scaling = RopeScaling{.type = "llama3", .factor = 8};
  job.data.train = {{.path = "a", .weight = 0.25}, {.path = "b", .weight = std::nullopt}};
  job.run.setenv["A"] = "1";
  const Json document = job.to_json();
  EXPECT_EQ(JobSpec::from_json(document).to_json(), document);
}

TEST(JobSpec, NamesTheMissingOrWrongKey) {
  Json document = JobSpec{}.to_json();
  document["train"]["lr"]["peak"] = "fast";
  EXPECT_EQ(message_of([&] { JobSpec::from_json(document, "job.json"); }),
            "job.json: train.lr.peak: expected a number");
  document = JobSpec{}.to_json();
  document["model"].erase("layers");
  EXPECT_NE(message_of([&] { JobSpec::from_json(document, "job.json"); }).find("model.layers: missing"),
            std::string::npos);
}

TEST(WriteFileAtomic, ReplacesAndLeavesNothingBeside) {
  const auto folder = std::filesystem::temp_directory_path() / ("railyard-json-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  write_file_atomic(folder / "f", "one");
  write_file_atomic(folder / "f", "two");
  EXPECT_EQ(read_file(folder / "f"), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_THROW(write_file_atomic(folder / "missing" / "f", "x"), RunError);
  std::filesystem::remove_all(folder);
}

TEST(Json, ANumberThatNoDoubleHoldsIsAUserError) {
  EXPECT_THROW(static_cast<void>(parse_json("{\"a\": 1e999}", "test")), UsageError);
}

}  // namespace
}  // namespace railyard
