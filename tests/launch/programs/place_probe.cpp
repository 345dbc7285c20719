// A rank for tests of placement under a real mpirun: pretends to be on a node with GPUs, joins the others over PMIx,
// and prints what rank 0 settled for it. Which node, and what is hidden there, its environment says: PROBE_NODE (a
// name), PROBE_KIND (assigning.hpp), PROBE_LOCAL, PROBE_MASK, PROBE_CGROUP.   place_probe SET...   such as
// parallel.tp=2
#include <cstdio>

#include "launch/bootstrap/assign_ranks.hpp"
#include "launch/process.hpp"
#include "lua/job.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/bootstrap/assigning.hpp"

using namespace railyard;
using namespace railyard::launch;

namespace {

std::string value_of(const char* name, const char* otherwise) { return environment_value(name).value_or(otherwise); }

Json settle(const std::vector<std::string>& texts, const std::vector<std::string>& sets) {
  std::vector<RankFacts> facts;
  for (const std::string& text : texts) facts.push_back(RankFacts::from_json(parse_json(text, "a rank's facts")));
  lua::JobOptions options;
  options.sets = sets;
  const auto job = lua::evaluate_job(std::string(RAILYARD_SOURCE_DIR) + "/tests/launch/bootstrap/assign.lua", options);
  const Layout layout = Layout::resolve(job.spec.parallel, static_cast<int>(facts.size()));
  auto site = lua::SiteFile::load_text("return site { name = \"test\" }", "site.lua");
  const AssignmentInput input{job.spec, layout, "cuda", facts, site.for_partition(""), std::nullopt, &site};
  const Assignment assigned = assign_ranks(input);
  for (const std::string& line : assigned.summary) std::fprintf(stderr, "%s\n", line.c_str());
  Json answer{{"map", assigned.record.at("map")}, {"ranks", Json::array()}};
  for (const RankAssignment& rank : assigned.ranks) answer["ranks"].push_back(rank.to_json());
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto bootstrap = make_pmix_bootstrap({.timeout = 20});
    const Identity& me = bootstrap->identity();
    const auto node = testing_machines::described_node(value_of("PROBE_NODE", "a"), value_of("PROBE_KIND", "h100x4"));
    const RankFacts mine = testing_machines::facts_on(
        node, static_cast<int>(environment_number("PROBE_LOCAL").value_or(0)), value_of("PROBE_MASK", "-"),
        topology::CpuSet::parse_list(value_of("PROBE_CGROUP", ""))->members(), "");
    const auto texts = bootstrap->gather(mine.to_json().dump());
    Json answer;
    if (me.rank == 0) {
      try {
        answer = settle(texts, {argv + 1, argv + argc});
      } catch (const Error& error) {
        std::fprintf(stderr, "railyard: %s\n", error.what());
        answer = Json{{"failed", error.exit_code()}};
      }
    }
    answer = parse_json(bootstrap->broadcast(answer.dump()), "rank 0's decision");
    if (answer.contains("failed")) {
      bootstrap->barrier();
      return answer["failed"].get<int>();
    }
    const auto assigned = RankAssignment::from_json(answer.at("ranks").at(static_cast<std::size_t>(me.rank)));
    const Json& at = answer.at("map").at(static_cast<std::size_t>(assigned.logical));
    std::printf("started %d logical %d node %s gpu %d ordinal %d visible %s\n", me.rank, assigned.logical,
                at.at("node").get<std::string>().c_str(), at.at("gpu").get<int>(), assigned.ordinal,
                assigned.visible.c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "place_probe: %s\n", error.what());
    return error.exit_code();
  }
}
