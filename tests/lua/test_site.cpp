// Site files: values, partitions, hooks, search order, findings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lua/host/embedded.hpp"
#include "lua/site.hpp"
#include "runtime/base/error.hpp"
#include "tests/lua/temporary_files.hpp"

namespace railyard::lua {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SiteFile site(const std::string& body) {
  return SiteFile::load_text("return site {\n  name = \"s\",\n" + body + "\n}\n", "site.lua");
}

std::string refusal(const std::string& body) {
  try {
    (void)site(body);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Site, resolves_values_and_keeps_the_unknown_unknown) {
  const SiteFile s = site(
      "  node = { gpus = 8, memory = \"2 TiB\" },\n  fabric = { kind = \"ib\", nic_exclude = { \"mlx5_4\" } },\n  "
      "setenv = { NCCL_IB_GID_INDEX = 3 },");
  EXPECT_EQ(s.resolved()["node"]["gpus"], 8);
  EXPECT_EQ(s.resolved()["node"]["memory"], 2.0 * 1024 * 1024 * 1024 * 1024);
  EXPECT_TRUE(s.resolved()["node"]["gpu"].is_null());
  EXPECT_EQ(s.resolved()["slurm"]["mpi"], "pmix");
  EXPECT_EQ(s.resolved()["setenv"]["NCCL_IB_GID_INDEX"], "3");
  EXPECT_EQ(s.resolved()["fabric"]["nic_exclude"], Json::array({"mlx5_4"}));
}

TEST(Site, lays_partitions_over_the_site) {
  const SiteFile s = site(
      "  node = { gpus = 8, gpu = \"H100\" },\n  partitions = { debug = { node = { gpus = 4 }, slurm = { account = "
      "\"x\" } } },");
  EXPECT_EQ(s.for_partition("debug")["node"]["gpus"], 4);
  EXPECT_EQ(s.for_partition("debug")["node"]["gpu"], "H100");
  EXPECT_EQ(s.for_partition("debug")["slurm"]["account"], "x");
  EXPECT_EQ(s.for_partition("debug")["name"], "s");
  EXPECT_EQ(s.for_partition("other")["node"]["gpus"], 8);
}

TEST(Site, names_what_is_wrong) {
  EXPECT_EQ(refusal("  fabrik = {}"), "site.lua:3: fabrik: unknown key; did you mean fabric?");
  EXPECT_EQ(refusal("  fabric = { kind = \"infiniband\" }"),
            "site.lua:3: fabric.kind: must be \"ib\", \"roce\", \"efa\", \"slingshot\" or \"tcp\", got \"infiniband\"");
  EXPECT_EQ(refusal("  partitions = { a = {\n    node = { gpus = -1 } } }"),
            "site.lua:4: partitions.a.node.gpus: must be between 0 and 1024, got -1");
  EXPECT_EQ(refusal("  partitions = { a = { nodes = {} } }"),
            "site.lua:3: partitions.a.nodes: unknown key; did you mean node?");
  EXPECT_THAT(refusal("  partitions = { a = { match = {} } }"), HasSubstr("partitions.a.match: belongs to the site"));
  EXPECT_EQ(refusal("  on_env = 5"), "site.lua:3: on_env: expected a function, got 5");
  EXPECT_THAT(refusal("  node = { memory = \"much\" }"), HasSubstr("node.memory: expected bytes or a size"));
  EXPECT_THROW((void)SiteFile::load_text("return job {}", "site.lua"), UsageError);
  EXPECT_THROW((void)SiteFile::load_text("return site {}", "site.lua"), UsageError);
}

TEST(Site, tells_where_each_value_comes_from) {
  const SiteFile s = site("  node = {\n    gpus = 8 },\n  partitions = {\n    debug = { node = { gpus = 4 } } },");
  std::map<std::string, std::string> origins;
  for (const SiteValue& value : s.values()) origins[value.key] = value.origin;
  EXPECT_EQ(origins["name"], "site.lua:2");
  EXPECT_EQ(origins["node.gpus"], "site.lua:4");
  EXPECT_EQ(origins["node.gpu"], "default");
  EXPECT_EQ(origins["partitions.debug.node.gpus"], "site.lua:6");
  EXPECT_FALSE(origins.contains("partitions.debug.node.gpu"));
}

TEST(Site, calls_hooks_again_and_again) {
  SiteFile s = site(
      "  on_env = function(rank) return { UCX_NET_DEVICES = rank.nic .. \":1\", RAIL = rank.rail } end,\n"
      "  on_node = function(topo) topo.gpus[1].numa = 7; topo.nics = {}; return topo end,");
  for (int i = 0; i < 3; ++i) {
    const auto variables = s.on_env(Json{{"nic", "mlx5_" + std::to_string(i)}, {"rail", i}});
    EXPECT_EQ(variables.at("UCX_NET_DEVICES"), "mlx5_" + std::to_string(i) + ":1");
    EXPECT_EQ(variables.at("RAIL"), std::to_string(i));
  }
  const Json node = parse_json(
      R"({"name": "n", "gpus": [{"numa": null, "nvlink": {}, "near_nics": []}], "nics": [{"name": "a"}], "source": null})",
      "test");
  const Json changed = s.on_node(node);
  EXPECT_EQ(changed["gpus"][0]["numa"], 7);
  EXPECT_EQ(changed["gpus"][0]["nvlink"], Json::object());
  EXPECT_EQ(changed["gpus"][0]["near_nics"], Json::array());
  EXPECT_EQ(changed["nics"], Json::array());
  EXPECT_TRUE(changed.contains("source") && changed["source"].is_null());
  EXPECT_EQ(s.on_map(Json{{"map", Json::array()}}), (Json{{"map", Json::array()}}));
}

std::string hook_refusal(const std::string& body, const Json& rank = Json{{"nic", "x"}}) {
  SiteFile s = site(body);
  try {
    (void)s.on_env(rank);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Site, stops_hooks_that_go_wrong) {
  EXPECT_EQ(hook_refusal("  on_env = function(rank)\n    return { A = rank.nic .. \":1\" } end", Json::object()),
            "site.lua:4: attempt to concatenate a nil value (field 'nic')");
  EXPECT_THAT(hook_refusal("  on_env = function() while true do end end"), HasSubstr("site.lua:3: stopped after"));
  EXPECT_THAT(hook_refusal("  on_env = function() return 5 end"), HasSubstr("site.lua:3: on_env returned 5"));
  EXPECT_THAT(hook_refusal("  on_env = function() return { [\"A B\"] = 1 } end"),
              HasSubstr("no name of an environment variable"));
  EXPECT_THAT(hook_refusal("  on_env = function() return { A = {} } end"), HasSubstr("A must be a string"));
  EXPECT_THAT(hook_refusal("  on_env = function() return { A = \"\\0\" } end"), HasSubstr("A must be a string"));
  EXPECT_THAT(hook_refusal("  on_env = function() local t = {} t.t = t return t end"), HasSubstr("contains itself"));
  EXPECT_EQ(hook_refusal("  on_env = function() end"), "no error");
  // A hook that was stopped leaves the site usable.
  SiteFile s = site("  on_env = function(rank) if rank.bad then while true do end end return { A = 1 } end");
  EXPECT_THROW((void)s.on_env(Json{{"bad", true}}), UsageError);
  EXPECT_EQ(s.on_env(Json::object()).at("A"), "1");
}

class Search : public testing::Test {
 protected:
  Search() {
    search_.etc = files_.folder() / "etc";
    search_.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    };
  }
  std::string found() { return find_site(search_).resolved()["name"].get<std::string>(); }
  std::filesystem::path write(const std::string& path, const std::string& name) {
    return files_.write(path, "return site { name = \"" + name + "\" }");
  }

  TemporaryFiles files_;
  std::map<std::string, std::string> environment_;
  SiteSearch search_;
};

TEST_F(Search, goes_from_the_nearest_to_the_farthest) {
  environment_["HOME"] = (files_.folder() / "home").string();
  search_.prefix = files_.folder() / "prefix";
  EXPECT_EQ(found(), "local");
  write("prefix/etc/railyard/site.lua", "prefix");
  EXPECT_EQ(found(), "prefix");
  write("etc/railyard/site.lua", "etc");
  EXPECT_EQ(found(), "etc");
  write("home/.config/railyard/site.lua", "home");
  EXPECT_EQ(found(), "home");
  environment_["XDG_CONFIG_HOME"] = write("xdg/railyard/site.lua", "xdg").parent_path().parent_path().string();
  EXPECT_EQ(found(), "xdg");
  environment_["RAILYARD_SITE"] = write("named.lua", "named").string();
  EXPECT_EQ(found(), "named");
  search_.given = write("given.lua", "given");
  EXPECT_EQ(found(), "given");
}

TEST_F(Search, refuses_a_named_file_that_is_not_there) {
  environment_["RAILYARD_SITE"] = (files_.folder() / "none.lua").string();
  EXPECT_THROW((void)found(), UsageError);
  search_.given = files_.folder() / "none.lua";
  EXPECT_THROW((void)found(), UsageError);
}

TEST(Site, shipped_files_are_clean) {
  int count = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.name.starts_with("site/")) continue;
    ++count;
    SiteFile shipped = SiteFile::load_text(std::string(file.text), std::string(file.name));
    EXPECT_THAT(check_site(shipped), IsEmpty()) << file.name;
  }
  EXPECT_EQ(count, 5);
}

TEST(Site, check_reports_what_is_doubtful) {
  TemporaryFiles files;
  SiteFile s = site(
      "  fabric = { kind = \"efa\" },\n  paths = { runs = \"/no/such/folder\", cache = \"" + files.folder().string() +
      "\" },\n  setenv = { NCCL_IB_HCA = \"x\" },\n  on_env = function(rank) return { A = rank.nothing.here } end,");
  const auto findings = check_site(s);
  EXPECT_EQ(findings.size(), 3U);
  EXPECT_THAT(findings, Contains(HasSubstr("site.lua:4: paths.runs: /no/such/folder is no folder")));
  EXPECT_THAT(findings, Contains(HasSubstr("site.lua:5: setenv.NCCL_IB_HCA: must not be set on efa")));
  EXPECT_THAT(findings, Contains(HasSubstr("site.lua:6: attempt to index a nil value (field 'nothing')")));
}

}  // namespace
}  // namespace railyard::lua
