// The parts that parsers and users rely on: addresses, sets, host lists, rails, merging, odd nodes, sysfs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.hpp"
#include "topology/compare.hpp"
#include "topology/hostlist.hpp"
#include "topology/json.hpp"
#include "topology/merge.hpp"
#include "topology/rails.hpp"
#include "topology/render/render.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/sysfs.hpp"

namespace railyard::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A node of `gpus` GPUs, each with its own rail NIC behind one switch, all joined by NVLink.
Node usual_node(int gpus) {
  Node node;
  node.source = "test";
  for (int g = 0; g < gpus; ++g) {
    Gpu gpu;
    gpu.index = g;
    gpu.pci = PciAddress{0, static_cast<std::uint32_t>(16 * g + 1), 0, 0};
    gpu.nvlink.emplace();
    for (int peer = 0; peer < gpus; ++peer)
      if (peer != g) (*gpu.nvlink)[peer] = 18;
    node.gpus.push_back(std::move(gpu));
    Nic nic;
    nic.name = "mlx5_" + std::to_string(g);
    nic.pci = PciAddress{0, static_cast<std::uint32_t>(16 * g + 2), 0, 0};
    nic.active = true;
    node.nics.push_back(std::move(nic));
  }
  node.paths = PathTable(2 * gpus);
  for (int g = 0; g < gpus; ++g)
    for (int n = 0; n < gpus; ++n) node.paths.set(g, gpus + n, g == n ? PathClass::kPix : PathClass::kNode);
  return node;
}

TEST(PciAddress, ReadsEveryForm) {
  EXPECT_EQ(PciAddress::parse("0000:34:00.0")->text(), "0000:34:00.0");
  EXPECT_EQ(PciAddress::parse("00000001:0A:1f.7")->text(), "0001:0a:1f.7");
  EXPECT_EQ(PciAddress::parse("3b:00.0")->text(), "0000:3b:00.0");
  EXPECT_EQ(PciAddress::from_packed(0x68000).text(), "0000:68:00.0");
  for (const char* bad :
       {"", ":", "0000:34:00", "0000:34:00.00", "x:34:00.0", "0000:134:00.0", "1:2:3:4:5.0", ".0", ":.1"})
    EXPECT_FALSE(PciAddress::parse(bad)) << bad;
}

TEST(CpuSet, ReadsListsAndMasks) {
  EXPECT_EQ(CpuSet::parse_list("0-3,8,10-11")->list(), "0-3,8,10-11");
  EXPECT_TRUE(CpuSet::parse_list("")->empty());
  EXPECT_EQ(CpuSet::parse_mask("0x00000303,0x03030000,,0x03030303")->list(),
            "0-1,8-9,16-17,24-25,80-81,88-89,96-97,104-105");
  EXPECT_EQ(CpuSet::parse_mask("000000ff,ffff0000,00ffffff")->list(), "0-23,48-71");
  for (const char* bad : {"3-1", "a", "1,", "-", "1-", "70000", "0-99999999999"})
    EXPECT_FALSE(CpuSet::parse_list(bad)) << bad;
  for (const char* bad : {"0xf...f", "zz", "123456789"}) EXPECT_FALSE(CpuSet::parse_mask(bad)) << bad;
  const auto a = *CpuSet::parse_list("0-70"), b = *CpuSet::parse_list("64-80");
  EXPECT_EQ((a & b).list(), "64-70");
  EXPECT_EQ((a | b).count(), 81);
}

TEST(Hostlist, ExpandsAndFolds) {
  EXPECT_THAT(expand_hostlist("n[08-10],login,r[1-2]c[1,3]x", "t"),
              ElementsAre("n08", "n09", "n10", "login", "r1c1x", "r1c3x", "r2c1x", "r2c3x"));
  EXPECT_EQ(fold_hostlist({"n08", "n09", "n10", "login"}), "n[08-10],login");
  EXPECT_EQ(fold_hostlist({"node1", "node12", "node2"}), "node[1-2,12]");
  for (const char* bad : {"n[1", "n1]", "n[1-]", "n[3-1]", "n[a]", "n[[1]]", "n[]", "n[0-4000000000]",
                          "n[0-9999][0-9999]", "n[18446744073709551615-18446744073709551615]x[0-18446744073709551615]"})
    EXPECT_THROW(expand_hostlist(bad, "t"), UsageError) << bad;
}

TEST(Hostlist, OrdersAsPeopleCount) {
  EXPECT_TRUE(natural_less("node7", "node66"));
  EXPECT_TRUE(natural_less("node07", "node66"));
  EXPECT_FALSE(natural_less("node66", "node7"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_FALSE(natural_less("n1", "n1"));
}

TEST(Rails, GiveEachGpuItsOwnNic) {
  Node node = usual_node(8);
  assign_rails(node);
  for (int g = 0; g < 8; ++g) {
    EXPECT_EQ(node.gpus[g].nic, "mlx5_" + std::to_string(g));
    EXPECT_EQ(node.gpus[g].rail, g);
  }
  EXPECT_TRUE(node.warnings.empty());
}

TEST(Rails, AreNumberedInPciOrderNotByName) {
  Node node = usual_node(2);
  std::swap(node.nics[0].name, node.nics[1].name);
  assign_rails(node);
  EXPECT_EQ(node.gpus[0].nic, "mlx5_1");
  EXPECT_EQ(node.gpus[0].rail, 0);
}

TEST(Rails, AMissingNicIsAFinding) {
  Node node = usual_node(8);
  node.nics.pop_back();
  PathTable paths(15);
  for (int g = 0; g < 8; ++g)
    for (int n = 0; n < 7; ++n) paths.set(g, 8 + n, g == n ? PathClass::kPix : PathClass::kNode);
  node.paths = paths;
  assign_rails(node);
  EXPECT_EQ(node.gpus[7].path, PathClass::kNode);
  ASSERT_EQ(node.warnings.size(), 1U);
  EXPECT_THAT(node.warnings[0], HasSubstr("while the others have one each"));
}

TEST(Rails, PreferInfinibandWhereNoSwitchIsShared) {
  Node node = usual_node(2);
  for (int g = 0; g < 2; ++g)
    for (int n = 0; n < 2; ++n) node.paths.set(g, 2 + n, PathClass::kNode);
  node.nics[0].link_layer = "Ethernet";
  node.nics[1].link_layer = "InfiniBand";
  assign_rails(node);
  EXPECT_EQ(node.nics[0].role, NicRole::kOther);
  EXPECT_EQ(node.gpus[0].nic, "mlx5_1");
  EXPECT_EQ(node.gpus[0].rail, 0);
}

TEST(Rails, StayUnknownWhereEveryPathIsSys) {
  Node node = usual_node(2);
  for (int g = 0; g < 2; ++g)
    for (int n = 0; n < 2; ++n) node.paths.set(g, 2 + n, PathClass::kSys);
  assign_rails(node);
  EXPECT_FALSE(node.gpus[0].near_nics);
  EXPECT_FALSE(node.nics[0].role);
}

TEST(Merge, FillsWhatIsUnknownAndSaysWhatDiffers) {
  Node first = usual_node(4), second = usual_node(4);
  first.gpus[1].nvlink.reset();
  for (auto& gpu : first.gpus) gpu.numa = 0;
  second.source = "other";
  second.gpus[2].numa = 1;
  second.gpus[3].name = "NVIDIA H100";
  (*second.gpus[0].nvlink)[3] = 12;
  (*second.gpus[3].nvlink)[0] = 12;
  merge_node(first, second);
  EXPECT_EQ((*first.gpus[1].nvlink)[0], 18);
  EXPECT_EQ(first.gpus[2].numa, 0);
  EXPECT_EQ(first.gpus[3].name, "NVIDIA H100");
  EXPECT_EQ((*first.gpus[0].nvlink)[3], 18);
  ASSERT_EQ(first.warnings.size(), 2U) << testing::PrintToString(first.warnings);
  EXPECT_THAT(first.warnings[0], HasSubstr("GPU2 NUMA node: 0 by test, but 1 by other"));
  EXPECT_THAT(first.warnings[1], HasSubstr("NVLink of GPU0 and GPU3"));
}

TEST(Merge, KeepsDifferentMachinesApart) {
  Machine a, b;
  a.nodes.push_back(usual_node(4));
  b.nodes.push_back(usual_node(8));
  a.nodes[0].name = "n1";
  b.nodes[0].name = "n2";
  EXPECT_EQ(merge_machines({a, b}).nodes.size(), 2U);
  b.nodes[0].name = "n1";
  EXPECT_EQ(merge_machines({a, b}).nodes.size(), 1U);
}

TEST(Merge, HandWrittenFilesYield) {
  Machine gres, live;
  gres.nodes.push_back(usual_node(2));
  gres.nodes[0].source = "gres.conf: x";
  for (auto& gpu : gres.nodes[0].gpus) gpu.nvlink->clear();
  live.nodes.push_back(usual_node(2));
  const auto merged = merge_machines({gres, live});
  EXPECT_EQ(merged.nodes[0].gpus[0].nvlink->at(1), 18);
  EXPECT_FALSE(merged.nodes[0].warnings.empty());
}

TEST(Compare, MarksTheOddNode) {
  Machine machine;
  for (int n = 0; n < 5; ++n) {
    machine.nodes.push_back(usual_node(8));
    machine.nodes.back().name = "n" + std::to_string(n);
  }
  machine.nodes[1].nics[6].active = false;
  machine.nodes[2].gpus.pop_back();
  std::swap(machine.nodes[4].gpus[0].pci, machine.nodes[4].gpus[1].pci);
  for (auto& node : machine.nodes) assign_rails(node);
  const auto groups = group_alike(machine.nodes);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_THAT(groups[0].nodes, ElementsAre(0, 3));
  EXPECT_THAT(groups[1].differences[0], HasSubstr("7 of 8 NICs are up: mlx5_6 missing or down, the rail of GPU 6"));
  EXPECT_THAT(groups[2].differences[0], HasSubstr("7 GPUs instead of 8"));
  EXPECT_THAT(groups[3].differences[0], HasSubstr("another PCI order"));
  EXPECT_THAT(render_text(machine, false), HasSubstr("[odd]"));
}

TEST(Domains, TellCliquesFromMeshes) {
  Node node = usual_node(4);
  node.gpus[0].nvlink->erase(3);
  node.gpus[3].nvlink->erase(0);
  EXPECT_EQ(nvlink_domains(node)->size(), 1U);
  EXPECT_FALSE(is_clique(node, {0, 1, 2, 3}));
  EXPECT_TRUE(is_clique(node, {0, 1, 2}));
}

TEST(Fabric, SyntheticTreesHaveTheirShape) {
  const auto tree = make_fat_tree({.nodes = 100, .nodes_per_leaf = 8, .leaves_per_spine = 4, .round_robin = true});
  EXPECT_EQ(tree.find_switch("core")->level, 2);
  const auto paths = switch_paths(tree);
  EXPECT_EQ(paths.size(), 100U);
  EXPECT_NE(paths.at("node1")[0], paths.at("node2")[0]);
  EXPECT_EQ(paths.at("node1").size(), 3U);
  EXPECT_EQ(make_nvlink_racks(4).blocks[3].nodes.size(), 18U);
}

TEST(Sysfs, ReadsPortsAndLocality) {
  namespace fs = std::filesystem;
  const auto root = fs::temp_directory_path() / ("railyard-sysfs-" + std::to_string(getpid()));
  const auto device = root / "devices/pci0000:00/0000:15:00.0";
  fs::create_directories(device);
  fs::create_directories(root / "class/infiniband/mlx5_0/ports/1");
  fs::create_directory_symlink(device, root / "class/infiniband/mlx5_0/device");
  const auto put = [](const fs::path& path, const char* text) { std::ofstream(path) << text; };
  put(device / "numa_node", "1\n");
  put(root / "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  put(root / "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  put(root / "class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  fs::create_directories(root / "bus/pci/devices/0000:01:00.0");
  put(root / "bus/pci/devices/0000:01:00.0/numa_node", "1\n");
  put(root / "bus/pci/devices/0000:01:00.0/local_cpulist", "4-7\n");
  Node node;
  node.gpus.push_back({.index = 0, .pci = PciAddress::parse("0000:01:00.0")});
  node.paths = PathTable(1);
  add_sysfs_facts(node, root);
  fs::remove_all(root);
  ASSERT_EQ(node.nics.size(), 1U);
  EXPECT_EQ(node.nics[0].pci->text(), "0000:15:00.0");
  EXPECT_EQ(node.nics[0].rate_gbps, 400);
  EXPECT_EQ(node.nics[0].active, true);
  EXPECT_EQ(node.gpus[0].cpus->list(), "4-7");
  EXPECT_EQ(node.nic_path(0, 0), PathClass::kNode);
}

TEST(LiveNode, IsReadWithoutAGpuToo) {
  const Node node = read_live_node();
  EXPECT_TRUE(node.name.has_value());
  for (const auto& gpu : node.gpus) EXPECT_TRUE(gpu.pci.has_value());
}

TEST(Json, RefusesWhatItCannotBe) {
  for (const char* bad :
       {"[]", "{}", R"({"schema":2})", R"({"schema":1,"nodes":3})", R"({"schema":1,"nodes":[{"gpus":[{"index":-5}]}]})",
        R"({"schema":1,"nodes":[{"gpus":[{"index":0},{"index":0}]}]})",
        R"({"schema":1,"fabric":{"switches":[{"nodes":[1]}]}})"})
    EXPECT_THROW((void)machine_from_json(parse_json(bad, "t"), "t"), UsageError) << bad;
}

}  // namespace
}  // namespace railyard::topology
