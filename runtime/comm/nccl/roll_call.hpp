// Who has come to an operation? NCCL does not tell, so ranks ask each other over UDP when one has waited too long.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/group.hpp"

namespace railyard::nccl {

// A sequence of operations that several ranks take part in, the same number on all of them.
using Line = std::uint64_t;
Line line_of(const std::string& name, const std::vector<int>& ranks);

class RollCall {
 public:
  // Collective over `host`: addresses are exchanged by it.
  explicit RollCall(Communicator& host);
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  // This rank has launched one more operation of the line; returns how many that makes. Any thread.
  std::int64_t come(Line line);

  // Answers what other ranks ask, for `milliseconds`. One thread only, as is missing().
  void answer(int milliseconds);
  // Asks `ranks` whether they have come to operation `count` of the line, and tells about those that have not, as
  // "rank 3 (has done 7 of 8), rank 5 (does not answer: stopped, dead or not reachable)". "": all have come.
  std::string missing(Line line, std::int64_t count, const std::vector<int>& ranks);

 private:
  struct Message {
    std::uint64_t token;  // of this run: strangers are not answered
    std::int32_t kind, rank;
    std::uint64_t line;
    std::int64_t count;
  };
  struct Address {
    std::string host, ip;
    std::uint16_t port;
  };

  bool receive(int milliseconds, Message& message);
  void send(int rank, const Message& message);
  [[nodiscard]] std::int64_t count_of(Line line);

  int rank_, socket_ = -1;
  std::uint64_t token_ = 0;
  std::vector<Address> addresses_;
  std::mutex mutex_;
  std::map<Line, std::int64_t> counts_;
};

}  // namespace railyard::nccl
