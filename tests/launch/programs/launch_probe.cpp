// A rank for tests of the bootstraps: joins the way its first argument says, exchanges, and prints what it saw.
//   launch_probe pmix|tcp|single [RENDEZVOUS] [late MILLISECONDS | silent]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "launch/bootstrap/bootstrap.hpp"
#include "launch/process.hpp"
#include "runtime/base/error.hpp"

using namespace railyard;
using namespace railyard::launch;

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const BootstrapOptions options{.timeout = static_cast<double>(environment_number("PROBE_TIMEOUT").value_or(20))};
    std::unique_ptr<Bootstrap> bootstrap;
    if (words.at(0) == "pmix") bootstrap = make_pmix_bootstrap(options);
    if (words.at(0) == "single") bootstrap = make_single_bootstrap();
    if (words.at(0) == "tcp") {
      const int rank =
          static_cast<int>(environment_number("PROBE_RANK").value_or(environment_number("SLURM_PROCID").value_or(0)));
      const int size = static_cast<int>(
          environment_number("PROBE_SIZE").value_or(environment_number("SLURM_STEP_NUM_TASKS").value_or(1)));
      bootstrap = make_tcp_bootstrap(rank, size, words.at(1), options);
    }
    const Identity& me = bootstrap->identity();
    if (words.size() >= 2 && words.back() == "silent" && me.rank == me.size - 1)
      std::this_thread::sleep_for(std::chrono::seconds(4));
    const bool late = words.size() >= 3 && words[words.size() - 2] == "late" && me.rank == me.size - 1;
    bootstrap->barrier();
    const auto before = std::chrono::steady_clock::now();
    if (late) std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(words.back())));
    bootstrap->barrier();
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    const auto all = bootstrap->gather("from " + std::to_string(me.rank));
    std::string sum;
    for (const auto& each : all) sum += each + ";";
    const std::string heard = bootstrap->broadcast(me.rank == 0 ? sum + std::string(100000, 'x') : "ignored");
    std::printf("rank %d/%d local %d/%d host %s maker %s waited %.3f heard %zu %s\n", me.rank, me.size, me.local_rank,
                me.local_size, me.host.c_str(), bootstrap->maker(), waited, heard.size(),
                heard.substr(0, heard.find('x')).c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "launch_probe: %s\n", error.what());
    return error.exit_code();
  }
}
