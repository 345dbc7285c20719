// The bootstrap without PMIx: every rank connects to rank 0, whose address and token are in a file that all can read.
// A frame is its length (8 bytes, big-endian) and its bytes. A connection opens with the caller's frame
// "TOKEN RANK SIZE HOST", which rank 0 answers with a frame of its own; who does not know the token is dropped without
// one.
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "launch/bootstrap/bootstrap.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kLargestFrame = 1ULL << 30;
constexpr std::uint64_t kLargestHello = 1024;
constexpr char kWelcome[] = "railyard";

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  [[nodiscard]] int milliseconds() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return left > 0 ? static_cast<int>(std::min<long>(left, 1L << 30)) : 0;
  }
  [[nodiscard]] bool passed() const { return milliseconds() == 0; }

 private:
  Clock::time_point end_;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool open() const { return descriptor_ >= 0; }

  // Whether the peer has closed it, or said something before it was asked.
  [[nodiscard]] bool abandoned() const {
    char byte;
    const ssize_t count = recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  }
  // Waits until it can be read (or written); false when the deadline passes.
  [[nodiscard]] bool ready(short events, const Deadline& deadline) const {
    pollfd wanted{descriptor_, events, 0};
    while (true) {
      const int count = poll(&wanted, 1, deadline.milliseconds());
      if (count > 0) return true;
      if (count == 0 || errno != EINTR) return false;
    }
  }
  // False when the peer is gone or the deadline passes.
  bool send_all(std::string_view bytes, const Deadline& deadline) const {
    while (!bytes.empty()) {
      const ssize_t count = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
      if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (count < 0 && errno == EAGAIN && !ready(POLLOUT, deadline)) return false;
    }
    return true;
  }
  bool send_frame(std::string_view bytes, const Deadline& deadline) const {
    std::string header(8, '\0');
    for (int i = 0; i < 8; ++i) header[static_cast<std::size_t>(i)] = static_cast<char>(bytes.size() >> (8 * (7 - i)));
    return send_all(header, deadline) && send_all(bytes, deadline);
  }
  std::optional<std::string> receive_frame(std::uint64_t largest, const Deadline& deadline) const {
    const auto header = receive(8, deadline);
    if (!header) return std::nullopt;
    std::uint64_t size = 0;
    for (const char c : *header) size = (size << 8) | static_cast<unsigned char>(c);
    if (size > largest) return std::nullopt;
    return receive(size, deadline);
  }

 private:
  [[nodiscard]] std::optional<std::string> receive(std::uint64_t size, const Deadline& deadline) const {
    std::string bytes(size, '\0');
    std::size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t count = recv(descriptor_, bytes.data() + at, bytes.size() - at, MSG_DONTWAIT);
      if (count > 0) at += static_cast<std::size_t>(count);
      if (count == 0) return std::nullopt;
      if (count < 0 && errno != EAGAIN && errno != EINTR) return std::nullopt;
      if (count < 0 && errno == EAGAIN && !ready(POLLIN, deadline)) return std::nullopt;
    }
    return bytes;
  }
  int descriptor_ = -1;
};

std::string make_token() {
  std::array<unsigned char, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw RunError("the system gives no random bytes: {}", std::strerror(errno));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

// Takes the same time wherever the first difference is.
bool same_token(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

// The names and addresses under which others may reach this host, likeliest first.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0)
        continue;
      const bool v4 = entry->ifa_addr->sa_family == AF_INET;
      if (!v4 && entry->ifa_addr->sa_family != AF_INET6) continue;
      char text[NI_MAXHOST] = {};
      const socklen_t size = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (getnameinfo(entry->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
      // Link-local addresses mean nothing elsewhere.
      if (std::string_view(text).find('%') == std::string_view::npos) addresses.emplace_back(text);
    }
    freeifaddrs(list);
  }
  // A host's own name comes first where it is known elsewhere; a loopback address behind it is tried last by whoever
  // resolves it so.
  addresses.insert(addresses.begin(), host_name());
  return addresses;
}

Socket listen_anywhere(int& port) {
  for (const int family : {AF_INET6, AF_INET}) {
    Socket server(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!server.open()) continue;
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family == AF_INET6) {
      const int off = 0;
      setsockopt(server.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(server.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(server.get(), SOMAXCONN) != 0)
      continue;
    socklen_t length = sizeof address;
    getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                    : reinterpret_cast<sockaddr_in&>(address).sin_port);
    return server;
  }
  throw RunError("rank 0 cannot open a TCP port: {}", std::strerror(errno));
}

Socket connect_to(const std::string& host, int port, const Deadline& deadline) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  Socket result;
  for (const addrinfo* entry = found; entry != nullptr && !result.open(); entry = entry->ai_next) {
    Socket candidate(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!candidate.open()) continue;
    if (connect(candidate.get(), entry->ai_addr, entry->ai_addrlen) != 0 && errno != EINPROGRESS) continue;
    // An address that swallows packets must leave time for the others.
    const Deadline patience(std::min(3.0, deadline.milliseconds() / 1000.0));
    int error = 1;
    socklen_t size = sizeof error;
    if (candidate.ready(POLLOUT, patience) && getsockopt(candidate.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
        error == 0)
      result = std::move(candidate);
  }
  freeaddrinfo(found);
  return result;
}

void write_private(const fs::path& file, const std::string& text) {
  const fs::path draft = file.string() + ".draft";
  unlink(draft.c_str());
  const int descriptor = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written =
      descriptor >= 0 && write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!written || rename(draft.c_str(), file.c_str()) != 0)
    throw UsageError(
        "{}: cannot be written ({}), and the ranks meet through it where there is no PMIx; start in a writable "
        "directory that all nodes share, or use srun --mpi=pmix",
        file.string(), std::strerror(error));
}

// The file when it is there, whole, and written by this user for this user alone.
std::optional<Json> read_private(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 077) != 0)
    return std::nullopt;
  try {
    return read_json_file(file);
  } catch (const Error&) {
    return std::nullopt;
  }
}

class TcpBootstrap final : public Bootstrap {
 public:
  TcpBootstrap(int rank, int size, const fs::path& rendezvous, const BootstrapOptions& options)
      : timeout_(options.timeout) {
    identity_.rank = rank;
    identity_.size = size;
    identity_.host = host_name();
    const Deadline deadline(timeout_);
    if (rank == 0) {
      accept_all(rendezvous, deadline);
    } else {
      join(rendezvous, deadline);
    }
    number();
    if (options.exchange_timeout > 0.0) timeout_ = options.exchange_timeout;
  }
  [[nodiscard]] const Identity& identity() const override { return identity_; }
  [[nodiscard]] const char* maker() const override { return "TCP"; }

  std::vector<std::string> gather(const std::string& bytes) override {
    const Deadline deadline(timeout_);
    if (identity_.rank != 0) {
      if (!peers_[0].send_frame(bytes, deadline)) lost_root();
      return {};
    }
    std::vector<std::string> all{bytes};
    std::string missing;
    for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
      auto frame = peers_[peer].receive_frame(kLargestFrame, deadline);
      if (!frame) missing += fmt::format("{}{} ({})", missing.empty() ? "" : ", ", peer, hosts_[peer]);
      all.push_back(frame ? std::move(*frame) : std::string());
    }
    if (!missing.empty()) throw RunError("start-up: no word from rank {} within {:.0f} s", missing, timeout_);
    return all;
  }

  std::string broadcast(const std::string& bytes) override {
    const Deadline deadline(timeout_);
    if (identity_.rank != 0) {
      auto frame = peers_[0].receive_frame(kLargestFrame, deadline);
      if (!frame) lost_root();
      return std::move(*frame);
    }
    for (std::size_t peer = 1; peer < peers_.size(); ++peer)
      if (!peers_[peer].send_frame(bytes, deadline))
        throw RunError("start-up: rank {} on {} is gone", peer, hosts_[peer]);
    return bytes;
  }

  void barrier() override {
    gather({});
    broadcast({});
  }

 private:
  [[noreturn]] void lost_root() const {
    throw RunError("start-up: rank {} on {}: no word from rank 0 within {:.0f} s", identity_.rank, identity_.host,
                   timeout_);
  }

  void accept_all(const fs::path& rendezvous, const Deadline& deadline) {
    // A connection for each rank: the soft limit on open files (often 1024) may be lower than the hard one.
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
      files.rlim_cur = files.rlim_max;
      setrlimit(RLIMIT_NOFILE, &files);
    }
    int port = 0;
    const Socket server = listen_anywhere(port);
    const std::string token = make_token();
    write_private(rendezvous, Json{{"token", token}, {"port", port}, {"addresses", own_addresses()}}.dump());
    peers_.resize(static_cast<std::size_t>(identity_.size));
    hosts_.resize(peers_.size());
    hosts_[0] = identity_.host;
    int present = 1;
    while (present < identity_.size) {
      if (!server.ready(POLLIN, deadline)) {
        unlink(rendezvous.c_str());
        std::string missing;
        for (std::size_t peer = 1; peer < peers_.size(); ++peer)
          if (!peers_[peer].open()) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", peer);
        throw RunError(
            "start-up without PMIx: of {} ranks these did not come within {:.0f} s: {}. They look for {}: do all nodes "
            "share that directory, and may they connect to each other by TCP?",
            identity_.size, timeout_, missing, rendezvous.string());
      }
      Socket caller(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!caller.open()) continue;
      const auto hello = caller.receive_frame(kLargestHello, Deadline(std::min(5.0, timeout_)));
      std::istringstream words(hello.value_or(""));
      std::string their_token, their_host;
      int rank = -1, size = -1;
      words >> their_token >> rank >> size >> their_host;
      if (!same_token(their_token, token)) continue;
      const bool sound = size == identity_.size && rank > 0 && rank < size;
      if (!sound ||
          (peers_[static_cast<std::size_t>(rank)].open() && !peers_[static_cast<std::size_t>(rank)].abandoned()))
        throw RunError(
            "start-up: a process on {} says it is rank {} of {}, but this run has {} ranks, each once; are two steps "
            "started at once in this directory?",
            their_host, rank, size, identity_.size);
      tune(caller);
      if (!caller.send_frame(kWelcome, deadline)) continue;
      if (!peers_[static_cast<std::size_t>(rank)].open()) ++present;
      peers_[static_cast<std::size_t>(rank)] = std::move(caller);
      hosts_[static_cast<std::size_t>(rank)] = their_host;
    }
    unlink(rendezvous.c_str());
  }

  void join(const fs::path& rendezvous, const Deadline& deadline) {
    while (!deadline.passed()) {
      if (const auto meeting = read_private(rendezvous)) {
        try {
          const std::string hello = fmt::format("{} {} {} {}", meeting->at("token").get<std::string>(), identity_.rank,
                                                identity_.size, identity_.host);
          for (const Json& address : meeting->at("addresses")) {
            Socket root = connect_to(address.get<std::string>(), meeting->at("port").get<int>(), deadline);
            if (!root.open() || !root.send_frame(hello, deadline)) continue;
            // Behind a name that resolves to a loopback address some other program may listen on the same port.
            if (root.receive_frame(kLargestHello, Deadline(std::min(10.0, deadline.milliseconds() / 1000.0))) !=
                kWelcome)
              continue;
            tune(root);
            peers_.push_back(std::move(root));
            return;
          }
        } catch (const nlohmann::json::exception&) {
          // Not written by this program; wait for the real one.
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    throw RunError(
        "start-up without PMIx: rank {} on {} found no rank 0 within {:.0f} s. It looks for {}: do all nodes share "
        "that "
        "directory, and may they connect to each other by TCP? srun --mpi=pmix needs neither.",
        identity_.rank, identity_.host, timeout_, rendezvous.string());
  }

  static void tune(const Socket& socket) {
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }

  void number() {
    Json table = Json::array();
    if (identity_.rank == 0)
      for (const Identity& each : number_locally(hosts_)) table.push_back({each.local_rank, each.local_size});
    const Json mine =
        parse_json(broadcast(table.dump()), "rank 0's table").at(static_cast<std::size_t>(identity_.rank));
    identity_.local_rank = mine.at(0).get<int>();
    identity_.local_size = mine.at(1).get<int>();
  }

  double timeout_;
  Identity identity_;
  std::vector<Socket> peers_;       // on rank 0 by rank (its own place unused); elsewhere rank 0 alone
  std::vector<std::string> hosts_;  // rank 0 only
};

}  // namespace

std::unique_ptr<Bootstrap> make_tcp_bootstrap(int rank, int size, const std::string& rendezvous,
                                              const BootstrapOptions& options) {
  return std::make_unique<TcpBootstrap>(rank, size, rendezvous, options);
}

}  // namespace railyard::launch
