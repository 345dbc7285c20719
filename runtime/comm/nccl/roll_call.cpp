// Questions and answers of the roll call, one datagram each.
#include "runtime/comm/nccl/roll_call.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/base/philox.hpp"

namespace railyard::nccl {
namespace {

constexpr std::int32_t kQuestion = 1, kAnswer = 2;
constexpr auto kGrace = std::chrono::seconds(3);

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The first address of an interface that is up and no loopback; "" when there is none.
std::string own_address() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string address;
  for (const ifaddrs* i = list; i != nullptr && address.empty(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* internet = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    if (inet_ntop(AF_INET, &internet->sin_addr, text.data(), text.size()) != nullptr) address = text.data();
  }
  freeifaddrs(list);
  return address;
}

}  // namespace

Line line_of(const std::string& name, const std::vector<int>& ranks) {
  std::uint64_t key = stream_key(0, name);
  for (const int rank : ranks) key = mix64(key ^ static_cast<std::uint64_t>(rank));
  return key;
}

RollCall::RollCall(Communicator& host) : rank_(host.rank()) {
  socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof own;
  if (socket_ < 0 || bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    const int error = errno;
    if (socket_ >= 0) close(socket_);
    throw RunError("no UDP socket for time-outs: {}", std::strerror(error));
  }
  std::random_device random;
  const std::uint64_t drawn = (std::uint64_t{random()} << 32U) | random();
  token_ = std::stoull(host.broadcast(std::to_string(drawn), 0));
  const Json mine{{"host", host_name()}, {"ip", own_address()}, {"port", ntohs(own.sin_port)}};
  Json all = Json::array();
  for (const std::string& text : host.gather(mine.dump(), 0)) all.push_back(Json::parse(text));
  for (const Json& entry : Json::parse(host.broadcast(all.dump(), 0)))
    addresses_.push_back({entry.at("host"), entry.at("ip"), entry.at("port")});
}

RollCall::~RollCall() { close(socket_); }

std::int64_t RollCall::come(Line line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ++counts_[line];
}

std::int64_t RollCall::count_of(Line line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = counts_.find(line);
  return found == counts_.end() ? 0 : found->second;
}

bool RollCall::receive(int milliseconds, Message& message) {
  pollfd waiting{socket_, POLLIN, 0};
  if (poll(&waiting, 1, milliseconds) <= 0) return false;
  const ssize_t bytes = recv(socket_, &message, sizeof message, MSG_DONTWAIT);
  return bytes == static_cast<ssize_t>(sizeof message) && message.token == token_ && message.rank >= 0 &&
         static_cast<std::size_t>(message.rank) < addresses_.size();
}

void RollCall::send(int rank, const Message& message) {
  const Address& to = addresses_[static_cast<std::size_t>(rank)];
  const bool same_host = to.host == addresses_[static_cast<std::size_t>(rank_)].host;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(to.port);
  if (same_host || to.ip.empty())
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  else if (inet_pton(AF_INET, to.ip.c_str(), &address.sin_addr) != 1)
    return;
  // A lost question reads as no answer.
  static_cast<void>(
      sendto(socket_, &message, sizeof message, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

void RollCall::answer(int milliseconds) {
  Message message{};
  if (receive(milliseconds, message) && message.kind == kQuestion)
    send(message.rank, {token_, kAnswer, rank_, message.line, count_of(message.line)});
}

std::string RollCall::missing(Line line, std::int64_t count, const std::vector<int>& ranks) {
  std::map<int, std::int64_t> answers;
  const auto end = std::chrono::steady_clock::now() + kGrace;
  auto again = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < end && answers.size() + 1 < ranks.size()) {
    if (std::chrono::steady_clock::now() >= again) {  // datagrams may be lost
      for (const int rank : ranks)
        if (rank != rank_ && !answers.contains(rank)) send(rank, {token_, kQuestion, rank_, line, count});
      again += std::chrono::milliseconds(500);
    }
    Message message{};
    if (!receive(50, message)) continue;
    if (message.kind == kQuestion) send(message.rank, {token_, kAnswer, rank_, message.line, count_of(message.line)});
    if (message.kind == kAnswer && message.line == line &&
        std::find(ranks.begin(), ranks.end(), message.rank) != ranks.end())
      answers[message.rank] = message.count;
  }
  std::string text;
  for (const int rank : ranks) {
    if (rank == rank_) continue;
    const auto found = answers.find(rank);
    if (found != answers.end() && found->second >= count) continue;
    if (!text.empty()) text += ", ";
    text += found == answers.end() ? fmt::format("rank {} (does not answer: stopped, dead or not reachable)", rank)
                                   : fmt::format("rank {} (has done {} of {})", rank, found->second, count);
  }
  return text;
}

}  // namespace railyard::nccl
