// The waiting loop and the roll call.
#include "runtime/comm/mpi/wait.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "runtime/base/error.hpp"
#include "runtime/comm/mpi/reduction.hpp"

namespace railyard::mpi {
namespace {

constexpr int kQuestionTag = 1, kAnswerTag = 2;
constexpr double kGrace = 2.0;   // seconds that peers have to answer a roll call
constexpr double kLinger = 0.5;  // seconds that a rank goes on answering once all have: ranks often give up together

// Fixed-size messages of the roll call.
struct Question {
  std::int64_t group, kind, sequence;
};
struct Answer {
  std::int64_t group, kind, sequence;
  std::int64_t reached;
  std::array<char, 160> waits_for;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Spins briefly, since most messages are close; then lets other ranks of this core run; then sleeps between looks.
class Pause {
 public:
  void step() {
    ++looks_;
    if (looks_ <= kSpins) return;
    if (looks_ <= kSpins + kYields) {
      sched_yield();
      return;
    }
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }

 private:
  static constexpr int kSpins = 200, kYields = 2000;
  int looks_ = 0;
};

// Tells the board for as long as a wait lasts.
class ShownWait {
 public:
  ShownWait(ActivityBoard* board, const std::string& operation) : board_(board) {
    if (board_ != nullptr) board_->begin_wait(operation);
  }
  ShownWait(const ShownWait&) = delete;
  ShownWait& operator=(const ShownWait&) = delete;
  ~ShownWait() {
    // A wait that failed stays on the board: the launcher tells from it what each rank was in.
    if (board_ != nullptr && std::uncaught_exceptions() == before_) board_->end_wait();
  }

 private:
  ActivityBoard* board_;
  int before_ = std::uncaught_exceptions();
};

}  // namespace

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw RunError("{}: {}", what, std::string(text.data(), static_cast<std::size_t>(length)));
}

Waiter::Waiter(MPI_Comm world, double timeout, ActivityBoard* activity)
    : world_(world), timeout_(timeout), activity_(activity) {
  check(MPI_Comm_dup(world, &control_), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(world, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(world, &size_), "MPI_Comm_size");
}

Waiter::~Waiter() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && control_ != MPI_COMM_NULL) MPI_Comm_free(&control_);
}

std::int64_t Waiter::add_group() {
  const auto size = static_cast<std::size_t>(size_);
  progress_.push_back({0, std::vector<std::int64_t>(size), std::vector<std::int64_t>(size)});
  return static_cast<std::int64_t>(progress_.size()) - 1;
}

void Waiter::wait(std::vector<MPI_Request>& requests, const Awaited& awaited) {
  wait(
      [&] {
        int done = 0;
        check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              awaited.operation.c_str());
        return done != 0;
      },
      awaited);
}

void Waiter::wait(const std::function<bool()>& done, const Awaited& awaited) {
  for (ReductionQueue* queue : queues_) queue->advance();
  if (done()) return;
  const ShownWait shown(activity_, awaited.operation);
  const auto start = Clock::now();
  Clock::time_point look = start;
  Pause pause;
  for (int round = 0;; ++round) {
    for (ReductionQueue* queue : queues_) queue->advance();
    if (done()) return;
    pause.step();
    if (round % 64 != 63) continue;
    const Clock::time_point now = Clock::now();
    if (now - look < std::chrono::milliseconds(50)) continue;
    look = now;
    answer_calls(awaited);
    const double waited = std::chrono::duration<double>(now - start).count();
    if (waited > timeout_) fail(awaited, waited);
  }
}

void Waiter::answer_calls(const Awaited& awaited) {
  for (;;) {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kQuestionTag, control_, &there, &status), "MPI_Iprobe");
    if (there == 0) return;
    Question question{};
    check(MPI_Recv(&question, sizeof question, MPI_BYTE, status.MPI_SOURCE, kQuestionTag, control_, MPI_STATUS_IGNORE),
          "MPI_Recv");
    Answer answer{question.group, question.kind, question.sequence, 0, {}};
    const auto asker = static_cast<std::size_t>(status.MPI_SOURCE);
    if (question.group >= 0 && static_cast<std::size_t>(question.group) < progress_.size()) {
      const Progress& mine = progress(question.group);
      // The asker waits in a send for our receive, and the other way round.
      answer.reached = question.kind == Awaited::kCollective ? mine.collectives
                       : question.kind == Awaited::kSend     ? mine.receives[asker]
                                                             : mine.sends[asker];
    }
    const std::size_t length = std::min(awaited.operation.size(), answer.waits_for.size() - 1);
    std::memcpy(answer.waits_for.data(), awaited.operation.data(), length);
    // Small enough to leave at once; a synchronous wait here could deadlock two ranks that ask each other.
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(&answer, sizeof answer, MPI_BYTE, status.MPI_SOURCE, kAnswerTag, control_, &request), "MPI_Isend");
    const auto start = Clock::now();
    int sent = 0;
    while (sent == 0 && seconds_since(start) < kGrace) check(MPI_Test(&request, &sent, MPI_STATUS_IGNORE), "MPI_Test");
  }
}

void Waiter::fail(const Awaited& awaited, double waited) {
  enum class State { kSilent, kElsewhere, kCame };
  std::vector<State> states(awaited.peers.size(), State::kSilent);
  std::vector<std::string> elsewhere(awaited.peers.size());
  const Question question{awaited.group, awaited.kind, awaited.sequence};
  std::vector<MPI_Request> sends(awaited.peers.size(), MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < awaited.peers.size(); ++i)
    check(MPI_Isend(&question, sizeof question, MPI_BYTE, awaited.peers[i], kQuestionTag, control_, &sends[i]),
          "MPI_Isend");
  const auto start = Clock::now();
  double end = kGrace;
  while (seconds_since(start) < end) {
    answer_calls(awaited);
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kAnswerTag, control_, &there, &status), "MPI_Iprobe");
    if (there == 0) {
      const timespec nap{0, 1'000'000};
      nanosleep(&nap, nullptr);
      continue;
    }
    Answer answer{};
    check(MPI_Recv(&answer, sizeof answer, MPI_BYTE, status.MPI_SOURCE, kAnswerTag, control_, MPI_STATUS_IGNORE),
          "MPI_Recv");
    const auto peer = std::find(awaited.peers.begin(), awaited.peers.end(), status.MPI_SOURCE);
    if (peer == awaited.peers.end() || answer.group != question.group || answer.sequence != question.sequence) continue;
    const auto index = static_cast<std::size_t>(peer - awaited.peers.begin());
    states[index] = answer.reached >= awaited.sequence ? State::kCame : State::kElsewhere;
    elsewhere[index] = answer.waits_for.data();
    if (std::count(states.begin(), states.end(), State::kSilent) == 0)
      end = std::min(end, seconds_since(start) + kLinger);
  }
  std::string missing;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i] == State::kCame) continue;
    if (!missing.empty()) missing += ", ";
    missing +=
        states[i] == State::kSilent
            ? fmt::format("rank {} (gives no sign of life in MPI: busy elsewhere, stopped or dead)", awaited.peers[i])
            : fmt::format("rank {} (waits in {} instead)", awaited.peers[i], elsewhere[i]);
  }
  if (missing.empty()) missing = "no rank: all have come, but the network does not deliver";
  throw RunError(
      "rank {} has waited {:.1f} s in {}; missing: {}. A longer run.timeout helps when the rank was only slow", rank_,
      waited, awaited.operation, missing);
}

}  // namespace railyard::mpi
