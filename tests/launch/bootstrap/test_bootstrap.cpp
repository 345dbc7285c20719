// Bootstraps of several processes: identity, exchanges, time-outs, and what a stranger cannot do.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "launch/bootstrap/bootstrap.hpp"
#include "launch/process.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kProbe = std::string(RAILYARD_BINARY_DIR) + "/launch_probe";

// Starts `size` probes over TCP and returns their results by rank; ranks in `absent` are not started.
std::vector<CommandResult> run_tcp(int size, const fs::path& rendezvous, const std::vector<std::string>& more = {},
                                   int timeout = 20, int absent = -1) {
  std::vector<CommandResult> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == absent) continue;
    threads.emplace_back([&, rank] {
      Environment environment = current_environment();
      environment["PROBE_RANK"] = std::to_string(rank);
      environment["PROBE_SIZE"] = std::to_string(size);
      environment["PROBE_TIMEOUT"] = std::to_string(timeout);
      std::vector<std::string> command{kProbe, "tcp", rendezvous.string()};
      command.insert(command.end(), more.begin(), more.end());
      results[static_cast<std::size_t>(rank)] = run_command(command, 60, &environment);
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

void expect_sound(const std::vector<CommandResult>& results, const std::string& maker) {
  const int size = static_cast<int>(results.size());
  std::string sum;
  for (int rank = 0; rank < size; ++rank) sum += "from " + std::to_string(rank) + ";";
  for (int rank = 0; rank < size; ++rank) {
    const auto& result = results[static_cast<std::size_t>(rank)];
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr(fmt::format("rank {}/{} local {}/{}", rank, size, rank, size)));
    EXPECT_THAT(result.output, HasSubstr("maker " + maker));
    EXPECT_THAT(result.output, HasSubstr(fmt::format("heard {} {}", 100000 + sum.size(), sum)));
  }
}

TEST(SingleBootstrap, IsRankZeroOfOne) {
  const auto bootstrap = make_single_bootstrap();
  EXPECT_EQ(bootstrap->identity().size, 1);
  EXPECT_THAT(bootstrap->gather("a"), testing::ElementsAre("a"));
  EXPECT_EQ(bootstrap->broadcast("b"), "b");
}

TEST(Identity, CountsRanksOfAHostInTheirOrder) {
  const auto ranks = number_locally({"b", "a", "b", "b"});
  EXPECT_EQ(ranks[3].local_rank, 2);
  EXPECT_EQ(ranks[3].local_size, 3);
  EXPECT_EQ(ranks[1].local_rank, 0);
  EXPECT_EQ(ranks[1].local_size, 1);
}

TEST(TcpBootstrap, ExchangesAmongAllRanks) {
  const TemporaryFolder folder;
  for (const int size : {1, 2, 9}) expect_sound(run_tcp(size, folder.path() / "meet"), "TCP");
  EXPECT_TRUE(fs::is_empty(folder.path())) << "the file with the token stays behind";
}

TEST(TcpBootstrap, BarrierWaitsForTheLast) {
  const TemporaryFolder folder;
  const auto results = run_tcp(3, folder.path() / "meet", {"late", "300"});
  for (const auto& result : results) {
    std::smatch found;
    ASSERT_TRUE(std::regex_search(result.output, found, std::regex("waited ([0-9.]+)"))) << result.errors;
    EXPECT_GE(std::stod(found[1]), 0.29);
  }
}

TEST(TcpBootstrap, NamesRanksThatNeverCome) {
  const TemporaryFolder folder;
  const auto results = run_tcp(3, folder.path() / "meet", {}, 1, 2);
  EXPECT_EQ(results[0].status, 1);
  EXPECT_THAT(results[0].errors, testing::AllOf(HasSubstr("these did not come"), HasSubstr(": 2.")));
  EXPECT_EQ(results[1].status, 1);
}

TEST(TcpBootstrap, NamesARankThatFallsSilent) {
  const TemporaryFolder folder;
  Environment environment = current_environment();
  const auto results = run_tcp(2, folder.path() / "meet", {"silent"}, 1);
  EXPECT_EQ(results[0].status, 1);
  EXPECT_THAT(results[0].errors, HasSubstr("no word from rank 1"));
}

TEST(TcpBootstrap, PassesOverAnOldMeetingPoint) {
  const TemporaryFolder folder;
  const fs::path meet = folder.path() / "meet";
  std::ofstream(meet) << R"({"token":"old","port":1,"addresses":["127.0.0.1"]})";
  chmod(meet.c_str(), 0600);
  expect_sound(run_tcp(3, meet), "TCP");
}

TEST(TcpBootstrap, DoesNotTrustAFileThatOthersMayWrite) {
  const TemporaryFolder folder;
  const fs::path meet = folder.path() / "meet";
  std::ofstream(meet) << R"({"token":"theirs","port":1,"addresses":["127.0.0.1"]})";
  chmod(meet.c_str(), 0666);
  const auto results = run_tcp(2, meet, {}, 1, 0);
  EXPECT_THAT(results[1].errors, HasSubstr("found no rank 0"));
}

#ifdef RAILYARD_HAS_PMIX
TEST(PmixBootstrap, SaysThatThereIsNoServer) {
  const auto result = run_command({kProbe, "pmix"}, 20);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("--mpi=pmix"));
}

TEST(PmixBootstrap, ExchangesUnderMpirun) {
  if (!find_program("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  Environment environment = current_environment();
  environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  const auto result =
      run_command({"mpirun", "--oversubscribe", "-n", "3", kProbe, "pmix", "-", "late", "300"}, 60, &environment);
  EXPECT_EQ(result.status, 0) << result.errors;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(result.output, HasSubstr(fmt::format("rank {}/3 local {}/3", rank, rank)));
  EXPECT_THAT(result.output, HasSubstr("from 0;from 1;from 2;"));
}
#endif

}  // namespace
}  // namespace railyard::launch
