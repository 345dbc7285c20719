// The bootstraps that need no library: a single process, and one over an existing communicator.
#include "launch/bootstrap/bootstrap.hpp"

#include <map>

#include "runtime/base/json.hpp"
#include "runtime/comm/group.hpp"

namespace railyard::launch {
namespace {

class SingleBootstrap final : public Bootstrap {
 public:
  SingleBootstrap() { identity_.host = host_name(); }
  [[nodiscard]] const Identity& identity() const override { return identity_; }
  [[nodiscard]] const char* maker() const override { return "a single process"; }
  std::vector<std::string> gather(const std::string& bytes) override { return {bytes}; }
  std::string broadcast(const std::string& bytes) override { return bytes; }
  void barrier() override {}

 private:
  Identity identity_;
};

class CommunicatorBootstrap final : public Bootstrap {
 public:
  explicit CommunicatorBootstrap(Communicator& world) : world_(world) {
    const auto hosts = world_.gather(host_name(), 0);
    Json table = Json::array();
    for (const Identity& each : number_locally(hosts)) table.push_back({each.host, each.local_rank, each.local_size});
    const Json mine =
        parse_json(world_.broadcast(table.dump(), 0), "the ranks' hosts").at(static_cast<std::size_t>(world_.rank()));
    identity_ = {world_.rank(), world_.size(), mine[1].get<int>(), mine[2].get<int>(), mine[0].get<std::string>()};
  }
  [[nodiscard]] const Identity& identity() const override { return identity_; }
  [[nodiscard]] const char* maker() const override { return "MPI"; }
  std::vector<std::string> gather(const std::string& bytes) override { return world_.gather(bytes, 0); }
  std::string broadcast(const std::string& bytes) override { return world_.broadcast(bytes, 0); }
  void barrier() override { world_.barrier(); }

 private:
  Communicator& world_;
  Identity identity_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_single_bootstrap() { return std::make_unique<SingleBootstrap>(); }
std::unique_ptr<Bootstrap> make_mpi_bootstrap(Communicator& world) {
  return std::make_unique<CommunicatorBootstrap>(world);
}

std::vector<Identity> number_locally(const std::vector<std::string>& hosts) {
  std::vector<Identity> ranks;
  std::map<std::string, int> seen;
  for (const auto& host : hosts)
    ranks.push_back({static_cast<int>(ranks.size()), static_cast<int>(hosts.size()), seen[host]++, 0, host});
  for (auto& rank : ranks) rank.local_size = seen[rank.host];
  return ranks;
}

}  // namespace railyard::launch
