// railyard run: a launcher, a rank of someone's step, or the whole run in one process, whichever the surroundings say.
#include "launch/cli/command_run.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "launch/bootstrap/binding.hpp"
#include "launch/bootstrap/devices.hpp"
#include "launch/bootstrap/join.hpp"
#include "launch/bootstrap/surroundings.hpp"
#include "launch/local/mpirun.hpp"
#include "launch/prepare.hpp"
#include "launch/site_lookup.hpp"
#include "launch/slurm/allocation.hpp"
#include "launch/slurm/control.hpp"
#include "launch/slurm/launch_job.hpp"
#include "launch/supervisor.hpp"
#include "runtime/base/error.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

// The command line of a rank: what is settled already reaches it by variables, the rest is for people who look at `ps`.
std::vector<std::string> rank_program(const RunRequest& request) {
  return {fs::read_symlink("/proc/self/exe").string(), "run", fs::absolute(request.job_file).string()};
}

// "auto" is the tokenizer's size. Where it cannot be read, training says so; placement then assumes one.
void fill_vocabulary(JobSpec& job, const fs::path& run_dir) {
  if (job.model.vocab > 0) return;
  try {
    const auto tokenizer = data::job_tokenizer(job, {run_dir, fs::current_path()});
    if (tokenizer != nullptr) job.model.vocab = tokenizer->vocab_size();
  } catch (const Error&) {
    return;
  }
}

// Device, placement and environment of every rank; writes placement-N.json and says what was placed.
void settle_ranks(Settled& settled, const std::vector<RankFacts>& facts) {
  JobSpec job = JobSpec::from_json(settled.job);
  const Layout layout = Layout::resolve(job.parallel, static_cast<int>(facts.size()));
  choose_device(job, facts, settled);
  lua::SiteFile site = load_site(std::nullopt);
  const Json values = site_values_here(site);
  settled.site_environment = values.at("setenv").get<Environment>();
  AssignmentInput input{job, layout, settled.device, facts, values, {}, &site};
  std::vector<std::string> lines;
  // One rank has nowhere else to be.
  if (facts.size() > 1) {
    fill_vocabulary(job, settled.run_dir);
    input.fabric = find_fabric(SiteNetwork::from_site(values), lines);
  }
  Assignment assigned = assign_ranks(input);
  settled.ranks = std::move(assigned.ranks);
  Json record{{"start", settled.start}, {"site", site.file()}};
  record.update(assigned.record);
  write_file_atomic(settled.run_dir / fmt::format("placement-{}.json", settled.start), record.dump(1) + "\n");
  if (!assigned.table.empty())
    write_file_atomic(settled.run_dir / "log" / fmt::format("placement-{}.txt", settled.start), assigned.table);
  lines.insert(lines.end(), assigned.summary.begin(), assigned.summary.end());
  for (const std::string& line : lines) std::fprintf(stderr, "railyard: %s\n", line.c_str());
}

// Rank 0 of our own launcher: job and directory are settled, the launcher holds the lock.
Settle settle_from_launcher(const fs::path& run_dir, int start) {
  return [run_dir, start](const std::vector<RankFacts>& facts, std::unique_ptr<RunDirectory>&) {
    Settled settled;
    settled.run_dir = run_dir;
    settled.start = start;
    settled.job = read_json_file(run_dir / "job.json");
    settle_ranks(settled, facts);
    return settled;
  };
}

// Rank 0 of someone else's step, or the only one: evaluates the Lua and owns the directory.
Settle settle_from_job(const RunRequest& request) {
  return [request](const std::vector<RankFacts>& facts, std::unique_ptr<RunDirectory>& directory) {
    if (request.ranks > 0 && static_cast<std::size_t>(request.ranks) != facts.size())
      throw UsageError("--ranks {}, but {} rank{} started already (by srun or mpirun); leave --ranks out",
                       request.ranks, facts.size(), facts.size() == 1 ? " is" : "s are");
    const lua::EvaluatedJob job = evaluate(request);
    (void)Layout::resolve(job.spec.parallel, static_cast<int>(facts.size()));
    directory = open_run(request, job);
    if (const auto job_id = environment_value("SLURM_JOB_ID"))
      check_time_limit(job.spec, directory->path(), seconds_left(*job_id));
    Settled settled;
    settled.run_dir = directory->path();
    settled.start = directory->start();
    settled.job = job.resolved;
    settle_ranks(settled, facts);
    return settled;
  };
}

int launch_locally(const RunRequest& request, const lua::EvaluatedJob& job, int ranks) {
  (void)Layout::resolve(job.spec.parallel, ranks);
  const Mpirun mpirun = find_mpirun();
  SignalWatch watch;  // before the run directory makes its thread
  const auto run = open_run(request, job);
  const int cores = static_cast<int>(allowed_cores().size());
  const auto program = rank_program(request);
  SupervisorOptions options;
  options.max_restarts = static_cast<int>(job.spec.run.max_restarts);
  options.command = [&](int start, const std::optional<Ending>&) {
    StepCommand command =
        mpirun_command(mpirun, {.ranks = ranks, .cores = cores, .program = program}, current_environment());
    add_launch_variables(command.environment, run->path(), start);
    return command;
  };
  return supervise(*run, watch, options).exit_code;
}

// A step whose ranks cannot start MPI by themselves (srun without PMIx): rank 0 launches within the allocation, the
// others keep their places until it is done.
int launch_from_step(const Surroundings& around, const RunRequest& request) {
  const std::string here =
      (fs::current_path() / fmt::format(".railyard-{}.{}", environment_value("SLURM_JOB_ID").value_or("0"),
                                        environment_value("SLURM_STEP_ID").value_or("0")))
          .string();
  // The others wait for the whole run; longer than any job.
  constexpr double kForever = 400.0 * 86400.0;
  const auto bootstrap =
      make_tcp_bootstrap(around.rank, around.size, here, {.timeout = 60.0, .exchange_timeout = kForever});
  int code = 0;
  if (around.rank == 0) {
    std::fprintf(stderr, "railyard: %s; starting a step of our own\n", around.note.c_str());
    try {
      RunRequest same = request;
      same.ranks = around.size;
      const lua::EvaluatedJob job = evaluate(same);
      code = launch_in_allocation(same, job, rank_program(same));
    } catch (const Error& error) {
      std::fprintf(stderr, "railyard: %s\n", error.what());
      code = error.exit_code();
    }
  } else {
    // A stop request is rank 0's business; it reaches the real ranks through its step.
    for (const int number : {SIGINT, SIGTERM, SIGUSR1}) std::signal(number, SIG_IGN);
  }
  return std::stoi(bootstrap->broadcast(std::to_string(code)));
}

int run(const RunRequest& request) {
  pass_site_on(request.site);
  const Surroundings around = look_around(current_environment());
  if (around.heterogeneous)
    throw UsageError(
        "a heterogeneous Slurm job: srun would start ranks on its first component only; submit an ordinary job (no "
        "--het-group, no `:`)");
  if (const auto run_dir = environment_value(kRunDirectoryVariable))
    return join_and_train(
        around, settle_from_launcher(*run_dir, static_cast<int>(environment_number(kStartVariable).value_or(1))),
        {.launched = true});
  if (around.meeting == Meeting::kSlurmTcp) return launch_from_step(around, request);
  if (!around.may_launch()) return join_and_train(around, settle_from_job(request), {});

  const lua::EvaluatedJob job = evaluate(request);
  (void)load_site(std::nullopt);  // a broken one is refused here, before ranks start
  if (around.in_allocation) {
    const SlurmAllocation allocation = read_allocation(current_environment());
    const StepShape shape = shape_step(allocation, request.ranks, natural_ranks(job.spec.parallel, 0));
    if (shape.ranks > 1) return launch_in_allocation(request, job, rank_program(request));
  } else {
    const bool cpu = job.spec.run.device == "cpu";
    const int ranks =
        request.ranks > 0 ? request.ranks : natural_ranks(job.spec.parallel, cpu ? 0 : visible_devices().count);
    if (ranks > 1) return launch_locally(request, job, ranks);
  }
  RunRequest alone = request;
  alone.ranks = 0;
  Surroundings single = around;
  single.meeting = Meeting::kNone;
  const int code = join_and_train(single, settle_from_job(alone), {});
  if (around.in_allocation) requeue_if_wanted(job.spec, code, last_stop_signal());
  return code;
}

}  // namespace

std::function<int()> define_run(CLI::App& program) {
  auto* command = program.add_subcommand("run", "Train a job");
  auto request = std::make_shared<RunRequest>();
  auto file = std::make_shared<std::string>();
  auto run_dir = std::make_shared<std::string>(), log_format = std::make_shared<std::string>(),
       site = std::make_shared<std::string>();
  command->add_option("JOB", *file, "The job file (Lua)")->required();
  command
      ->add_option("--ranks", request->ranks,
                   "Ranks to start; default: what the job's layout, the devices and Slurm ask for")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--set", request->sets, "KEY.PATH=VALUE: changes a setting of the job; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--run-dir", *run_dir, "The run's directory; default runs/NAME");
  command->add_option("--log-format", *log_format, "Form of the lines: railyard, or megatron for what greps its logs")
      ->check(CLI::IsMember({"railyard", "megatron"}));
  command->add_option("--site", *site, "The site file; default: the one that `railyard site --show` finds")
      ->type_name("FILE");
  command->add_option("ARG", request->arguments, "Handed to the job file as `arg`");
  command->footer(
      R"(Starts the ranks itself: with mpirun on this machine, with srun inside a Slurm allocation; inside a step of srun
or under mpirun it joins as a rank. An existing run directory is resumed. Ctrl-C, SIGTERM and SIGUSR1 save a checkpoint
after the current step and end with exit code 75.

Examples:
  railyard run examples/first_train.lua
  railyard run job.lua --site cluster.lua         with the site's network, hooks and variables
  railyard run job.lua --ranks 4 --set train.iterations=100 --run-dir /scratch/try
  sbatch job.lua                                  the same, queued
  srun -N2 --ntasks-per-node=4 --mpi=pmix railyard run job.lua)");
  return [=] {
    request->job_file = *file;
    if (command->count("--run-dir") > 0) request->run_dir = *run_dir;
    if (!log_format->empty()) request->sets.push_back("log.format=" + *log_format);
    if (command->count("--site") > 0) request->site = *site;
    return run(*request);
  };
}

}  // namespace railyard::launch
