// The picture: nodes with their NUMA nodes, GPUs, rails and NVLink domains; the switch tree above its nodes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "topology/compare.hpp"
#include "topology/hostlist.hpp"
#include "topology/render/render.hpp"
#include "topology/render/svg_canvas.hpp"

namespace railyard::topology {
namespace {

constexpr double kMargin = 28, kCard = 112, kGap = 14, kGpuHeight = 78, kNicHeight = 58, kRailGap = 46, kPad = 18;
const std::string kInk = "#1f2933", kMuted = "#66727f", kFrame = "#cbd4dd", kRed = "#c62828", kGreen = "#5a9216";

struct RailColour {
  std::string fill, stroke;
};

RailColour rail_colour(const std::optional<int>& rail) {
  if (!rail) return {"#eef1f4", "#9aa5b1"};
  // Neighbouring rails get hues far apart.
  const double hue = ((*rail * 5) % 8) * 45.0 + (*rail / 8) * 22.0 + 205;
  return {hsl(hue, 0.62, 0.91), hsl(hue, 0.58, 0.42)};
}

// Where a node's devices stand: one column per GPU, by NUMA node.
struct Columns {
  std::vector<std::size_t> gpus;                                                // positions, left to right
  std::map<std::size_t, double> x;                                              // GPU position -> left edge of its card
  std::vector<std::pair<std::optional<int>, std::pair<double, double>>> numas;  // left and right edge
  double width = 0;
};

class Picture {
 public:
  explicit Picture(const Machine& machine) : machine_(machine) {}
  std::string draw();

 private:
  void draw_node(const NodeGroup& group, bool odd);
  double draw_domains(const Node& node, const Columns& columns, double top);
  void draw_gpu(const Gpu& gpu, double x, double y);
  void draw_nic(const Nic& nic, const std::optional<int>& rail, double x, double y, double width);
  void draw_fabric(const Fabric& fabric);
  [[nodiscard]] Columns place(const Node& node) const;
  void widen(double right) { width_ = std::max(width_, right); }

  const Machine& machine_;
  SvgCanvas canvas_;
  double y_ = kMargin, width_ = 520;
};

Columns Picture::place(const Node& node) const {
  Columns columns;
  for (std::size_t g = 0; g < node.gpus.size(); ++g) columns.gpus.push_back(g);
  std::stable_sort(columns.gpus.begin(), columns.gpus.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t g) { return node.gpus[g].numa.value_or(1 << 20); };
    return key(a) < key(b);
  });
  double x = kMargin + kPad;
  for (std::size_t i = 0; i < columns.gpus.size(); ++i) {
    const auto& numa = node.gpus[columns.gpus[i]].numa;
    if (columns.numas.empty() || columns.numas.back().first != numa) {
      if (i > 0) x += kPad * 2;
      columns.numas.push_back({numa, {x - kPad + 4, 0}});
    }
    columns.x[columns.gpus[i]] = x;
    x += kCard + kGap;
    columns.numas.back().second.second = x - kGap + kPad - 4;
  }
  columns.width = x;
  return columns;
}

// Domains of equal all-to-all links on neighbouring columns are bands; others are drawn link by link. Returns the y
// below them.
double Picture::draw_domains(const Node& node, const Columns& columns, double top) {
  const auto domains = nvlink_domains(node);
  if (!domains || domains->empty()) {
    if (!node.gpus.empty())
      canvas_.text(kMargin + kPad, top + 14, domains ? "no NVLink" : "NVLink unknown", {12, kMuted});
    return top + 26;
  }
  std::map<std::size_t, std::size_t> column_of;
  for (std::size_t i = 0; i < columns.gpus.size(); ++i) column_of[columns.gpus[i]] = i;
  double tallest = 0;
  std::vector<std::vector<int>> bands, meshes;
  for (const auto& domain : *domains) {
    std::set<std::size_t> spots;
    std::set<std::optional<int>> counts;
    for (const int index : domain) {
      const auto position = static_cast<std::size_t>(*node.position_of(index));
      spots.insert(column_of[position]);
      if (node.gpus[position].nvlink)
        for (const auto& [peer, links] : *node.gpus[position].nvlink) counts.insert(links);
    }
    const bool together = *spots.rbegin() - *spots.begin() + 1 == spots.size();
    if (together && counts.size() == 1 && is_clique(node, domain)) {
      bands.push_back(domain);
      tallest = std::max(tallest, 30.0);
    } else {
      meshes.push_back(domain);
      tallest = std::max(tallest, 34.0 + 13.0 * static_cast<double>(*spots.rbegin() - *spots.begin()));
    }
  }
  const double base = top + tallest;
  for (const auto& domain : bands) {
    double left = 1e9, right = 0;
    for (const int index : domain) {
      const double x = columns.x.at(static_cast<std::size_t>(*node.position_of(index)));
      left = std::min(left, x);
      right = std::max(right, x + kCard);
      canvas_.line(x + kCard / 2, base - 4, x + kCard / 2, base + 12, {"none", kGreen, 4});
    }
    canvas_.rectangle(left, base - 28, right - left, 26, {"#e4f1d0", kGreen, 1.4, "", 13});
    canvas_.fitted((left + right) / 2, base - 10, right - left, fmt::format("NVLink  {}", domain_text(node, domain)),
                   {12, "#33550a", true, "middle"});
  }
  for (std::size_t d = 0; d < meshes.size(); ++d) {
    for (const int index : meshes[d]) {
      const auto a = static_cast<std::size_t>(*node.position_of(index));
      if (!node.gpus[a].nvlink) continue;
      for (const auto& [peer, links] : *node.gpus[a].nvlink) {
        const auto position = node.position_of(peer);
        if (!position || peer < index) continue;
        const auto b = static_cast<std::size_t>(*position);
        const double span = std::abs(static_cast<double>(column_of[a]) - static_cast<double>(column_of[b]));
        canvas_.arc(columns.x.at(a) + kCard / 2, columns.x.at(b) + kCard / 2, base + 12, 16 + 13 * span,
                    {"none", hsl(88 + 70.0 * static_cast<double>(d % 4), 0.6, 0.36),
                     1.2 + 0.5 * std::min(links.value_or(1), 8), "", 0, 0.75},
                    fmt::format("GPU{} - GPU{}: NV{}", index, peer, links ? std::to_string(*links) : "#"));
      }
    }
    canvas_.text(kMargin + kPad, top + 4 + 15 * static_cast<double>(d),
                 fmt::format("NVLink domain {}: {}", fmt::join(meshes[d], ","), domain_text(node, meshes[d])),
                 {12, "#33550a", true});
  }
  return base + 12;
}

void Picture::draw_gpu(const Gpu& gpu, double x, double y) {
  const auto colour = rail_colour(gpu.rail);
  canvas_.rectangle(x, y, kCard, kGpuHeight, {colour.fill, colour.stroke, 1.6, "", 8}, gpu.name.value_or(""));
  canvas_.text(x + 10, y + 20, fmt::format("GPU {}", gpu.index), {15, kInk, true});
  if (gpu.rail)
    canvas_.text(x + kCard - 10, y + 19, fmt::format("rail {}", *gpu.rail), {11, colour.stroke, true, "end"});
  canvas_.fitted(x + 10, y + 37, kCard - 16, gpu.partition ? *gpu.partition : gpu.name.value_or("model unknown"),
                 {10.5, kMuted});
  canvas_.text(x + 10, y + 53, gpu.pci ? gpu.pci->text() : "PCI unknown", {10.5, kMuted});
  canvas_.fitted(x + 10, y + 69, kCard - 16,
                 "cpus " + (gpu.cpus ? (gpu.cpus->empty() ? "none" : gpu.cpus->list()) : "unknown"), {10.5, kMuted});
}

void Picture::draw_nic(const Nic& nic, const std::optional<int>& rail, double x, double y, double width) {
  const auto colour = rail_colour(rail);
  const bool down = nic.active == false;
  canvas_.rectangle(
      x, y, width, kNicHeight,
      {down ? "#fdecea" : colour.fill, down ? kRed : colour.stroke, down ? 2.2 : 1.4, rail ? "" : "4 3", 8},
      nic.pci ? nic.pci->text() : "");
  canvas_.fitted(x + 10, y + 18, width - 16, nic.name, {12.5, kInk, true});
  std::string facts = nic.rate_gbps ? fmt::format("{:g} Gb/s", *nic.rate_gbps) : "";
  if (nic.link_layer) facts += (facts.empty() ? "" : " ") + *nic.link_layer;
  canvas_.fitted(x + 10, y + 34, width - 16, facts.empty() ? "rate unknown" : facts, {10.5, kMuted});
  canvas_.fitted(x + 10, y + 49, width - 16,
                 down         ? "DOWN"
                 : nic.active ? "active"
                              : "state unknown",
                 {10.5, down ? kRed : kMuted, down});
}

void Picture::draw_node(const NodeGroup& group, bool odd) {
  const Node& node = machine_.nodes[static_cast<std::size_t>(group.nodes[0])];
  const double top = y_;
  canvas_.text(kMargin + kPad, top + 28, group_title(machine_, group.nodes) + (odd ? "  -  odd" : ""),
               {17, odd ? kRed : kInk, true});
  double y = top + 46;
  canvas_.text(kMargin + kPad, y, "from " + node.source, {11, kMuted});
  y += 22;
  const Columns columns = place(node);
  widen(columns.width + kPad + kMargin);
  double right = columns.width;
  y = draw_domains(node, columns, y);
  const double gpu_y = y, nic_y = gpu_y + kGpuHeight + kRailGap;
  const bool rails =
      std::any_of(node.gpus.begin(), node.gpus.end(), [](const Gpu& gpu) { return gpu.nic.has_value(); });
  const double box_bottom = rails ? nic_y + kNicHeight : gpu_y + kGpuHeight;
  for (const auto& [numa, edges] : columns.numas) {
    canvas_.rectangle(edges.first, gpu_y - 10, edges.second - edges.first, box_bottom - gpu_y + 34,
                      {"#ffffff", kFrame, 1.2, "", 10, 0.55});
    canvas_.text(edges.second - 8, box_bottom + 18, numa ? fmt::format("NUMA {}", *numa) : "NUMA unknown",
                 {11, kMuted, true, "end"});
  }
  for (const auto g : columns.gpus) draw_gpu(node.gpus[g], columns.x.at(g), gpu_y);
  // One NIC card below the GPUs that use it, centred on them.
  std::map<std::string, std::vector<std::size_t>> users;
  for (const auto g : columns.gpus)
    if (node.gpus[g].nic) users[*node.gpus[g].nic].push_back(g);
  for (const auto& [name, gpus] : users) {
    double centre = 0;
    for (const auto g : gpus) centre += columns.x.at(g) + kCard / 2;
    centre /= static_cast<double>(gpus.size());
    for (const auto g : gpus) {
      const double x = columns.x.at(g) + kCard / 2;
      const auto colour = rail_colour(node.gpus[g].rail);
      canvas_.line(x, gpu_y + kGpuHeight, centre, nic_y, {"none", colour.stroke, 2.6});
      const auto path = node.gpus[g].path;
      canvas_.rectangle((x + centre) / 2 - 19, gpu_y + kGpuHeight + kRailGap / 2 - 9, 38, 17,
                        {"#ffffff", colour.stroke, 1, "", 8});
      canvas_.text((x + centre) / 2, gpu_y + kGpuHeight + kRailGap / 2 + 4, path ? path_name(*path) : "?",
                   {10.5, kInk, true, "middle"});
    }
    if (const Nic* nic = node.find_nic(name)) draw_nic(*nic, node.gpus[gpus[0]].rail, centre - kCard / 2, nic_y, kCard);
  }
  y = box_bottom + 34;
  std::vector<const Nic*> rest;
  for (const auto& nic : node.nics)
    if (!users.contains(nic.name)) rest.push_back(&nic);
  if (!rest.empty()) {
    canvas_.text(kMargin + kPad, y + 16, rails ? "other NICs (storage, management)" : "NICs", {11.5, kMuted, true});
    y += 24;
    const auto per_row = std::max<std::size_t>(
        4, static_cast<std::size_t>((std::max(columns.width, width_ - kMargin) - kMargin - kPad) / (kCard + kGap)));
    for (std::size_t i = 0; i < rest.size(); ++i) {
      const double x = kMargin + kPad + static_cast<double>(i % per_row) * (kCard + kGap);
      draw_nic(*rest[i], std::nullopt, x, y + static_cast<double>(i / per_row) * (kNicHeight + 10), kCard);
      right = std::max(right, x + kCard + kPad);
    }
    y += static_cast<double>((rest.size() + per_row - 1) / per_row) * (kNicHeight + 10);
  }
  y += 6;
  const auto say = [&](const std::string& text, const std::string& fill) {
    canvas_.text(kMargin + kPad, y + 14, text, {11.5, fill});
    right = std::max(right, kMargin + kPad + static_cast<double>(text.size()) * 6.6);
    y += 18;
  };
  for (const auto& warning : node.warnings) say("! " + warning, kRed);
  for (const auto& note : node.notes) say(note, kMuted);
  widen(right + kPad + kMargin);
  canvas_.rectangle(kMargin, top, std::max(right, columns.width) + kPad - kMargin, y + 12 - top,
                    {"none", odd ? kRed : kFrame, odd ? 2.0 : 1.4, "", 14});
  y_ = y + 12 + 24;
}

void Picture::draw_fabric(const Fabric& fabric) {
  canvas_.text(kMargin, y_ + 18, fmt::format("Fabric: {}", fabric.kind), {17, kInk, true});
  canvas_.text(kMargin, y_ + 36, "from " + fabric.source, {11, kMuted});
  double y = y_ + 58;
  std::map<std::string, std::size_t> block_of;
  for (std::size_t b = 0; b < fabric.blocks.size(); ++b)
    for (const auto& name : fabric.blocks[b].nodes) block_of.try_emplace(name, b);
  const auto node_style = [&](const std::string& name) -> Style {
    const auto it = block_of.find(name);
    if (it == block_of.end()) return {"#dfe6ec", "#9aa5b1", 0.8, "", 3};
    const double hue = static_cast<double>(it->second * 137 % 360);
    return {hsl(hue, 0.55, 0.82), hsl(hue, 0.5, 0.42), 0.8, "", 3};
  };
  constexpr double kDot = 16, kDots = 6, kLeaf = kDots * kDot + 18;
  constexpr std::size_t kPerRow = 12;
  const auto dots = [&](const std::vector<std::string>& names, double x, double top) {
    for (std::size_t i = 0; i < names.size(); ++i)
      canvas_.rectangle(x + static_cast<double>(i % 6) * kDot, top + static_cast<double>(i / 6) * kDot, kDot - 3,
                        kDot - 3, node_style(names[i]), names[i]);
    return static_cast<double>((names.size() + 5) / 6) * kDot;
  };
  // Leaves in rows of a dozen, grouped by parent; parents as bars above what they join.
  std::map<std::string, std::vector<const Switch*>> below;
  for (const auto& sw : fabric.switches)
    if (!sw.nodes.empty()) below[sw.parent.value_or("")].push_back(&sw);
  int top_level = 0;
  for (const auto& sw : fabric.switches) top_level = std::max(top_level, sw.level);
  for (int level = top_level; level >= 2; --level) {
    std::vector<std::string> names;
    for (const auto& sw : fabric.switches)
      if (sw.level == level) names.push_back(sw.name);
    const double width = kPerRow * kLeaf * 0.6;
    canvas_.rectangle(kMargin, y, width, 24, {"#e8eaf6", "#3949ab", 1.2, "", 6});
    canvas_.fitted(kMargin + width / 2, y + 16, width - 12, fmt::format("level {}: {}", level, fold_hostlist(names)),
                   {11.5, "#283593", true, "middle"});
    widen(kMargin * 2 + width);
    y += 36;
  }
  for (const auto& [parent, leaves] : below) {
    const auto shown = std::min(leaves.size(), kPerRow);
    if (!parent.empty()) {
      canvas_.rectangle(kMargin, y, static_cast<double>(shown) * kLeaf - 10, 24, {"#e8eaf6", "#3949ab", 1.2, "", 6});
      canvas_.fitted(kMargin + 10, y + 16, static_cast<double>(shown) * kLeaf - 24, parent, {11.5, "#283593", true});
      y += 34;
    }
    for (std::size_t row = 0; row < leaves.size(); row += kPerRow) {
      double tallest = 0;
      for (std::size_t i = row; i < std::min(leaves.size(), row + kPerRow); ++i) {
        const double x = kMargin + static_cast<double>(i - row) * kLeaf;
        if (!parent.empty()) canvas_.line(x + kLeaf / 2 - 10, y - 10, x + kLeaf / 2 - 10, y, {"none", "#3949ab", 1.6});
        canvas_.rectangle(x, y, kLeaf - 10, 22, {"#ffffff", "#5c6bc0", 1.2, "", 6});
        canvas_.fitted(x + 6, y + 15, kLeaf - 22, fmt::format("{} ({})", leaves[i]->name, leaves[i]->nodes.size()),
                       {10.5, kInk, true});
        tallest = std::max(tallest, dots(leaves[i]->nodes, x + 2, y + 30));
        widen(x + kLeaf + kMargin);
      }
      y += 30 + tallest + 12;
    }
    y += 8;
  }
  if (!fabric.blocks.empty()) {
    const bool drawn = !below.empty();
    canvas_.text(kMargin, y + 12, fmt::format("{} blocks (NVLink domains or scheduling blocks)", fabric.blocks.size()),
                 {12, kMuted, true});
    y += 22;
    for (std::size_t row = 0; row < fabric.blocks.size(); row += kPerRow) {
      double tallest = 0;
      for (std::size_t i = row; i < std::min(fabric.blocks.size(), row + kPerRow); ++i) {
        const auto& block = fabric.blocks[i];
        const double x = kMargin + static_cast<double>(i - row) * kLeaf;
        canvas_.rectangle(x, y + 2, 12, 12, block.nodes.empty() ? Style{} : node_style(block.nodes[0]));
        canvas_.fitted(x + 17, y + 12, kLeaf - 26, fmt::format("{} ({})", block.name, block.nodes.size()),
                       {10.5, kInk});
        if (!drawn) tallest = std::max(tallest, dots(block.nodes, x + 2, y + 20));
        widen(x + kLeaf + kMargin);
      }
      y += 22 + tallest;
    }
  }
  y += 8;
  for (const auto& warning : fabric.warnings) {
    canvas_.text(kMargin, y + 12, "! " + warning, {11.5, kRed});
    widen(kMargin * 2 + static_cast<double>(warning.size()) * 6.6);
    y += 18;
  }
  for (const auto& note : fabric.notes) {
    canvas_.text(kMargin, y + 12, note, {11.5, kMuted});
    widen(kMargin * 2 + static_cast<double>(note.size()) * 6.6);
    y += 18;
  }
  y_ = y + kMargin;
}

std::string Picture::draw() {
  const auto groups = group_alike(machine_.nodes);
  for (std::size_t g = 0; g < groups.size(); ++g) draw_node(groups[g], g > 0);
  if (machine_.fabric) draw_fabric(*machine_.fabric);
  return canvas_.finish(width_, y_ + 4);
}

}  // namespace

std::string render_svg(const Machine& machine) { return Picture(machine).draw(); }

}  // namespace railyard::topology
