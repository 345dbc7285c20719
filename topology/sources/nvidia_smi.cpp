// `nvidia-smi topo -m` text: tab-separated as printed, space-padded as pasted, with or without colour codes, with NIC
// columns by number or by name. A matrix row is read as exactly one cell per device column, and its X must stand in its
// own column: a lost separator is found, repaired where the symmetric cell confirms it, and columns never shift.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "runtime/base/error.hpp"
#include "topology/sources/pci_tree.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

enum class CellKind { kSelf, kLinks, kPath, kUnknown, kGarbled };

struct Cell {
  CellKind kind = CellKind::kGarbled;
  int links = 0;
  PathClass path = PathClass::kSys;
  friend bool operator==(const Cell&, const Cell&) = default;
};

struct TailColumn {
  std::string name;
  std::size_t begin;
};

struct Row {
  int line;
  std::vector<Cell> cells;
  bool repaired = false;
  std::string cpus, numa;  // as printed; empty: no cell
  bool has_tail = false;
};

struct Matrix {
  int line = 0;
  std::vector<std::string> devices;
  std::vector<TailColumn> tail;
  std::map<std::string, Row> rows;
  std::map<std::string, std::string> nic_names;  // NIC0 -> mlx5_0
  bool legend = false, legend_links = false;
};

bool is_gpu_name(std::string_view name) {
  return name.starts_with("GPU") && parse_number<int>(name.substr(3)).has_value();
}

bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// The path word at the beginning of `text`, and its length; length 0 when there is none.
std::pair<Cell, std::size_t> path_word(std::string_view text) {
  if (text.starts_with("NV") && text.size() > 2 && std::isdigit(static_cast<unsigned char>(text[2])) != 0) {
    std::size_t end = 2;
    while (end < text.size() && end < 5 && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    return {{CellKind::kLinks, *parse_number<int>(text.substr(2, end - 2))}, end};
  }
  if (text.starts_with("N/A")) return {{CellKind::kUnknown}, 3};
  for (const std::string_view word : {"NODE", "PIX", "PXB", "PHB", "SYS", "SOC"})
    if (text.starts_with(word)) return {{CellKind::kPath, 0, *parse_path(word)}, word.size()};
  if (text.starts_with("X")) return {{CellKind::kSelf}, 1};
  return {{}, 0};
}

// A header names device columns and then, perhaps, affinity columns; rows have path words instead.
bool is_header(std::string_view line) {
  const auto words = split_words(line);
  if (words.empty() || !is_gpu_name(words[0])) return false;
  if (words.size() == 1) return true;
  return path_word(words[1]).second == 0 && words[1] != "X";
}

Matrix read_header(std::string_view line, int number, const std::string& name) {
  Matrix matrix;
  matrix.line = number;
  std::size_t tail_begin = line.size();
  for (const std::string_view column : {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"}) {
    const auto at = line.find(column);
    if (at == std::string_view::npos) continue;
    matrix.tail.push_back({std::string(column), at});
    tail_begin = std::min(tail_begin, at);
  }
  for (const auto word : split_words(line.substr(0, tail_begin))) {
    if (std::find(matrix.devices.begin(), matrix.devices.end(), word) != matrix.devices.end())
      throw UsageError("{}:{}: column {} appears twice in the header", name, number, word);
    matrix.devices.emplace_back(word);
  }
  if (matrix.devices.size() > kMostDevices)
    throw UsageError("{}:{}: {} columns are beyond any node", name, number, matrix.devices.size());
  return matrix;
}

// What follows the device cells, given to the header's affinity columns: by field where tabs separate, else by
// position.
void read_tail(const Matrix& matrix, std::string_view line, std::size_t begin, Row& row) {
  std::map<std::string, std::string> cells;
  auto rest = line.substr(begin);
  if (rest.find('\t') != std::string_view::npos) {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    if (rest.starts_with('\t')) rest.remove_prefix(1);
    const auto fields = split_at(rest, '\t');
    for (std::size_t i = 0; i < fields.size() && i < std::min<std::size_t>(matrix.tail.size(), 2); ++i)
      cells[matrix.tail[i].name] = trimmed(fields[i]);
  } else {
    std::vector<std::pair<std::size_t, std::string_view>> words;
    for (const auto word : split_words(rest))
      words.emplace_back(static_cast<std::size_t>(word.data() - line.data()), word);
    for (std::size_t w = 0; w < words.size(); ++w) {
      std::size_t column = w;
      if (words.size() != matrix.tail.size()) {
        const auto distance = [&](std::size_t c) {
          const auto a = matrix.tail[c].begin, b = words[w].first;
          return a > b ? a - b : b - a;
        };
        column = 0;
        for (std::size_t c = 1; c < matrix.tail.size(); ++c)
          if (distance(c) < distance(column)) column = c;
      }
      if (column < matrix.tail.size()) cells[matrix.tail[column].name] = words[w].second;
    }
  }
  row.has_tail = !matrix.tail.empty();
  row.cpus = cells["CPU Affinity"];
  row.numa = cells["NUMA Affinity"];
}

Row read_row(const Matrix& matrix, std::string_view line, std::size_t begin, int number, const std::string& name,
             std::string_view device) {
  Row row;
  row.line = number;
  std::size_t at = begin;
  bool separated = true;
  while (row.cells.size() < matrix.devices.size()) {
    std::size_t tabs = 0;
    while (at < line.size() && blank(line[at])) tabs += line[at++] == '\t' ? 1U : 0U;
    if (at == line.size()) break;
    // An empty cell between two tabs is a cell that was lost.
    for (; tabs > 1 && row.cells.size() < matrix.devices.size(); --tabs) {
      row.cells.emplace_back();
      row.repaired = true;
    }
    if (row.cells.size() == matrix.devices.size()) break;
    const auto [cell, length] = path_word(line.substr(at));
    separated = at > 0 && blank(line[at - 1]);
    if (length == 0) {
      auto end = at;
      while (end < line.size() && !blank(line[end])) ++end;
      if (line.substr(at, end - at).find_first_not_of("0123456789,-") == std::string_view::npos)
        break;  // an affinity: the row is short
      row.cells.emplace_back();
      row.repaired = true;
      at = end;
      continue;
    }
    // "PIXNODE", or " X NODE" in a line of tabs: two cells whose separator was lost.
    if (!separated || (line.find('\t') != std::string_view::npos && tabs == 0)) row.repaired = true;
    row.cells.push_back(cell);
    at += length;
  }
  const auto own = static_cast<std::size_t>(std::find(matrix.devices.begin(), matrix.devices.end(), device) -
                                            matrix.devices.begin());
  if (row.cells.size() != matrix.devices.size())
    throw UsageError("{}:{}: row {} has {} cells for {} devices; paste the row again", name, number, device,
                     row.cells.size(), matrix.devices.size());
  for (std::size_t i = 0; i < row.cells.size(); ++i)
    if ((row.cells[i].kind == CellKind::kSelf) != (i == own))
      throw UsageError(
          "{}:{}: row {} does not have its X in its own column: cells were lost or shifted; paste the row again", name,
          number, device);
  read_tail(matrix, line, at, row);
  return row;
}

// Replaces garbled cells of a repaired row by the symmetric ones and makes sure that the rest agrees with them.
void repair(Matrix& matrix, const std::string& name, std::vector<std::string>& warnings) {
  for (std::size_t a = 0; a < matrix.devices.size(); ++a) {
    const auto row = matrix.rows.find(matrix.devices[a]);
    if (row == matrix.rows.end()) continue;
    for (std::size_t b = 0; b < matrix.devices.size(); ++b) {
      const auto other = matrix.rows.find(matrix.devices[b]);
      Cell& cell = row->second.cells[b];
      const Cell* mirror = other == matrix.rows.end() ? nullptr : &other->second.cells[a];
      const bool mirror_good = mirror != nullptr && mirror->kind != CellKind::kGarbled;
      if (cell.kind == CellKind::kGarbled) {
        if (!mirror_good)
          throw UsageError("{}:{}: row {}, column {} is unreadable, and so is the symmetric cell", name,
                           row->second.line, matrix.devices[a], matrix.devices[b]);
        cell = *mirror;
      } else if (mirror_good && !(cell == *mirror)) {
        if (row->second.repaired || other->second.repaired)
          throw UsageError("{}:{}: row {}, column {} contradicts the symmetric cell in line {}", name, row->second.line,
                           matrix.devices[a], matrix.devices[b], other->second.line);
        if (a < b)
          warnings.push_back(fmt::format("{}:{}: row {}, column {} differs from the symmetric cell in line {}", name,
                                         row->second.line, matrix.devices[a], matrix.devices[b], other->second.line));
      }
    }
    if (row->second.repaired)
      warnings.push_back(
          fmt::format("{}:{}: row {} lost a separator or a cell; repaired, and confirmed by the symmetric cells", name,
                      row->second.line, matrix.devices[a]));
  }
}

Node finish(Matrix& matrix, const std::string& name) {
  Node node;
  node.source = "nvidia-smi: " + name;
  repair(matrix, name, node.warnings);
  std::vector<std::size_t> columns;  // of the node's devices: GPUs, then NICs
  for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
    const auto& device = matrix.devices[i];
    if (!is_gpu_name(device)) continue;
    Gpu gpu;
    gpu.index = *parse_number<int>(std::string_view(device).substr(3));
    if (const auto row = matrix.rows.find(device); row != matrix.rows.end() && row->second.has_tail) {
      const Row& found = row->second;
      if (found.cpus != "N/A") {
        gpu.cpus = CpuSet::parse_list(found.cpus);
        if (!gpu.cpus)
          throw UsageError("{}:{}: row {}: CPU affinity \"{}\" is not a CPU list", name, found.line, device,
                           found.cpus);
        if (found.cpus.empty())
          node.notes.push_back(fmt::format("{} has no near CPU among those this process may use", device));
      }
      // "0,5-11" is the CPUs' node followed by nodes of GPU memory.
      if (const auto numa = CpuSet::parse_list(found.numa); numa && !numa->empty()) gpu.numa = numa->members()[0];
    }
    node.gpus.push_back(std::move(gpu));
    columns.push_back(i);
  }
  for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
    if (is_gpu_name(matrix.devices[i])) continue;
    Nic nic;
    const auto named = matrix.nic_names.find(matrix.devices[i]);
    nic.name = named == matrix.nic_names.end() ? matrix.devices[i] : named->second;
    nic.rdma = true;  // nvidia-smi lists RDMA devices only
    node.nics.push_back(std::move(nic));
    columns.push_back(i);
  }
  const bool links_told =
      matrix.legend_links || std::any_of(matrix.rows.begin(), matrix.rows.end(), [](const auto& row) {
        return std::any_of(row.second.cells.begin(), row.second.cells.end(),
                           [](const Cell& cell) { return cell.kind == CellKind::kLinks; });
      });
  if (!links_told)
    node.notes.emplace_back("the matrix tells no NVLink (a -mp matrix, or its legend is missing): NVLink is unknown");
  node.paths = PathTable(static_cast<int>(columns.size()));
  for (std::size_t a = 0; a < columns.size(); ++a) {
    const auto row = matrix.rows.find(matrix.devices[columns[a]]);
    const auto gpus = node.gpus.size();
    if (a < gpus && links_told && row != matrix.rows.end()) node.gpus[a].nvlink.emplace();
    if (row == matrix.rows.end()) {
      node.warnings.push_back(
          fmt::format("{}:{}: the row of {} is missing", name, matrix.line, matrix.devices[columns[a]]));
      continue;
    }
    for (std::size_t b = 0; b < columns.size(); ++b) {
      const Cell& cell = row->second.cells[columns[b]];
      if (cell.kind == CellKind::kPath) node.paths.set(static_cast<int>(a), static_cast<int>(b), cell.path);
      if (cell.kind == CellKind::kLinks && a < gpus && b < gpus)
        (*node.gpus[a].nvlink)[node.gpus[b].index] = cell.links;
    }
  }
  std::sort(node.gpus.begin(), node.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
  normalise_links(node);
  return node;
}

}  // namespace

Machine read_nvidia_smi(std::string_view raw, const std::string& name) {
  const std::string text = without_ansi(raw);
  std::vector<Matrix> matrices;
  int number = 0;
  for (const auto line : split_lines(text)) {
    ++number;
    const auto content = trimmed(line);
    if (is_header(line)) {
      matrices.push_back(read_header(line, number, name));
      continue;
    }
    if (matrices.empty() || content.empty()) continue;
    Matrix& matrix = matrices.back();
    const auto word = split_words(content)[0];
    if (word == "NV#") matrix.legend_links = true;
    if (same_word(content, "Legend:")) matrix.legend = true;
    // "NIC0: mlx5_0" of the NIC legend.
    if (word.ends_with(":") && word.starts_with("NIC"))
      matrix.nic_names[std::string(word.substr(0, word.size() - 1))] = trimmed(content.substr(word.size()));
    if (matrix.legend || std::find(matrix.devices.begin(), matrix.devices.end(), word) == matrix.devices.end())
      continue;
    const auto begin = static_cast<std::size_t>(word.data() - line.data()) + word.size();
    if (!matrix.rows.emplace(std::string(word), read_row(matrix, line, begin, number, name, word)).second)
      throw UsageError("{}:{}: row {} appears twice", name, number, word);
  }
  Machine machine;
  for (Matrix& matrix : matrices) {
    const bool any_gpu_row =
        std::any_of(matrix.rows.begin(), matrix.rows.end(), [](const auto& row) { return is_gpu_name(row.first); });
    if (!any_gpu_row) throw UsageError("{}:{}: a header of nvidia-smi topo -m without rows", name, matrix.line);
    for (const auto& column : matrix.devices)
      if (is_gpu_name(column) && !matrix.rows.contains(column))
        throw UsageError("{}:{}: the row of {} is missing; paste the whole matrix", name, matrix.line, column);
    machine.nodes.push_back(finish(matrix, name));
  }
  if (machine.nodes.empty()) throw UsageError("{}:1: no matrix of nvidia-smi topo -m", name);
  return machine;
}

}  // namespace railyard::topology
