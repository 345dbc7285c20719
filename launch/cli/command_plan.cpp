// railyard plan: memory, time, layouts and places before anything runs.
#include "launch/cli/command_plan.hpp"

#include <unistd.h>

#include <memory>

#include "launch/cli/streams.hpp"
#include "launch/install_prefix.hpp"
#include "launch/place/report.hpp"
#include "launch/plan/report.hpp"
#include "launch/plan/target.hpp"
#include "launch/prepare.hpp"
#include "runtime/base/error.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/report/terminal.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kListed = 10;  // layouts that --search lists
constexpr int kMostPlaced = 1 << 17;

struct Options {
  RunRequest request;
  std::string file, site;
  int nodes = 0;
  bool search = false, map = false, json = false;
};

// Planning needs the size of the vocabulary, which "auto" leaves to the tokenizer.
void fill_vocabulary(JobSpec& job) {
  if (job.model.vocab > 0) return;
  try {
    const auto tokenizer = data::job_tokenizer(job, {});
    if (tokenizer == nullptr) throw UsageError("data.tokenizer is not given");
    job.model.vocab = tokenizer->vocab_size();
  } catch (const Error& error) {
    throw UsageError(
        "model.vocab: \"auto\" is the tokenizer's size, and it cannot be read here: {}; plan with --set "
        "model.vocab=NUMBER",
        error.what());
  }
}

// Where the ranks would go; a note says why they cannot, or were not tried.
std::optional<Placement> place_ranks(const Cluster& cluster, const Planner::Plan& plan,
                                     std::vector<std::string>& notes) {
  if (plan.layout.ranks() > kMostPlaced) {
    notes.push_back(fmt::format("no places are chosen for more than {} ranks", kMostPlaced));
    return std::nullopt;
  }
  try {
    Placement placement = place(plan.layout, cluster.allocation, traffic_of(plan.bytes), cluster.rates);
    if (cluster.has_gpus) notes = placement.notes;  // the others speak of links between GPUs
    return placement;
  } catch (const UsageError& error) {
    notes.emplace_back(error.what());
    return std::nullopt;
  }
}

int plan(Options& options) {
  options.request.job_file = fs::absolute(options.file);
  lua::EvaluatedJob job = evaluate(options.request);
  fill_vocabulary(job.spec);
  lua::SiteSearch where;
  if (!options.site.empty()) where.given = options.site;
  where.prefix = install_prefix();
  const lua::SiteFile site = lua::find_site(where);
  const PlanTarget target = plan_target(job, site, options.nodes);
  const Cluster& cluster = target.cluster;
  const Planner planner(cluster,
                        find_calibration(cluster.has_gpus ? cluster.gpu : "CPU", calibration_search(target.cache)),
                        target.threads);

  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  TextStyle style{terminal && colour_is_welcome(), 100};
  if (const int columns = terminal_columns(stdout); columns >= 40) style.columns = std::min(columns, 120);

  std::string text;
  Json found = Json::object();
  std::optional<Planner::Plan> chosen;
  if (options.search) {
    const SearchResult result = search_layouts(planner, job.spec, cluster.slots(), kListed);
    if (!result.ranked.empty()) chosen = result.ranked.front();
    found = search_json(result);
    text = search_text(result, style) + (chosen ? "\n" : "");
  } else {
    chosen = planner.plan(job.spec, Layout::resolve(job.spec.parallel, target.ranks));
  }
  Json document = empty_plan_json({"no layout fits"});
  if (chosen) {
    std::vector<std::string> notes;
    const std::optional<Placement> placement = place_ranks(cluster, *chosen, notes);
    if (placement) chosen->time = planner.time(chosen->job, chosen->layout, *placement);
    PlanReport report{planner, *chosen, placement ? &*placement : nullptr, plan_warnings(planner, *chosen)};
    for (const auto& more : {notes, cluster.guesses, planner.unmeasured()})
      report.warnings.insert(report.warnings.end(), more.begin(), more.end());
    document = plan_json(report);
    text += plan_text(report, style);
    if (options.map && placement)
      text +=
          "\n" + rank_table(chosen->layout, cluster.allocation, *placement) + "\n" +
          placement_summary(chosen->layout, cluster.allocation, traffic_of(chosen->bytes), *placement, cluster.rates);
  }
  document.update(found);
  write_standard_output(options.json ? document.dump(2) + "\n" : text);
  return kExitDone;
}

}  // namespace

std::function<int()> define_plan(CLI::App& program) {
  auto* command = program.add_subcommand("plan", "Say what a job needs and how fast it will be, without running it");
  auto options = std::make_shared<Options>();
  command->add_option("JOB", options->file, "The job file (Lua)")->required();
  command->add_option("--site", options->site,
                      "The site file of the cluster; default: as railyard site --show finds it");
  command
      ->add_option("--nodes", options->nodes,
                   "Nodes; default: the #SBATCH lines, the allocation, or what the layout needs")
      ->check(CLI::Range(1, 1 << 16));
  command->add_flag("--search", options->search, "List the fastest layouts that fit, and plan the best one");
  command->add_flag("--map", options->map, "Print where each rank goes, and what other orders of ranks would cost");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->add_option("--set", options->request.sets, "KEY.PATH=VALUE: changes a setting of the job; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("ARG", options->request.arguments, "Handed to the job file as `arg`");
  command->footer(
      R"(Memory is what the runtime will allocate on the worst rank. Times come from the device's calibration file (written by
railyard bench), else from data sheets, and are then marked as not measured. Nothing needs a GPU or a Slurm. The exit
code is 0 also when the job does not fit.

Examples:
  railyard plan job.lua
  railyard plan job.lua --site site/dgx_h100.lua --nodes 16 --search
  railyard plan job.lua --set train.micro_batch=2 --map
  railyard plan job.lua --json | jq .memory)");
  return [=] { return plan(*options); };
}

}  // namespace railyard::launch
