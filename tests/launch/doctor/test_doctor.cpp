// railyard doctor: each check on facts from readable text files of this folder. Adding a case is adding a file. Lines:
//   env NAME=VALUE                      gpus KIND (assigning.hpp)   devices on-node=N openable=N   mask TEXT
//   nvml PROBLEM...                     driver VERSION cuda=12.4 runtime=13.0   no uvm   no peer-memory
//   nic NAME [active|down] LAYER GBPS [rail|other]   port NIC N STATE LAYER   gid NIC INDEX ADDRESS v1|v2
//   interface NAME up|down [NETWORK...]              host-address ADDRESS
//   cpus allowed=LIST online=LIST       cores 0,4 1,5 ...
//   limit memlock|nofile|stack SOFT HARD (bytes, files, bytes, or unlimited)
//   shm BYTES   memory BYTES huge=BYTES   transparent-huge-pages WORD   numa-balancing
//   mpirun VERSION...   srun VERSION MPI...   scontrol   broken mpi|pmix|cuda REASON...   pmix-server gone
//   expect CHECK ~ TEXT        a finding of that check has TEXT in its cause or remedy
//   expect unusable CHECK      it is grave                 expect CHECK silent       expect clean
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "launch/doctor/doctor.hpp"
#include "launch/doctor/gather_network.hpp"
#include "tests/launch/bootstrap/assigning.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;

struct Case {
  DoctorFacts facts;
  std::vector<std::pair<std::string, std::vector<std::string>>> expectations;
};

std::string value(const std::vector<std::string>& words, const std::string& key) {
  for (const auto& word : words)
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  return {};
}

std::string rest_of(const std::vector<std::string>& words, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < words.size(); ++i) text += (text.empty() ? "" : " ") + words[i];
  return text;
}

int cuda_version(const std::string& text) {  // "12.4" is 12040
  return std::stoi(text) * 1000 + std::stoi(text.substr(text.find('.') + 1)) * 10;
}

RdmaPort& port_of(DoctorFacts& facts, const std::string& nic) {
  for (RdmaPort& port : facts.ports)
    if (port.nic == nic) return port;
  throw std::logic_error("no port of " + nic);
}

void read_line(DoctorFacts& facts, const std::string& what, const std::vector<std::string>& words) {
  const auto limit = [&](std::size_t at) {
    return words.at(at) == "unlimited" ? ProcessLimit::kUnlimited : std::stol(words.at(at));
  };
  if (what == "env") {
    const std::string text = rest_of(words, 0);
    facts.environment[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  } else if (what == "gpus") {
    facts.node = testing_machines::described_node("host", words.at(0));
    for (const auto& gpu : facts.node.gpus)
      facts.openable.push_back({*gpu.uuid, gpu.pci->text(), gpu.partition.has_value()});
    facts.devices.on_node = facts.devices.openable = facts.devices.count = static_cast<int>(facts.node.gpus.size());
    facts.uvm = facts.peer_memory = true;
  } else if (what == "devices") {
    facts.devices.on_node = std::stoi(value(words, "on-node"));
    facts.devices.openable = std::stoi(value(words, "openable"));
    facts.openable.resize(static_cast<std::size_t>(facts.devices.openable));
    facts.devices.count = facts.devices.openable;
  } else if (what == "mask") {
    facts.devices.masked = true;
    facts.devices.mask = rest_of(words, 0);
    facts.devices.count = static_cast<int>(shown_by_mask(facts.openable, facts.devices.mask).size());
  } else if (what == "nvml") {
    facts.nvml_problem = rest_of(words, 0);
  } else if (what == "driver") {
    facts.driver = words.at(0);
    facts.driver_cuda = cuda_version(value(words, "cuda"));
    facts.runtime_cuda = cuda_version(value(words, "runtime"));
  } else if (what == "no") {
    (words.at(0) == "uvm" ? facts.uvm : facts.peer_memory) = false;
  } else if (what == "nic") {
    topology::Nic nic;
    nic.name = words.at(0);
    nic.active = words.at(1) == "active";
    nic.link_layer = words.at(2);
    nic.rate_gbps = std::stod(words.at(3));
    nic.rdma = true;
    nic.role = words.at(4) == "rail" ? topology::NicRole::kRail : topology::NicRole::kOther;
    facts.node.nics.push_back(nic);
  } else if (what == "port") {
    facts.ports.push_back({words.at(0), std::stoi(words.at(1)), words.at(2), words.at(3), {}});
  } else if (what == "gid") {
    port_of(facts, words.at(0))
        .gids.push_back({std::stoi(words.at(1)), words.at(2), words.at(3) == "v2" ? "RoCE v2" : "IB/RoCE v1"});
  } else if (what == "interface") {
    facts.interfaces.push_back({words.at(0), words.at(1) == "up", {words.begin() + 2, words.end()}});
  } else if (what == "host-address") {
    facts.host_addresses.push_back(words.at(0));
  } else if (what == "cpus") {
    facts.allowed = topology::CpuSet::parse_list(value(words, "allowed"));
    facts.online = topology::CpuSet::parse_list(value(words, "online"));
  } else if (what == "cores") {
    facts.cores = parse_cores(rest_of(words, 0));
  } else if (what == "limit") {
    (words.at(0) == "memlock"  ? facts.memlock
     : words.at(0) == "nofile" ? facts.nofile
                               : facts.stack) = ProcessLimit{limit(1), limit(2)};
  } else if (what == "shm") {
    facts.shm_bytes = std::stol(words.at(0));
  } else if (what == "memory") {
    facts.memory_bytes = std::stol(words.at(0));
    facts.reserved_huge_bytes = std::stol(value(words, "huge"));
  } else if (what == "transparent-huge-pages") {
    facts.transparent_huge_pages = words.at(0);
  } else if (what == "numa-balancing") {
    facts.numa_balancing = true;
  } else if (what == "mpirun") {
    facts.mpirun = rest_of(words, 0);
  } else if (what == "srun") {
    facts.srun = true;
    facts.srun_version = words.at(0) == "silent" ? "" : "slurm-wlm " + words.at(0);
    facts.srun_mpi = "MPI plugin types are...\n" + rest_of(words, 1);
  } else if (what == "scontrol") {
    facts.scontrol = true;
  } else if (what == "broken") {
    (words.at(0) == "mpi"    ? facts.mpi_part_problem
     : words.at(0) == "pmix" ? facts.pmix_part_problem
                             : facts.cuda_part_problem) = rest_of(words, 1);
  } else if (what == "pmix-server") {
    facts.pmix_server_there = words.at(0) != "gone";
  } else {
    ADD_FAILURE() << "no fact " << what;
  }
}

Case read_case(const fs::path& path) {
  Case read;
  read.facts.host = "host";
  std::ifstream in(path);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    const std::string what = words[0];
    words.erase(words.begin());
    if (what == "expect")
      read.expectations.emplace_back(fmt::format("{}:{}", path.filename().string(), number), words);
    else
      read_line(read.facts, what, words);
  }
  EXPECT_FALSE(read.expectations.empty()) << path;
  return read;
}

class DoctorCase : public testing::TestWithParam<fs::path> {};

TEST_P(DoctorCase, Holds) {
  const Case read = read_case(GetParam());
  const Findings findings = examine(read.facts);
  const std::string all = findings_to_json(read.facts, findings).at("findings").dump(1);
  for (const auto& [where, words] : read.expectations) {
    if (words[0] == "clean") {
      EXPECT_TRUE(findings.empty()) << where << all;
      continue;
    }
    const bool grave = words[0] == "unusable";
    const std::string check = words[grave ? 1 : 0];
    const bool is_check = std::any_of(doctor_checks().begin(), doctor_checks().end(),
                                      [&](const DoctorCheck& one) { return one.name == check; });
    EXPECT_TRUE(is_check) << where << ": no check " << check;
    bool found = false;
    for (const Finding& finding : findings) {
      if (finding.check != check) continue;
      const std::string text = finding.cause + "; " + finding.remedy;
      EXPECT_EQ(text.find('\n'), std::string::npos) << where << ": one line a finding";
      if (words.back() == "silent" || grave || text.find(rest_of(words, 2)) != std::string::npos)
        found = found || !grave || finding.severity == Finding::Severity::kUnusable;
    }
    EXPECT_EQ(found, words.back() != "silent") << where << all;
  }
}

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "tests/launch/doctor"))
    if (entry.path().extension() == ".txt") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(Files, DoctorCase, testing::ValuesIn(cases()), [](const auto& param) {
  std::string name = param.param.stem();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(Doctor, EveryCheckHasACaseThatItFinds) {
  std::set<std::string> found;
  for (const auto& path : cases())
    for (const Finding& finding : examine(read_case(path).facts)) found.insert(finding.check);
  for (const DoctorCheck& check : doctor_checks()) EXPECT_TRUE(found.contains(std::string(check.name))) << check.name;
}

TEST(Doctor, ReadsRdmaPortsAndTheirAddresses) {
  const TemporaryFolder folder;
  const fs::path port = folder.path() / "class/infiniband/mlx5_0/ports/1";
  fs::create_directories(port / "gids");
  fs::create_directories(port / "gid_attrs/types");
  std::ofstream(port / "state") << "4: ACTIVE\n";
  std::ofstream(port / "link_layer") << "Ethernet\n";
  std::ofstream(port / "gids/0") << "fe80:0000:0000:0000:0000:0000:0000:0001\n";
  std::ofstream(port / "gids/1") << "0000:0000:0000:0000:0000:0000:0000:0000\n";
  std::ofstream(port / "gids/3") << "0000:0000:0000:0000:0000:ffff:0a00:0001\n";
  std::ofstream(port / "gid_attrs/types/3") << "RoCE v2\n";
  const auto ports = read_rdma_ports(folder.path());
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].nic, "mlx5_0");
  EXPECT_EQ(ports[0].state, "ACTIVE");
  ASSERT_EQ(ports[0].gids.size(), 2U);
  EXPECT_EQ(ports[0].gids[1].index, 3);
  EXPECT_EQ(ports[0].gids[1].type, "RoCE v2");
}

TEST(Doctor, LooksAtThisMachine) {
  const DoctorFacts facts = gather_doctor_facts();
  EXPECT_FALSE(facts.host.empty());
  ASSERT_TRUE(facts.allowed);
  EXPECT_FALSE(facts.allowed->empty());
  EXPECT_TRUE(facts.memlock && facts.nofile && facts.stack && facts.memory_bytes);
  (void)examine(facts);
}

}  // namespace
}  // namespace railyard::launch
