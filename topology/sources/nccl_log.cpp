// NCCL_DEBUG=INFO logs: the system graph ("=== System : maxBw ... ===" with CPU/PCI/GPU/NIC/NET lines, one level of
// indentation per link) and the list of network devices ("NET/IB : Using [0]mlx5_0:1/IB ..."). Addresses are NCCL's
// packed hexadecimal form, with the system's number before a dash since 2.23.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "runtime/base/error.hpp"
#include "topology/sources/pci_tree.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

constexpr std::string_view kMark = "NCCL INFO ";

struct LogLine {
  std::string host, process;  // process: "pid:thread", for lines of several interleave
  std::string_view text;
};

// "[3] node0:744139:744139 [0] NCCL INFO ...", the label in front being srun's or mpirun's, or none.
std::optional<LogLine> split_log_line(std::string_view line) {
  const auto mark = line.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  LogLine result;
  result.text = line.substr(mark + kMark.size());
  for (const auto word : split_words(line.substr(0, mark))) {
    const auto last = word.rfind(':');
    if (last == std::string_view::npos || last == 0) continue;
    const auto first = word.rfind(':', last - 1);
    if (first == std::string_view::npos || first == 0) continue;
    if (!parse_number<long>(word.substr(last + 1)) || !parse_number<long>(word.substr(first + 1, last - first - 1)))
      continue;
    result.host = word.substr(0, first);
    result.process = word.substr(first + 1);
  }
  return result;
}

struct GraphGpu {
  Gpu gpu;
  PciPlace place;
  std::optional<int> rank;
  std::map<std::string, double> nvlink;  // "NVS" or the peer's PCI address -> GB/s
};

struct Host {
  std::string process;  // of the graph that is read; other processes of the host print the same
  int graph_line = 0;
  bool open = false;
  std::vector<std::pair<std::size_t, std::string>> path;  // indentation and element of the lines above
  std::optional<int> numa;
  std::vector<GraphGpu> gpus;
  std::vector<Nic> graph_nics;
  std::vector<PciPlace> nic_places;
  std::map<int, Nic> used;  // device number -> NIC, from the NET lines
  int slow_links = 0;
  std::string slow_link;  // the first of them
};

class Reader {
 public:
  Reader(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}
  Machine read();

 private:
  void using_line(Host& host, std::string_view text) const;
  void graph_line(Host& host, std::string_view text, int line);
  Node finish(const std::string& host_name, Host& host) const;

  std::string_view text_;
  std::string name_;
  std::map<std::string, int> identities_;
};

// "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:..."
void Reader::using_line(Host& host, std::string_view text) const {
  const auto list = text.substr(0, text.find(';'));
  for (const auto word : split_words(list)) {
    const auto close = word.find(']');
    if (!word.starts_with("[") || close == std::string_view::npos || close + 1 >= word.size()) continue;
    const auto number = parse_number<int>(word.substr(1, close - 1));
    const auto device = word.substr(close + 1);
    const auto colon = device.find(':');
    if (!number || colon == std::string_view::npos || colon == 0) continue;
    Nic nic;
    nic.name = device.substr(0, colon);
    nic.active = true;  // NCCL lists active ports only
    nic.rdma = true;
    if (device.find("/IB", colon) != std::string_view::npos) nic.link_layer = "InfiniBand";
    if (device.find("/RoCE", colon) != std::string_view::npos) nic.link_layer = "Ethernet";
    host.used.emplace(*number, std::move(nic));
  }
}

// The part of "GPU/0-68000" after the system number.
std::string_view id_of(std::string_view element) {
  auto id = element.substr(element.find('/') + 1);
  if (const auto dash = id.find('-'); dash != std::string_view::npos) id.remove_prefix(dash + 1);
  return id;
}

void Reader::graph_line(Host& host, std::string_view text, int line) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return;
  const auto body = text.substr(begin);
  std::string_view element = body, link;
  double bandwidth = 0;
  if (body.starts_with("+ ")) {
    const auto dash = body.find(" - ");
    const auto open = body.find('['), close = body.find(']');
    if (dash == std::string_view::npos || open == std::string_view::npos || close == std::string_view::npos ||
        close < open || open < 2)
      return;
    link = body.substr(2, open - 2);
    bandwidth = parse_real(body.substr(open + 1, close - open - 1)).value_or(0);
    element = body.substr(dash + 3);
  }
  const auto words = split_words(element);
  if (words.empty()) return;
  const auto device = words[0];
  while (!host.path.empty() && host.path.back().first >= begin) host.path.pop_back();
  if (link.empty()) host.path.clear();  // "CPU/0-1" begins at column 0, as its own links do
  if (link.empty() && device.starts_with("CPU/")) {
    host.numa = parse_number<int>(id_of(device));
    host.path.emplace_back(0, std::string(device));
    return;
  }
  if (host.gpus.size() + host.graph_nics.size() > kMostDevices)
    throw UsageError("{}:{}: more than {} GPUs and NICs are beyond any node", name_, line, kMostDevices);
  PciPlace place;
  place.numa = host.numa;
  place.host_bridge = host.numa;
  for (const auto& [indent, above] : host.path)
    if (above.starts_with("PCI/"))
      place.bridges.push_back(identities_.try_emplace(above, static_cast<int>(identities_.size())).first->second);
  const std::string above = host.path.empty() ? "" : host.path.back().second;
  const auto packed = parse_number<std::uint64_t>(id_of(device), 16);
  if (link == "PCI" && bandwidth < 1 && device.starts_with("PCI/"))
    if (++host.slow_links == 1)
      host.slow_link = fmt::format("{}:{}: {} is rated {} GB/s", name_, line, device, bandwidth);
  if (link == "NVL" && !host.gpus.empty() && above.starts_with("GPU/")) {
    const std::string target = device.starts_with("NVS") ? "NVS"
                               : packed                  ? PciAddress::from_packed(*packed).text()
                                                         : "";
    host.gpus.back().nvlink[target] += bandwidth;
  } else if (device.starts_with("GPU/") && link == "PCI") {
    GraphGpu gpu;
    if (!packed) throw UsageError("{}:{}: \"{}\" has no packed PCI address", name_, line, device.substr(0, 40));
    gpu.gpu.pci = PciAddress::from_packed(*packed);
    gpu.gpu.numa = host.numa;
    gpu.place = std::move(place);
    if (words.size() > 1 && words[1].starts_with("("))
      gpu.rank = parse_number<int>(words[1].substr(1, words[1].find_first_of(")/") - 1));
    host.gpus.push_back(std::move(gpu));
  } else if (device.starts_with("NET/")) {
    Nic nic;
    nic.name = fmt::format("NET/{}", id_of(device));
    nic.active = true;
    nic.rdma = true;
    if (const auto number = parse_number<int>(id_of(device), 16))
      if (const auto used = host.used.find(*number); used != host.used.end()) nic = used->second;
    if (above.starts_with("NIC/"))
      if (const auto address = parse_number<std::uint64_t>(id_of(above), 16))
        nic.pci = PciAddress::from_packed(*address);
    nic.numa = host.numa;
    if (bandwidth > 0) nic.rate_gbps = std::round(bandwidth * 8);
    host.graph_nics.push_back(std::move(nic));
    host.nic_places.push_back(std::move(place));
  }
  host.path.emplace_back(begin, std::string(device));
}

// NCCL rates an NVLink by GPU generation (GB/s): SM90 20.6, SM70 and SM80 20, SM100 40.1, SM86 12, SM60 18.
std::optional<int> links_of(double bandwidth) {
  for (const double rate : {20.6, 20.0, 40.1, 12.0, 18.0}) {
    const double links = bandwidth / rate, whole = std::round(links);
    if (whole >= 1 && whole <= 18 && std::abs(links - whole) < 0.003 * whole) return static_cast<int>(whole);
  }
  return std::nullopt;
}

Node Reader::finish(const std::string& host_name, Host& host) const {
  Node node;
  if (!host_name.empty()) node.name = host_name;
  node.source = "NCCL log: " + name_;
  if (host.slow_links > 0)
    node.warnings.push_back(
        fmt::format("{} ({} such PCI links): a virtual switch that reports no speed; NCCL avoids it, so give it a "
                    "topology file (NCCL_TOPO_FILE)",
                    host.slow_link, host.slow_links));
  if (host.graph_line == 0) {
    for (auto& [number, nic] : host.used) node.nics.push_back(std::move(nic));
    node.paths = PathTable(static_cast<int>(node.nics.size()));
    node.notes.emplace_back("the log lists network devices only: GPUs are unknown");
    return node;
  }
  std::stable_sort(host.gpus.begin(), host.gpus.end(),
                   [](const GraphGpu& a, const GraphGpu& b) { return *a.gpu.pci < *b.gpu.pci; });
  const bool linked =
      std::any_of(host.gpus.begin(), host.gpus.end(), [](const GraphGpu& gpu) { return !gpu.nvlink.empty(); });
  std::vector<PciPlace> places;
  for (std::size_t i = 0; i < host.gpus.size(); ++i) {
    GraphGpu& gpu = host.gpus[i];
    gpu.gpu.index = static_cast<int>(i);
    if (linked) gpu.gpu.nvlink.emplace();  // NCCL found links on this node: a GPU without any has none
    places.push_back(gpu.place);
  }
  std::string ranks;
  for (std::size_t a = 0; a < host.gpus.size(); ++a) {
    for (std::size_t b = 0; b < host.gpus.size(); ++b) {
      const auto direct = host.gpus[a].nvlink.find(host.gpus[b].gpu.pci->text());
      double bandwidth = a != b && direct != host.gpus[a].nvlink.end() ? direct->second : 0;
      if (a != b && host.gpus[a].nvlink.contains("NVS") && host.gpus[b].nvlink.contains("NVS"))
        bandwidth += std::min(host.gpus[a].nvlink.at("NVS"), host.gpus[b].nvlink.at("NVS"));
      if (bandwidth > 0) (*host.gpus[a].gpu.nvlink)[static_cast<int>(b)] = links_of(bandwidth);
    }
    if (host.gpus[a].rank) ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", *host.gpus[a].rank);
    node.gpus.push_back(host.gpus[a].gpu);
  }
  if (!ranks.empty()) node.notes.push_back("GPUs 0.. are global ranks " + ranks);
  std::vector<std::size_t> order(host.graph_nics.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return host.graph_nics[a].pci < host.graph_nics[b].pci; });
  std::vector<PciPlace> nic_places;
  for (const auto i : order) {
    node.nics.push_back(host.graph_nics[i]);
    nic_places.push_back(host.nic_places[i]);
  }
  fill_paths(node, places, nic_places, BridgeDetail::kSwitches);
  if (!linked) node.notes.emplace_back("no NVLink in the graph: NVLink is unknown");
  normalise_links(node);
  return node;
}

Machine Reader::read() {
  std::map<std::string, Host> hosts;
  std::vector<std::string> order;
  int number = 0;
  for (const auto raw : split_lines(text_)) {
    ++number;
    const auto line = split_log_line(raw);
    if (!line) continue;
    const auto [it, fresh] = hosts.try_emplace(line->host);
    if (fresh) order.push_back(line->host);
    Host& host = it->second;
    if (line->text.find("NET/") != std::string_view::npos && line->text.find(": Using [") != std::string_view::npos) {
      using_line(host, line->text);
    } else if (line->text.starts_with("=== System")) {
      if (host.graph_line == 0) {
        host.graph_line = number;
        host.process = line->process;
        host.open = true;
      }
    } else if (host.open && host.process == line->process) {
      if (line->text.starts_with("======"))
        host.open = false;
      else
        graph_line(host, line->text, number);
    }
  }
  Machine machine;
  for (const auto& name : order) {
    Host& host = hosts[name];
    if (host.graph_line == 0 && host.used.empty()) continue;
    machine.nodes.push_back(finish(name, host));
  }
  if (machine.nodes.empty())
    throw UsageError(
        "{}:1: an NCCL log with neither a system graph nor a list of network devices; set NCCL_DEBUG=INFO and "
        "NCCL_DEBUG_SUBSYS=GRAPH,INIT,NET",
        name_);
  return machine;
}

}  // namespace

Machine read_nccl_log(std::string_view text, const std::string& name) { return Reader(text, name).read(); }

}  // namespace railyard::topology
