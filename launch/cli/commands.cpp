// The list of commands, in the order of the help text.
#include "launch/cli/ckpt.hpp"
#include "launch/cli/command.hpp"
#include "launch/cli/command_bench.hpp"
#include "launch/cli/command_check_node.hpp"
#include "launch/cli/command_doctor.hpp"
#include "launch/cli/command_job.hpp"
#include "launch/cli/command_plan.hpp"
#include "launch/cli/command_run.hpp"
#include "launch/cli/command_sample.hpp"
#include "launch/cli/command_site.hpp"
#include "launch/cli/command_submit.hpp"
#include "launch/cli/command_topo.hpp"
#include "launch/cli/command_tune.hpp"
#include "launch/cli/data.hpp"
#include "launch/cli/report.hpp"

namespace railyard::launch {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {define_run, "run"},       {define_plan, "plan"},     {define_tune, "tune"},
      {define_submit, "submit"}, {define_status, "status"}, {define_report, "report"},
      {define_sample, "sample"}, {define_topo, "topo"},     {define_data, "data"},
      {define_ckpt, "ckpt"},     {define_bench, "bench"},   {define_job, "job"},
      {define_site, "site"},     {define_doctor, "doctor"}, {define_check_node, "check-node"},
  };
  return list;
}

}  // namespace railyard::launch
