// Builds the allocation that the ranks make up, places, and hands each rank its part.
#include "launch/bootstrap/assign_ranks.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "launch/bootstrap/gpu_matching.hpp"
#include "launch/bootstrap/placement_record.hpp"
#include "launch/place/place.hpp"
#include "launch/plan/cluster.hpp"
#include "launch/plan/volume.hpp"
#include "runtime/base/error.hpp"
#include "topology/compare.hpp"
#include "topology/hostlist.hpp"
#include "topology/json.hpp"

namespace railyard::launch {
namespace {

// Only the bytes of the embedding and the output layer depend on it.
constexpr std::int64_t kAssumedVocabulary = 32768;

// A host's ranks and what they may use.
struct Host {
  std::string name;
  std::vector<std::size_t> ranks;  // of the starter, ascending
  std::vector<const RankFacts*> facts;
  std::optional<topology::Node> node;  // with GPUs that are known by UUID
  std::vector<int> gpus;               // by the order of `ranks`: the GPU, without `node` just 0, 1, ...
  std::vector<int> ordinals;           // by the order of `ranks`, where GPUs are not known: CUDA's
};

class Assigner {
 public:
  explicit Assigner(const AssignmentInput& input)
      : input_(input), cuda_(input.device == "cuda"), network_(SiteNetwork::from_site(input.site_values)) {}
  Assignment run();

 private:
  void find_hosts();
  void find_devices(Host& host);
  void note_masks();
  void note_odd_nodes();
  void build_allocation();
  void use(const std::vector<int>& slot_of);
  void bind();
  void ask_on_map();
  void ask_on_env();
  [[nodiscard]] const topology::Gpu* gpu_of(std::size_t rank) const;
  [[nodiscard]] Json map() const;

  const AssignmentInput& input_;
  const bool cuda_;
  const SiteNetwork network_;
  std::vector<Host> hosts_;
  std::vector<std::pair<int, int>> home_;  // by the starter's rank: host, place among its ranks
  Allocation allocation_;
  LinkRates rates_;
  Traffic traffic_;
  Placement placement_;
  std::vector<int> starter_of_;  // by logical rank
  std::vector<std::string> notes_;
  Assignment result_;
};

void Assigner::find_hosts() {
  std::map<std::string, std::size_t> known;
  for (std::size_t rank = 0; rank < input_.facts.size(); ++rank) {
    const RankFacts& facts = input_.facts[rank];
    const auto [it, fresh] = known.try_emplace(facts.host, hosts_.size());
    if (fresh) hosts_.push_back({facts.host, {}, {}, {}, {}, {}});
    Host& host = hosts_[it->second];
    home_.emplace_back(static_cast<int>(it->second), static_cast<int>(host.ranks.size()));
    host.ranks.push_back(rank);
    host.facts.push_back(&facts);
  }
  for (Host& host : hosts_) find_devices(host);
}

void Assigner::find_devices(Host& host) {
  for (std::size_t i = 0; i < host.ranks.size(); ++i) host.gpus.push_back(static_cast<int>(i));
  if (!cuda_) return;
  std::vector<VisibleDevices> seen;
  int most = 0;
  bool identified = true;
  for (const RankFacts* facts : host.facts) {
    seen.push_back(facts->devices);
    most = std::max(most, static_cast<int>(facts->gpus.size()));
    identified =
        identified && !facts->gpus.empty() &&
        std::none_of(facts->gpus.begin(), facts->gpus.end(), [](const SeenGpu& gpu) { return gpu.uuid.empty(); });
  }
  const bool share = input_.job.run.communicator == "mpi";
  if (identified) host.node = node_of_host(host.facts);
  const bool crowded = share && static_cast<int>(host.ranks.size()) > most && !host.facts[0]->gpus.empty() &&
                       !host.facts[0]->gpus[0].mig;
  if (!host.node || crowded) {
    host.node.reset();
    host.ordinals = device_ordinals(host.name, seen, share);
    return;
  }
  exclude_nics(*host.node, input_.site_values.at("fabric").at("nic_exclude").get<std::vector<std::string>>());
  if (input_.site != nullptr && input_.site->has_hook("on_node")) {
    const Json answer = input_.site->on_node(topology::node_to_json(*host.node));
    const std::string name = fmt::format("{}: what on_node returned for {}", input_.site->file(), host.name);
    host.node = topology::machine_from_json(Json{{"schema", 1}, {"nodes", {answer}}}, name).nodes.front();
    for (const RankFacts* facts : host.facts)
      for (const SeenGpu& gpu : facts->gpus)
        if (std::none_of(host.node->gpus.begin(), host.node->gpus.end(),
                         [&](const topology::Gpu& one) { return one.uuid == gpu.uuid; }))
          throw UsageError(
              "{}: GPU {} is missing, which a rank sees; on_node may change what is told of a GPU, not "
              "drop it",
              name, gpu.uuid);
  }
  host.gpus = match_gpus(*host.node, host.facts);
}

// Adds `text` for hosts to `notes`, once for all of them.
void add_by_host(const std::map<std::string, std::vector<std::string>>& hosts_by_text,
                 std::vector<std::string>& notes) {
  for (const auto& [text, hosts] : hosts_by_text)
    notes.push_back(fmt::format("{}: {}", topology::fold_hostlist(hosts), text));
}

void Assigner::note_masks() {
  std::map<std::string, std::vector<std::string>> texts;
  for (const Host& host : hosts_) {
    std::vector<VisibleDevices> seen;
    for (const RankFacts* facts : host.facts) seen.push_back(facts->devices);
    for (const std::string& note : masking_notes(seen, host.node.has_value())) texts[note].push_back(host.name);
    for (std::size_t i = 0; host.node && i < host.ranks.size(); ++i) {
      const RankFacts& facts = *host.facts[i];
      const auto own = topology::CpuSet::parse_list(facts.cpus);
      const auto& gpu = host.node->gpus[static_cast<std::size_t>(*host.node->position_of(host.gpus[i]))];
      if (own && gpu.cpus && !gpu.cpus->empty() && (*own & *gpu.cpus).empty())
        texts[fmt::format("local rank {} may use CPUs {} only, but its GPU {} is near CPUs {}: copies cross sockets; "
                          "start without CPU binding (srun --cpu-bind=none) or ask for whole nodes",
                          facts.local_rank, facts.cpus, gpu.index, gpu.cpus->list())]
            .push_back(host.name);
    }
  }
  add_by_host(texts, notes_);
}

void Assigner::note_odd_nodes() {
  std::vector<topology::Node> nodes;
  std::vector<std::string> names;
  for (const Host& host : hosts_)
    if (host.node) {
      nodes.push_back(*host.node);
      names.push_back(host.name);
    }
  std::map<std::string, std::vector<std::string>> texts;
  if (nodes.size() > 1)
    for (const auto& group : topology::group_alike(nodes))
      for (const std::string& difference : group.differences)
        for (const int n : group.nodes)
          texts["unlike the other nodes: " + difference].push_back(names[static_cast<std::size_t>(n)]);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (const topology::Nic& nic : nodes[n].nics)
      if (nic.role == topology::NicRole::kRail && nic.active == false)
        texts[fmt::format("rail NIC {} is down and left out; check its cable and the subnet manager", nic.name)]
            .push_back(names[n]);
  add_by_host(texts, notes_);
}

void Assigner::build_allocation() {
  topology::Machine machine;
  std::vector<std::vector<int>> granted;
  for (const Host& host : hosts_) {
    machine.nodes.push_back(host.node.value_or(topology::Node{}));
    machine.nodes.back().name = host.name;
    granted.push_back(host.gpus);
    std::sort(granted.back().begin(), granted.back().end());
  }
  machine.fabric = input_.fabric;
  Cluster cluster = live_cluster(input_.site_values, std::move(machine), granted, 1);
  allocation_ = std::move(cluster.allocation);
  rates_ = cluster.rates;
  if (!allocation_.fabric) return;
  // Slurm's node names are mostly host names without a domain.
  std::set<std::string> known;
  for (const auto& sw : allocation_.fabric->switches) known.insert(sw.nodes.begin(), sw.nodes.end());
  for (const auto& block : allocation_.fabric->blocks) known.insert(block.nodes.begin(), block.nodes.end());
  for (AllocatedNode& node : allocation_.nodes) {
    const std::string brief = node.name.substr(0, node.name.find('.'));
    if (!known.contains(node.name) && known.contains(brief)) node.name = brief;
  }
}

// Which process sits on each slot follows from the GPU it was matched with.
void Assigner::use(const std::vector<int>& slot_of) {
  starter_of_.assign(slot_of.size(), -1);
  for (std::size_t logical = 0; logical < slot_of.size(); ++logical) {
    const RankPlace& place = placement_.ranks[logical];
    const Host& host = hosts_[static_cast<std::size_t>(place.node)];
    const auto at = std::find(host.gpus.begin(), host.gpus.end(), place.gpu) - host.gpus.begin();
    const std::size_t rank = host.ranks[static_cast<std::size_t>(at)];
    starter_of_[logical] = static_cast<int>(rank);
    RankAssignment& mine = result_.ranks[rank];
    mine.logical = static_cast<int>(logical);
    if (!cuda_) continue;
    if (!host.node) {
      mine.ordinal = host.ordinals[static_cast<std::size_t>(at)];
      continue;
    }
    const DeviceView view = device_view(*host.node, *host.facts[static_cast<std::size_t>(at)], place.gpu, host.gpus);
    mine.ordinal = view.ordinal;
    mine.visible = view.visible;
    mine.network = network_of(network_, *host.node, gpu_of(rank));
  }
  bind();
}

const topology::Gpu* Assigner::gpu_of(std::size_t rank) const {
  const auto [h, place] = home_[rank];
  const Host& host = hosts_[static_cast<std::size_t>(h)];
  if (!host.node) return nullptr;
  return &host.node
              ->gpus[static_cast<std::size_t>(*host.node->position_of(host.gpus[static_cast<std::size_t>(place)]))];
}

// Ranks that were started with the same CPUs divide them, those near their GPUs first; a rank with CPUs of its own
// keeps them.
void Assigner::bind() {
  for (const Host& host : hosts_) {
    std::map<std::string, std::vector<std::size_t>> sharers;  // CPUs -> places among the host's ranks, by GPU
    for (std::size_t i = 0; i < host.ranks.size(); ++i) sharers[host.facts[i]->cpus].push_back(i);
    for (auto& [cpus, places] : sharers) {
      std::sort(places.begin(), places.end(),
                [&](std::size_t a, std::size_t b) { return host.gpus[a] < host.gpus[b]; });
      std::vector<Core> cores;
      for (const std::size_t i : places)
        if (cores.empty()) cores = parse_cores(host.facts[i]->core_cpus);
      if (cores.empty()) cores = parse_cores(host.facts[0]->core_cpus);
      std::vector<std::vector<int>> near;
      for (const std::size_t i : places) {
        const topology::Gpu* gpu = gpu_of(host.ranks[i]);
        near.push_back(gpu != nullptr && gpu->cpus ? gpu->cpus->members() : std::vector<int>{});
      }
      for (std::size_t k = 0; k < places.size(); ++k) {
        const auto share = places.size() > 1 ? share_near(cores, static_cast<int>(k), near) : cores;
        result_.ranks[host.ranks[places[k]]].cpus = cpu_list(share);
      }
    }
  }
  for (std::size_t logical = 0; logical < starter_of_.size(); ++logical) {
    const auto rank = static_cast<std::size_t>(starter_of_[logical]);
    const std::string& cpus = result_.ranks[rank].cpus;
    placement_.ranks[logical].cpus = topology::CpuSet::parse_list(cpus.empty() ? input_.facts[rank].cpus : cpus);
  }
}

Json Assigner::map() const { return placement_map(input_.layout, allocation_, placement_, starter_of_, !cuda_); }

void Assigner::ask_on_map() {
  if (input_.site == nullptr || !input_.site->has_hook("on_map")) return;
  const Json offered{{"layout", input_.layout.to_json()}, {"device", input_.device}, {"map", map()}};
  const Json answer = input_.site->on_map(offered);
  if (answer == offered) return;
  const std::string name = input_.site->file() + ": what on_map returned";
  placement_ = place_as(input_.layout, allocation_, traffic_, slots_of_map(answer, allocation_, name, !cuda_), rates_);
  use(placement_.slot_of);
  const Json& changed = answer.at("map");
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const auto logical = changed[i].at("rank").get<std::size_t>();
    const auto rank = static_cast<std::size_t>(starter_of_[logical]);
    // What the hook left as it was offered follows the rank to its new place.
    const Json &cpus = changed[i].at("cpus"), &nic = changed[i].at("nic");
    if (cpus.is_string() && cpus != offered.at("map")[logical].at("cpus")) {
      const auto wanted = topology::CpuSet::parse_list(cpus.get<std::string>());
      const auto allowed = topology::CpuSet::parse_list(input_.facts[rank].cpus);
      if (!wanted || wanted->empty() || (allowed && !wanted->subset_of(*allowed)))
        throw UsageError("{}: rank {}: CPUs \"{}\" are not among those it may use ({})", name, logical,
                         cpus.get<std::string>(), input_.facts[rank].cpus);
      result_.ranks[rank].cpus = wanted->list();
      placement_.ranks[logical].cpus = wanted;
    }
    if (nic.is_string() && nic != offered.at("map")[logical].at("nic")) {
      result_.ranks[rank].network.nic = nic.get<std::string>();
      placement_.ranks[logical].nic = nic.get<std::string>();
    }
  }
}

void Assigner::ask_on_env() {
  if (input_.site == nullptr || !input_.site->has_hook("on_env")) return;
  for (const Json& entry : map()) {
    const auto rank = entry.at("started_as").get<std::size_t>();
    const topology::Gpu* gpu = gpu_of(rank);
    Json about = entry;
    about["local_rank"] = input_.facts[rank].local_rank;
    about["rail"] = gpu != nullptr && gpu->rail ? Json(*gpu->rail) : Json(nullptr);
    result_.ranks[rank].site_hook = input_.site->on_env(about);
    if (cuda_ && result_.ranks[rank].site_hook.contains("CUDA_VISIBLE_DEVICES"))
      throw UsageError("{}: on_env sets CUDA_VISIBLE_DEVICES, which placement sets by UUID; use on_map to move a rank",
                       input_.site->file());
  }
}

Assignment Assigner::run() {
  if (cuda_ && input_.job.run.setenv.contains("CUDA_VISIBLE_DEVICES"))
    throw UsageError(
        "run.setenv.CUDA_VISIBLE_DEVICES: placement sets it by UUID; to leave GPUs out, set it before the run starts");
  result_.ranks.resize(input_.facts.size());
  find_hosts();
  build_allocation();
  JobSpec job = input_.job;
  if (job.model.vocab <= 0) {
    job.model.vocab = kAssumedVocabulary;
    notes_.push_back(
        fmt::format("the size of the vocabulary is not known yet: {} is assumed for traffic", kAssumedVocabulary));
  }
  traffic_ = traffic_of(job, input_.layout);
  placement_ = place(input_.layout, allocation_, traffic_, rates_);
  use(placement_.slot_of);
  ask_on_map();
  ask_on_env();
  if (cuda_) {
    note_masks();
    note_odd_nodes();
  }
  notes_.insert(notes_.end(), placement_.notes.begin(), placement_.notes.end());
  describe(input_, allocation_, traffic_, rates_, placement_, map(), notes_, result_);
  return std::move(result_);
}

}  // namespace

Json RankAssignment::to_json() const {
  return Json{{"logical", logical},
              {"ordinal", ordinal},
              {"visible", visible},
              {"cpus", cpus},
              {"fabric", network.fabric},
              {"rail_nics", network.rail_nics},
              {"nic", network.nic ? Json(*network.nic) : Json(nullptr)},
              {"socket_interfaces", network.socket_interfaces},
              {"gid_index", network.gid_index ? Json(*network.gid_index) : Json(nullptr)},
              {"site_hook", site_hook}};
}

RankAssignment RankAssignment::from_json(const Json& json) {
  RankAssignment rank;
  rank.logical = json.at("logical").get<int>();
  rank.ordinal = json.at("ordinal").get<int>();
  rank.visible = json.at("visible").get<std::string>();
  rank.cpus = json.at("cpus").get<std::string>();
  rank.network.fabric = json.at("fabric").get<std::string>();
  rank.network.rail_nics = json.at("rail_nics").get<std::vector<std::string>>();
  if (!json.at("nic").is_null()) rank.network.nic = json.at("nic").get<std::string>();
  rank.network.socket_interfaces = json.at("socket_interfaces").get<std::vector<std::string>>();
  if (!json.at("gid_index").is_null()) rank.network.gid_index = json.at("gid_index").get<int>();
  rank.site_hook = json.at("site_hook").get<Environment>();
  return rank;
}

Assignment assign_ranks(const AssignmentInput& input) { return Assigner(input).run(); }

}  // namespace railyard::launch
