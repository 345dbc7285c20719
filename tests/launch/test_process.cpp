// Child processes: output, input, time-outs, signals, death with their parent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "launch/process.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(RunCommand, GivesOutputErrorsAndStatus) {
  const auto result = run_command({"sh", "-c", "cat; echo no >&2; exit 3"}, 10, nullptr, "what it reads");
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "what it reads");
  EXPECT_EQ(result.errors, "no\n");
  EXPECT_FALSE(result.timed_out);
}

TEST(RunCommand, PassesMuchDataWithoutDeadlock) {
  const std::string much(5'000'000, 'y');
  EXPECT_EQ(run_command({"cat"}, 20, nullptr, much).output, much);
  EXPECT_EQ(run_command({"true"}, 20, nullptr, much).status, 0);
}

TEST(RunCommand, KillsWhatTakesTooLong) {
  CommandResult result;
  EXPECT_LT(seconds_of([&] { result = run_command({"sleep", "60"}, 0.3); }), 5.0);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.status, 128 + SIGKILL);
}

TEST(RunCommand, SaysWhenAProgramIsMissing) {
  const auto result = run_command({"no-such-program-here"}, 5);
  EXPECT_EQ(result.status, 127);
  EXPECT_THAT(result.errors, testing::HasSubstr("no-such-program-here"));
  EXPECT_FALSE(find_program("no-such-program-here"));
  EXPECT_TRUE(find_program("sh"));
}

TEST(RunCommand, UsesTheEnvironmentItIsGiven) {
  const Environment environment{{"PATH", "/usr/bin:/bin"}, {"ONLY", "this"}};
  EXPECT_EQ(run_command({"sh", "-c", "echo $ONLY$HOME"}, 5, &environment).output, "this\n");
}

TEST(Child, ReportsItsEndAndTakesSignals) {
  Child child({"sleep", "60"}, current_environment());
  EXPECT_FALSE(child.poll());
  child.signal(SIGTERM);
  std::optional<int> status;
  for (int i = 0; i < 200 && !status; ++i) {
    usleep(20000);
    status = child.poll();
  }
  EXPECT_EQ(status, 128 + SIGTERM);
}

TEST(Child, DiesWithItsParent) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto* child = new Child({"sleep", "60"}, current_environment());
    const pid_t pid = child->pid();
    (void)!write(pipe_ends[1], &pid, sizeof pid);
    pause();
    _exit(0);
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(pipe_ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  usleep(100000);
  ASSERT_EQ(kill(grandchild, 0), 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Whoever inherits the orphan reaps it; a zombie is dead too.
  bool dead = false;
  for (int i = 0; i < 200 && !dead; ++i) {
    usleep(20000);
    const auto state = run_command({"ps", "-o", "stat=", "-p", std::to_string(grandchild)}, 5).output;
    dead = state.empty() || state[0] == 'Z';
  }
  EXPECT_TRUE(dead);
}

TEST(SignalWatch, TakesSignalsOneByOne) {
  SignalWatch watch;
  EXPECT_EQ(watch.wait(0.01), 0);
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGINT);
  const int first = watch.wait(1), second = watch.wait(1);
  EXPECT_THAT((std::vector<int>{first, second}), testing::UnorderedElementsAre(SIGUSR1, SIGINT));
}

TEST(Variables, AreNumbersOrAnError) {
  setenv("PROBE_NUMBER", "12", 1);
  EXPECT_EQ(environment_number("PROBE_NUMBER"), 12);
  setenv("PROBE_NUMBER", "12x", 1);
  EXPECT_THROW((void)environment_number("PROBE_NUMBER"), UsageError);
  setenv("PROBE_NUMBER", "", 1);
  EXPECT_FALSE(environment_number("PROBE_NUMBER"));
  unsetenv("PROBE_NUMBER");
}

}  // namespace
}  // namespace railyard::launch
