// railyard bench gemm, attention and comm: rates of single operations, printed and kept in the calibration file.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <thread>

#include "launch/bench/operation_bench.hpp"
#include "launch/bootstrap/devices.hpp"
#include "launch/bootstrap/surroundings.hpp"
#include "launch/cli/command_bench.hpp"
#include "launch/local/mpirun.hpp"
#include "launch/process.hpp"
#include "runtime/base/error.hpp"
#include "runtime/comm/load.hpp"
#include "topology/sources/source.hpp"

namespace railyard::launch {
namespace {

struct DeviceOptions {
  std::string device = "auto";
  int threads = 1;
  bool json = false, dry = false;
  std::string site_cache;
};

void add_device_options(CLI::App& command, DeviceOptions& options) {
  command.add_option("--device", options.device, "auto: a GPU where there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.add_option("--threads", options.threads, "CPU threads")->check(CLI::Range(1, 4096))->capture_default_str();
  command.add_flag("--json", options.json, "One JSON object a line");
  command.add_flag("--dry-run", options.dry, "Leave the calibration file as it is");
}

bool on_gpu(const DeviceOptions& options) {
  return options.device == "cuda" || (options.device == "auto" && visible_devices().count > 0);
}

std::unique_ptr<Backend> make_backend(const DeviceOptions& options, int device = 0) {
  if (on_gpu(options)) return make_cuda_backend({.device = device});
  return make_cpu_backend({.threads = options.threads});
}

Calibration calibration_of(const Backend& backend) {
  Calibration calibration;
  calibration.device = backend.description();
  char date[16] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(date, sizeof date, "%Y-%m-%d", &utc);
  calibration.date = date;
  calibration.program = "railyard " RAILYARD_VERSION;
  return calibration;
}

// What was measured goes to the calibration file, which the planner reads.
void keep(const Calibration& calibration, const DeviceOptions& options) {
  if (options.dry) return;
  const auto path = store_calibration(calibration, calibration_search(options.site_cache));
  if (!options.json) fmt::print("kept in {}\n", path.string());
}

void line(const DeviceOptions& options, const Json& json, const std::string& text) {
  fmt::print("{}\n", options.json ? json.dump() : text);
  std::fflush(stdout);
}

// ---- gemm ----
struct GemmOptions {
  DeviceOptions device;
  std::vector<std::string> shapes, dtypes;
};

int bench_gemm(const GemmOptions& options) {
  const auto backend = make_backend(options.device);
  const bool cuda = !backend->is_host_memory();
  std::vector<GemmShape> shapes;
  for (const std::string& text : options.shapes) shapes.push_back(parse_gemm_shape(text));
  if (shapes.empty()) shapes = usual_gemm_shapes(cuda);
  std::vector<std::string> dtypes = options.dtypes;
  if (dtypes.empty()) dtypes = cuda ? std::vector<std::string>{"bf16", "fp8"} : std::vector<std::string>{"fp32"};
  if (!options.device.json) fmt::print("{}\n", backend->description());
  Calibration calibration = calibration_of(*backend);
  calibration.copy_gb_s = measure_copy(*backend);
  line(options.device, {{"copy_gb_s", *calibration.copy_gb_s}},
       fmt::format("copy {:>35.1f} GB/s read and written", *calibration.copy_gb_s));
  for (const std::string& dtype : dtypes)
    for (const GemmShape& shape : shapes) {
      const GemmRate rate = measure_gemm(*backend, dtype, shape);
      calibration.gemm.push_back(rate);
      line(options.device, {{"dtype", dtype}, {"m", rate.m}, {"n", rate.n}, {"k", rate.k}, {"tflops", rate.tflops}},
           fmt::format("gemm {:5s} {:>6d} x {:>6d} x {:>6d} {:>9.2f} TFLOP/s", dtype, rate.m, rate.n, rate.k,
                       rate.tflops));
    }
  keep(calibration, options.device);
  return kExitDone;
}

// ---- attention ----
struct AttentionOptions {
  DeviceOptions device;
  std::string dtype;
};

int bench_attention(const AttentionOptions& options) {
  const auto backend = make_backend(options.device);
  const bool cuda = !backend->is_host_memory();
  const std::string dtype = !options.dtype.empty() ? options.dtype : cuda ? "bf16" : "fp32";
  if (!options.device.json) fmt::print("{}\n", backend->description());
  Calibration calibration = calibration_of(*backend);
  for (const AttentionCase& which : usual_attention_cases(cuda)) {
    const AttentionRate rate = measure_attention(*backend, dtype, which);
    calibration.attention.push_back(rate);
    line(options.device,
         {{"dtype", dtype},
          {"tokens", rate.tokens},
          {"heads", rate.heads},
          {"head_dim", rate.head_dim},
          {"forward_tflops", rate.forward_tflops},
          {"backward_tflops", rate.backward_tflops}},
         fmt::format(
             "attention {:5s} {:>6d} tokens, {:>3d} heads of {:>3d}: forward {:>8.2f}, backward {:>8.2f} TFLOP/s",
             dtype, rate.tokens, rate.heads, rate.head_dim, rate.forward_tflops, rate.backward_tflops));
  }
  keep(calibration, options.device);
  return kExitDone;
}

// ---- comm ----
struct CommOptions {
  DeviceOptions device;
  int ranks = 0;
  std::string communicator = "auto", link_class;
  std::int64_t largest_mib = 0;
};

// How the devices of this machine are joined, in the words of `plan --json`.
std::string class_of_links(bool cuda) {
  if (!cuda) return "host";
  const auto domains = topology::nvlink_domains(topology::read_live_node());
  if (!domains) return "unknown";
  return std::any_of(domains->begin(), domains->end(), [](const auto& domain) { return domain.size() > 1; }) ? "nvlink"
                                                                                                             : "pcie";
}

// This process as one rank of a world that mpirun or srun has started.
int bench_comm_rank(const CommOptions& options) {
  const MpiWorld mpi = initialize_mpi();
  int local = 0;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const auto value = environment_number(name)) {
      local = static_cast<int>(*value);
      break;
    }
  {
    const bool cuda = on_gpu(options.device);
    const int devices = cuda ? std::max(1, visible_devices().count) : 0;
    DeviceOptions device = options.device;
    device.threads = 1;
    const auto backend = make_backend(device, cuda ? local % devices : 0);
    auto host = make_mpi_communicator(*backend, {});
    const bool nccl = options.communicator == "nccl" || (options.communicator == "auto" && cuda &&
                                                         host->all_reduce(local + 1.0, ReduceOp::kMax) <= devices);
    const auto world = nccl ? make_nccl_communicator(*backend, *host, {}) : std::move(host);
    std::string link_class = options.link_class;
    if (link_class.empty()) link_class = world->broadcast(class_of_links(cuda), 0);
    Calibration calibration = calibration_of(*backend);
    if (mpi.rank == 0 && !options.device.json)
      fmt::print("{}, {} ranks by {}, links: {}\n", backend->description(), mpi.size, nccl ? "NCCL" : "MPI",
                 link_class);
    const std::int64_t largest = options.largest_mib > 0 ? options.largest_mib << 20
                                 : nccl                  ? std::int64_t{256} << 20
                                                         : std::int64_t{32} << 20;
    for (int ranks = 2; ranks <= mpi.size; ranks *= 2)
      measure_collectives(*backend, *world, ranks, largest, link_class, [&](const CommRate& rate) {
        calibration.comm.push_back(rate);
        line(options.device,
             {{"operation", rate.operation},
              {"ranks", rate.ranks},
              {"bytes", rate.bytes},
              {"gb_s", rate.gb_s},
              {"class", rate.link_class}},
             fmt::format("{:15s} {:>3d} ranks {:>12.0f} bytes {:>9.2f} GB/s bus bandwidth", rate.operation, rate.ranks,
                         rate.bytes, rate.gb_s));
      });
    if (mpi.rank == 0) keep(calibration, options.device);
  }
  finalize_mpi();
  return kExitDone;
}

int bench_comm(const CommOptions& options) {
  const Surroundings around = look_around(current_environment());
  if (!around.may_launch()) return bench_comm_rank(options);
  const int devices = on_gpu(options.device) ? visible_devices().count : 0;
  const int ranks = options.ranks > 0 ? options.ranks : std::max(2, devices);
  if (ranks < 2) throw UsageError("--ranks {}: collectives need two ranks or more", ranks);
  std::vector<std::string> program{std::filesystem::read_symlink("/proc/self/exe").string(), "bench", "comm"};
  const auto add = [&](const char* name, const std::string& value) {
    program.emplace_back(name);
    program.push_back(value);
  };
  add("--device", on_gpu(options.device) ? "cuda" : "cpu");
  add("--communicator", options.communicator);
  if (!options.link_class.empty()) add("--class", options.link_class);
  if (options.largest_mib > 0) add("--largest", std::to_string(options.largest_mib));
  if (options.device.json) program.emplace_back("--json");
  if (options.device.dry) program.emplace_back("--dry-run");
  SignalWatch watch;  // before any thread
  const StepCommand command = mpirun_command(
      find_mpirun(),
      {.ranks = ranks, .cores = static_cast<int>(std::thread::hardware_concurrency()), .program = program},
      current_environment());
  Child child(command.words, command.environment);
  for (;;) {
    if (const auto code = child.poll()) return *code;
    if (const int signal = watch.wait(0.5); signal != 0 && signal != SIGCHLD) child.signal(signal);
  }
}

}  // namespace

std::function<int()> define_bench_gemm(CLI::App& bench) {
  const auto options = std::make_shared<GemmOptions>();
  CLI::App* command = bench.add_subcommand("gemm", "Rates of matrix products, and of a copy");
  add_device_options(*command, options->device);
  command->add_option("--shape", options->shapes, "MxNxK; default: layers of well-known models");
  command->add_option("--dtype", options->dtypes, "fp32, bf16, fp8; default: bf16 and fp8 on a GPU, else fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp8"}));
  command->footer(
      "Examples:\n  railyard bench gemm\n  railyard bench gemm --dtype bf16 --shape 8192x4096x14336 --json\n");
  return [options] { return bench_gemm(*options); };
}

std::function<int()> define_bench_attention(CLI::App& bench) {
  const auto options = std::make_shared<AttentionOptions>();
  CLI::App* command = bench.add_subcommand("attention", "Rates of causal attention, forward and backward");
  add_device_options(*command, options->device);
  command->add_option("--dtype", options->dtype, "fp32 or bf16")->check(CLI::IsMember({"fp32", "bf16"}));
  command->footer("Example:\n  railyard bench attention --device cuda\n");
  return [options] { return bench_attention(*options); };
}

std::function<int()> define_bench_comm(CLI::App& bench) {
  const auto options = std::make_shared<CommOptions>();
  CLI::App* command = bench.add_subcommand("comm", "Bus bandwidth of collectives between ranks");
  add_device_options(*command, options->device);
  command->add_option("--ranks", options->ranks, "Ranks to start here; default: one for each GPU, else two")
      ->check(CLI::Range(2, 4096));
  command->add_option("--communicator", options->communicator, "auto: NCCL when each rank has a GPU of its own")
      ->check(CLI::IsMember({"auto", "mpi", "nccl"}))
      ->capture_default_str();
  command->add_option("--class", options->link_class, "What joins the ranks; default: found for ranks of one machine")
      ->check(CLI::IsMember({"nvlink", "pcie", "host", "rail", "cross_rail", "leaf", "spine"}));
  command->add_option("--largest", options->largest_mib, "Largest message in MiB")->check(CLI::Range(1, 65536));
  command->footer(
      "Examples:\n  railyard bench comm --ranks 2\n"
      "  srun -N2 --ntasks-per-node=1 --mpi=pmix railyard bench comm --class rail\n");
  return [options] { return bench_comm(*options); };
}

}  // namespace railyard::launch
