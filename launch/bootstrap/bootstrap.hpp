// How ranks find each other before any communication library runs: identity, and an exchange of small byte strings.
// One interface, made by PMIx, by TCP (Slurm's variables), by MPI, or for a single process.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace railyard {
class Communicator;
}

namespace railyard::launch {

struct Identity {
  int rank = 0, size = 1;              // in the order of whoever started us
  int local_rank = 0, local_size = 1;  // among the ranks of this host
  std::string host;
};

// Exchanges are collective: every rank calls them in the same order. Each waits at most the time-out given to the maker
// and then throws RunError, naming the ranks that did not come where that is known.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  [[nodiscard]] virtual const Identity& identity() const = 0;
  // What made it, for messages: "PMIx", "TCP", "MPI", "a single process".
  [[nodiscard]] virtual const char* maker() const = 0;
  // Every rank's bytes by rank, on rank 0; an empty list on the others.
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;
  // Rank 0's bytes, on every rank.
  virtual std::string broadcast(const std::string& bytes) = 0;
  // Returns once every rank has called it.
  virtual void barrier() = 0;
};

struct BootstrapOptions {
  double timeout = 60.0;          // seconds for all ranks to appear, and for each exchange
  double exchange_timeout = 0.0;  // seconds for each exchange, where that must differ (TCP); 0: `timeout`
};

// This process alone.
std::unique_ptr<Bootstrap> make_single_bootstrap();

// Identity and exchange from the PMIx server that started this process (librailyard_pmix.so, loaded here). RunError
// when the library or the server is missing.
std::unique_ptr<Bootstrap> make_pmix_bootstrap(const BootstrapOptions& options);

// Rank and size by whoever started us; the exchange by TCP through rank 0, whose address and token the others read from
// the file `rendezvous` in a directory that all hosts share (mode 0600, removed once all are connected).
std::unique_ptr<Bootstrap> make_tcp_bootstrap(int rank, int size, const std::string& rendezvous,
                                              const BootstrapOptions& options);

// Exchange over a communicator that exists already (MPI's world); for launchers that serve nothing else. The
// environment of the communication library can no longer be set then. `world` must outlive it.
std::unique_ptr<Bootstrap> make_mpi_bootstrap(Communicator& world);

// The name of this host.
std::string host_name();

// Each rank's place among the ranks of its host, from the hosts of all ranks by rank; local rank and local size filled
// in.
std::vector<Identity> number_locally(const std::vector<std::string>& hosts);

}  // namespace railyard::launch
