// Gathers a rank's facts and carries them as JSON.
#include "launch/bootstrap/rank_facts.hpp"

#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>
#include <sstream>

#include "topology/json.hpp"
#include "topology/sources/nvml.hpp"
#include "topology/sources/source.hpp"

namespace railyard::launch {
namespace {

bool cuda_part_installed() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  return fs::exists(beside / "librailyard_cuda.so", ignored) ||
         fs::exists(beside.parent_path() / "lib/railyard/librailyard_cuda.so", ignored);
}

}  // namespace

std::string core_text(const std::vector<Core>& cores) {
  std::string text;
  for (const Core& core : cores) text += fmt::format("{}{}", text.empty() ? "" : " ", fmt::join(core.cpus, ","));
  return text;
}

std::vector<Core> parse_cores(const std::string& text) {
  std::vector<Core> cores;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    Core core;
    std::istringstream numbers(word);
    for (std::string number; std::getline(numbers, number, ',');) {
      int cpu = -1;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), cpu);
      if (error == std::errc{} && end == number.data() + number.size() && cpu >= 0) core.cpus.push_back(cpu);
    }
    if (!core.cpus.empty()) cores.push_back(std::move(core));
  }
  return cores;
}

Json RankFacts::to_json() const {
  Json seen = Json::array();
  for (const SeenGpu& gpu : gpus) seen.push_back({gpu.uuid, gpu.pci, gpu.mig});
  return Json{{"host", host},
              {"local_rank", local_rank},
              {"cpus", cpus},
              {"cores", cores},
              {"core_cpus", core_cpus},
              {"devices", {devices.count, devices.mask, devices.on_node, devices.openable, devices.masked}},
              {"gpus", std::move(seen)},
              {"cuda_part", cuda_part},
              {"node", node}};
}

RankFacts RankFacts::from_json(const Json& json) {
  RankFacts facts;
  facts.host = json.at("host").get<std::string>();
  facts.local_rank = json.at("local_rank").get<int>();
  facts.cpus = json.at("cpus").get<std::string>();
  facts.cores = json.at("cores").get<int>();
  facts.core_cpus = json.at("core_cpus").get<std::string>();
  const Json& devices = json.at("devices");
  facts.devices = {devices.at(0).get<int>(), devices.at(1).get<std::string>(), devices.at(2).get<int>(),
                   devices.at(3).get<int>(), devices.at(4).get<bool>()};
  for (const Json& gpu : json.at("gpus"))
    facts.gpus.push_back({gpu.at(0).get<std::string>(), gpu.at(1).get<std::string>(), gpu.at(2).get<bool>()});
  facts.cuda_part = json.at("cuda_part").get<bool>();
  facts.node = json.at("node");
  return facts;
}

RankFacts own_facts(const Identity& identity) {
  RankFacts facts;
  facts.host = identity.host;
  facts.local_rank = identity.local_rank;
  const auto cores = allowed_cores();
  facts.cpus = cpu_list(cores);
  facts.cores = static_cast<int>(cores.size());
  if (identity.local_rank == 0 || bound_already()) facts.core_cpus = core_text(cores);
  facts.devices = visible_devices();
  facts.cuda_part = cuda_part_installed();
  if (facts.devices.on_node == 0) return facts;
  std::vector<SeenGpu> openable;
  for (const topology::Gpu& gpu : topology::read_nvml_identities())
    openable.push_back({gpu.uuid.value_or(""), gpu.pci ? gpu.pci->text() : "", gpu.partition.has_value()});
  facts.gpus = facts.devices.masked ? shown_by_mask(openable, facts.devices.mask) : openable;
  if (identity.local_rank == 0 || facts.devices.openable < facts.devices.on_node)
    facts.node = topology::node_to_json(topology::read_live_node());
  return facts;
}

}  // namespace railyard::launch
