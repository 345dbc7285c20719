// Whatever happens to a save (also one that replaces a step), the newest checkpoint that was said to be safe is found
// again, and nothing valid goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/checkpoint/reader.hpp"
#include "runtime/checkpoint/writer.hpp"
#include "tests/runtime/checkpoint/scratch.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  bool killed = false;
  int exit_code = 0;
  std::string output;
  std::int64_t saved = 0;  // the last step that it said was safe
};

// Runs checkpoint_saver with a fault.
Outcome save_steps(const fs::path& dir, const std::vector<std::string>& steps, const std::string& fault,
                   const std::string& count_file = "") {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    ::close(ends[0]);
    ::close(ends[1]);
    const std::string program = std::string(RAILYARD_BINARY_DIR) + "/checkpoint_saver";
    std::vector<char*> words = {const_cast<char*>(program.c_str()), const_cast<char*>(dir.c_str())};
    for (const std::string& step : steps) words.push_back(const_cast<char*>(step.c_str()));
    words.push_back(nullptr);
    if (!fault.empty()) {
      ::setenv("LD_PRELOAD", RAILYARD_BINARY_DIR "/libcheckpoint_faults.so", 1);
      ::setenv("RAILYARD_FAULT", fault.c_str(), 1);
    }
    if (!count_file.empty()) ::setenv("RAILYARD_FAULT_COUNT", count_file.c_str(), 1);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    outcome.output.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.killed = WIFSIGNALED(status);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("saved ")) outcome.saved = std::atol(line.c_str() + 6);
  return outcome;
}

std::optional<std::int64_t> find_latest(const fs::path& dir, std::vector<std::string>* reasons = nullptr) {
  SingleProcess alone;
  return latest_valid(dir, alone, [&](const std::string& reason) {
    if (reasons != nullptr) reasons->push_back(reason);
  });
}

// Whether all values are those of the step.
void expect_content(const fs::path& dir, std::int64_t step) {
  CheckpointReader reader(step_folder(dir, step));
  EXPECT_EQ(reader.manifest().info.consumed_samples, step);
  std::vector<float> values(300);
  reader.read("w", {{0, 0}, {30, 10}}, {values.data()});
  EXPECT_EQ(std::count(values.begin(), values.end(), static_cast<float>(step)), 300);
}

std::vector<std::int64_t> valid_steps(const fs::path& dir) {
  std::vector<std::int64_t> out;
  for (const std::int64_t step : list_steps(dir)) {
    try {
      if (verify_files(step_folder(dir, step), read_manifest(step_folder(dir, step))).empty()) out.push_back(step);
    } catch (const Error&) {
    }
  }
  return out;
}

class EachFault : public testing::TestWithParam<const char*> {};

TEST_P(EachFault, AtEverySystemCall) {
  const test::ScratchFolder folder;
  const auto fresh = [&](const std::string& name) {
    const fs::path dir = folder / name;
    const Outcome first = save_steps(dir, {"10", "20"}, "");
    EXPECT_EQ(first.exit_code, 0) << first.output;
    return dir;
  };
  const std::string count_file = (folder / "count").string();
  ASSERT_EQ(save_steps(fresh("counted"), {"20", "30", "40"}, "0:count", count_file).exit_code, 0);
  const long calls = std::atol(read_file(count_file).c_str());
  ASSERT_GT(calls, 20);
  int interrupted = 0;
  for (long n = 1; n <= calls; ++n) {
    SCOPED_TRACE(n);
    const fs::path dir = fresh("run");
    const Outcome outcome = save_steps(dir, {"20", "30", "40"}, std::to_string(n) + ":" + GetParam());
    interrupted += outcome.killed || outcome.exit_code != 0 ? 1 : 0;
    const auto latest = find_latest(dir);
    ASSERT_TRUE(latest.has_value());
    // At least what was said to be safe, or the one before anything was said; a whole newer one is welcome.
    const std::int64_t safe = std::max<std::int64_t>(outcome.saved, 20);
    ASSERT_GE(*latest, safe);
    expect_content(dir, *latest);
    // Keeping two: the one before the last safe one is there, too.
    ASSERT_THAT(valid_steps(dir), testing::AllOf(testing::Contains(safe), testing::Contains(safe - 10)));
    if (outcome.exit_code == 1) {
      EXPECT_THAT(outcome.output, HasSubstr("failed: "));
    }
    // The next start saves again, and nothing half-done stays.
    ASSERT_EQ(save_steps(dir, {"50"}, "").exit_code, 0);
    ASSERT_EQ(find_latest(dir), 50);
    for (const auto& entry : fs::directory_iterator(dir))
      EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("latest", testing::MatchesRegex("step-[0-9]+")));
    fs::remove_all(dir);
  }
  EXPECT_GE(interrupted, 8);
}

INSTANTIATE_TEST_SUITE_P(NothingLost, EachFault, testing::Values("kill", "tear", "ENOSPC", "EIO"));

TEST(NothingLost, AFullDiskEndsTheSaveAndKeepsTheLast) {
  const test::ScratchFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=96k") != 0)
    GTEST_SKIP() << "needs the right to mount a tmpfs: " << std::strerror(errno);
  const Outcome outcome = save_steps(folder / "ckpt", {"10", "20"}, "");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::ofstream(folder / "filler") << std::string(std::size_t{1} << 20, 'x');
  const Outcome full = save_steps(folder / "ckpt", {"30"}, "");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.output, HasSubstr("No space left on device; free space"));
  EXPECT_EQ(find_latest(folder / "ckpt"), 20);
  expect_content(folder / "ckpt", 20);
  fs::remove(folder / "filler");
  EXPECT_EQ(save_steps(folder / "ckpt", {"30"}, "").exit_code, 0);
  EXPECT_EQ(find_latest(folder / "ckpt"), 30);
  EXPECT_EQ(::umount2(folder.path().c_str(), MNT_DETACH), 0);
}

void flip(const fs::path& path, std::uint64_t position, unsigned bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(position));
  file.put(static_cast<char>(byte ^ (1 << bit)));
}

TEST(NothingLost, AFlippedBitAnywhereIsFound) {
  const test::ScratchFolder folder;
  ASSERT_EQ(save_steps(folder / "ckpt", {"10", "20"}, "").exit_code, 0);
  std::mt19937 random(3);
  for (const char* name : {"MANIFEST.json", "rank-00000.safetensors"}) {
    const fs::path path = folder / "ckpt/step-20" / name;
    const auto size = fs::file_size(path);
    for (std::uint64_t position = 0; position < size; position += 5) {
      const unsigned bit = random() % 8;
      flip(path, position, bit);
      std::vector<std::string> reasons;
      ASSERT_EQ(find_latest(folder / "ckpt", &reasons), 10) << name << " at " << position;
      ASSERT_THAT(reasons, testing::ElementsAre(HasSubstr("checkpoint of step 20 rejected: "))) << position;
      flip(path, position, bit);
    }
  }
  EXPECT_EQ(find_latest(folder / "ckpt"), 20);
}

TEST(NothingLost, DamagedFilesAreRejectedWithTheReason) {
  struct Damage {
    const char* what;
    std::function<void(const fs::path&)> apply;
    const char* reason;
  };
  const std::vector<Damage> damages = {
      {"shard cut by a byte",
       [](const fs::path& d) {
         fs::resize_file(d / "rank-00000.safetensors", fs::file_size(d / "rank-00000.safetensors") - 1);
       },
       "bytes, but"},
      {"shard empty", [](const fs::path& d) { fs::resize_file(d / "rank-00000.safetensors", 0); }, "has 0 bytes"},
      {"shard longer", [](const fs::path& d) { std::ofstream(d / "rank-00000.safetensors", std::ios::app) << "x"; },
       "bytes, but"},
      {"shard missing", [](const fs::path& d) { fs::remove(d / "rank-00000.safetensors"); }, "No such file"},
      {"shard is a folder",
       [](const fs::path& d) {
         fs::remove(d / "rank-00000.safetensors");
         fs::create_directory(d / "rank-00000.safetensors");
       },
       "no regular file"},
      {"shard of another step",
       [](const fs::path& d) {
         fs::copy_file(d.parent_path() / "step-10/rank-00000.safetensors", d / "rank-00000.safetensors",
                       fs::copy_options::overwrite_existing);
       },
       "checksum of w@0,0 does not fit: damaged (and 1 more)"},
      {"manifest missing", [](const fs::path& d) { fs::remove(d / "MANIFEST.json"); }, "No such file"},
      {"manifest empty", [](const fs::path& d) { fs::resize_file(d / "MANIFEST.json", 0); }, "holds no checksum"},
      {"manifest cut",
       [](const fs::path& d) { fs::resize_file(d / "MANIFEST.json", fs::file_size(d / "MANIFEST.json") / 2); },
       "cut short"},
      {"manifest of another step",
       [](const fs::path& d) {
         fs::copy_file(d.parent_path() / "step-10/MANIFEST.json", d / "MANIFEST.json",
                       fs::copy_options::overwrite_existing);
       },
       "is the manifest of step 10"},
      {"folder empty",
       [](const fs::path& d) {
         fs::remove_all(d);
         fs::create_directory(d);
       },
       "No such file"},
      {"a file instead of the folder",
       [](const fs::path& d) {
         fs::remove_all(d);
         std::ofstream(d) << "x";
       },
       "Not a directory"},
  };
  for (const Damage& damage : damages) {
    const test::ScratchFolder folder;
    ASSERT_EQ(save_steps(folder / "ckpt", {"10", "20"}, "").exit_code, 0);
    damage.apply(folder / "ckpt/step-20");
    std::vector<std::string> reasons;
    EXPECT_EQ(find_latest(folder / "ckpt", &reasons), 10) << damage.what;
    EXPECT_THAT(reasons, testing::ElementsAre(HasSubstr(damage.reason))) << damage.what;
    expect_content(folder / "ckpt", 10);
  }
}

TEST(NothingLost, AllRanksGetTheSameAnswer) {
  const test::ScratchFolder folder;
  ASSERT_EQ(save_steps(folder / "ckpt", {"10", "20"}, "").exit_code, 0);
  flip(folder / "ckpt/step-20/rank-00000.safetensors", 4200, 1);
  std::atomic<int> agreed = 0, reported = 0;
  EXPECT_THAT(test::on_ranks(3,
                             [&](Collectives& ranks) {
                               const auto step =
                                   latest_valid(folder / "ckpt", ranks, [&](const std::string&) { ++reported; });
                               if (step == 10) ++agreed;
                               if (!latest_valid(folder / "none", ranks, [](const std::string&) {})) ++agreed;
                             }),
              testing::Each(""));
  EXPECT_EQ(agreed, 6);
  EXPECT_EQ(reported, 1);
}

TEST(NothingLost, StrangeNamesAreNoCheckpoints) {
  const test::ScratchFolder folder;
  for (const char* name : {"step-", "step-x", "step-01", "step--1", "step-5.tmp-1", "step-99999999999999999999"})
    fs::create_directory(folder / name);
  std::ofstream(folder / "latest") << "step-../../etc";
  EXPECT_TRUE(list_steps(folder.path()).empty());
  fs::create_directory(folder / "step-7");
  EXPECT_THAT(list_steps(folder.path()), testing::ElementsAre(7));
}

TEST(NothingLost, SavingAStepAgainReplacesIt) {
  const test::ScratchFolder folder;
  ASSERT_EQ(save_steps(folder / "ckpt", {"10", "20"}, "").exit_code, 0);
  flip(folder / "ckpt/step-20/rank-00000.safetensors", 4200, 1);
  ASSERT_EQ(find_latest(folder / "ckpt"), 10);
  ASSERT_EQ(save_steps(folder / "ckpt", {"20"}, "").exit_code, 0);
  EXPECT_EQ(find_latest(folder / "ckpt"), 20);
}

TEST(Retention, KeepsTheLastAndEveryMth) {
  const test::ScratchFolder folder;
  SingleProcess alone;
  const float value = 1.0F;
  const auto dir = folder / "ckpt";
  const auto save = [&](CheckpointWriter& writer, std::int64_t step) {
    writer.begin({.step = step});
    writer.add({"w", DType::kFloat32, {1}, {{0}, {1}}, &value, 0});
    writer.finish(false);
    writer.publish();
  };
  {
    CheckpointWriter all(alone, dir, {});
    for (const std::int64_t step : {5, 10, 15, 20, 25, 30}) save(all, step);
  }
  EXPECT_THAT(list_steps(dir), testing::ElementsAre(30, 25, 20, 15, 10, 5));
  fs::remove(dir / "step-25/MANIFEST.json");               // damaged: does not count, and stays for inspection
  std::optional<CheckpointReader> reader(dir / "step-5");  // being read: stays
  {
    CheckpointWriter some(alone, dir, {.keep = 2, .keep_every = 10});
    save(some, 35);
  }
  EXPECT_THAT(list_steps(dir), testing::ElementsAre(35, 30, 25, 20, 10, 5));
  reader.reset();
  {
    CheckpointWriter some(alone, dir, {.keep = 2, .keep_every = 10});
    save(some, 12);  // a run that went back: what is newer is not its business
  }
  EXPECT_THAT(list_steps(dir), testing::ElementsAre(35, 30, 25, 20, 12, 10));
}

}  // namespace
}  // namespace railyard
