// The table of GPUs. Sources: NVIDIA's data sheets and architecture papers of each card; memory as nvidia-smi shows it;
// PCIe as device-to-host copies reach it on 4.0 and 5.0.
#include "launch/plan/gpu_spec.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <vector>

namespace railyard::launch {
namespace {

struct Row {
  std::vector<std::string_view> words;  // all of them are in the name
  GpuSpec spec;
};

// More special rows first.
const std::vector<Row>& rows() {
  static const std::vector<Row> table{
      {{"gb200"},
       {"GB200-186GB", 185.0, 2500, 5000, 80, 8000, 148, 18, 900, 100, "NVIDIA GB200 NVL72 data sheet, per GPU"}},
      {{"b200"}, {"B200-180GB", 179.0, 2250, 4500, 75, 7700, 148, 18, 900, 55, "NVIDIA HGX B200 data sheet, per GPU"}},
      {{"gh200"},
       {"GH200-96GB", 95.6, 989.5, 1979, 66.9, 4000, 132, 0, 0, 100, "NVIDIA GH200 data sheet (96 GB HBM3)"}},
      {{"h200", "nvl"}, {"H200-NVL", 140.4, 835, 1671, 60, 4800, 132, 18, 450, 55, "NVIDIA H200 NVL data sheet"}},
      {{"h200"}, {"H200-SXM5-141GB", 140.4, 989.5, 1979, 66.9, 4800, 132, 18, 450, 55, "NVIDIA H200 SXM data sheet"}},
      {{"h100", "pcie"}, {"H100-PCIe-80GB", 79.6, 756, 1513, 51.2, 2000, 114, 0, 0, 55, "NVIDIA H100 PCIe data sheet"}},
      {{"h100", "nvl"}, {"H100-NVL", 93.6, 835, 1671, 60, 3900, 132, 12, 300, 55, "NVIDIA H100 NVL data sheet"}},
      {{"h100"}, {"H100-SXM5-80GB", 79.6, 989.5, 1979, 66.9, 3350, 132, 18, 450, 55, "NVIDIA H100 SXM data sheet"}},
      {{"h800"}, {"H800-SXM5-80GB", 79.6, 989.5, 1979, 66.9, 3350, 132, 8, 200, 55, "NVIDIA H100 SXM, 8 links"}},
      {{"a100", "pcie", "80gb"},
       {"A100-PCIe-80GB", 79.3, 312, 0, 19.5, 1935, 108, 0, 0, 25, "NVIDIA A100 80GB PCIe data sheet"}},
      {{"a100", "pcie"},
       {"A100-PCIe-40GB", 39.6, 312, 0, 19.5, 1555, 108, 0, 0, 25, "NVIDIA A100 40GB PCIe data sheet"}},
      {{"a100", "40gb"},
       {"A100-SXM4-40GB", 39.6, 312, 0, 19.5, 1555, 108, 12, 300, 25, "NVIDIA A100 40GB SXM data sheet"}},
      {{"a100"}, {"A100-SXM4-80GB", 79.3, 312, 0, 19.5, 2039, 108, 12, 300, 25, "NVIDIA A100 80GB SXM data sheet"}},
      {{"l40s"}, {"L40S-48GB", 45.0, 362, 733, 91.6, 864, 142, 0, 0, 25, "NVIDIA L40S data sheet"}},
  };
  return table;
}

// "NVIDIA A100-SXM4-80GB" -> nvidia, a100, sxm4, 80gb
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0)
      words.back() += static_cast<char>(std::tolower(letter));
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

}  // namespace

std::optional<GpuSpec> find_gpu(std::string_view name) {
  const auto words = words_of(name);
  for (const Row& row : rows())
    if (std::all_of(row.words.begin(), row.words.end(),
                    [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); }))
      return row.spec;
  return std::nullopt;
}

}  // namespace railyard::launch
