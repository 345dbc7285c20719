// Jobs and sites of planning tests.
#pragma once

#include <string>

#include "lua/job.hpp"
#include "lua/site.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch::testing_jobs {

// `model` is a Lua expression, such as "models.llama3_8b { seq_length = 4096 }"; `more` further fields of the job.
inline JobSpec job_of(const std::string& model, const std::string& parallel, const std::string& train,
                      const std::string& more = "data = { mock = true }") {
  const std::string text =
      "local models = require \"railyard.models\"\nreturn job {\n  name = \"planned\",\n  model = " + model +
      ",\n  parallel = { " + parallel + " },\n  train = { iterations = 10, lr = { peak = 1e-4 }, " + train + " },\n  " +
      more + ",\n}\n";
  return lua::evaluate_job_text(text, "planned.lua").spec;
}

inline Json site_of(const std::string& fields) {
  return lua::SiteFile::load_text("return site { name = \"here\", " + fields + " }\n", "site.lua").resolved();
}

// Eight H100s a node with a rail each.
inline Json h100_site(const std::string& fabric = "") {
  return site_of(
      "node = { gpus = 8, gpu = \"H100-SXM5-80GB\", nvlink_domain = 8 }, fabric = { kind = \"ib\", rails = 8, " +
      std::string("nic_gbps = 400") + (fabric.empty() ? "" : ", " + fabric) + " }");
}

}  // namespace railyard::launch::testing_jobs
