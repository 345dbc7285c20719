// Evaluates a job file and bakes its table into a JobSpec.
#include "lua/job.hpp"

#include <fmt/format.h>

#include "lua/host/convert.hpp"
#include "lua/schema/data_lists.hpp"
#include "lua/schema/job_checks.hpp"
#include "lua/schema/job_schema.hpp"
#include "lua/schema/places.hpp"
#include "lua/source/literal.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

// From the user's words to JobSpec's: the schema's document has every key; a few are spelt differently there.
void bake(Json& document, const std::string& file) {
  Json& name = document["name"];
  if (name == "") name = std::filesystem::path(file).stem().string();
  Json& train = document["train"];
  Json& optimizer = train["optimizer"];
  optimizer["beta1"] = optimizer["betas"][0];
  optimizer["beta2"] = optimizer["betas"][1];
  optimizer.erase("betas");
  train.erase("samples");
  document["data"].erase("per_split");
}

void check_steps(const Json& document, std::vector<Finding>& findings) {
  const Json& train = document.at("train");
  const auto samples = train.at("samples").get<std::int64_t>();
  if (train.at("iterations").is_null())
    findings.push_back({"train.iterations", "missing; give iterations or samples"});
  else if (train.at("iterations") == 0)
    findings.push_back({"train.samples", fmt::format("{} are less than one global batch", samples)});
}

EvaluatedJob evaluate(const std::string& text, const std::string& name, const std::filesystem::path& path,
                      const JobOptions& options) {
  std::vector<Setting> settings;
  for (const std::string& set : options.sets) settings.push_back(parse_setting(set));

  HostOptions host_options;
  host_options.constructor = "job";
  host_options.limits = options.limits;
  host_options.environment = options.environment;
  host_options.arguments = options.arguments;
  if (!path.empty()) host_options.module_folders.push_back(path.has_parent_path() ? path.parent_path() : ".");
  host_options.module_folders.insert(host_options.module_folders.end(), options.module_folders.begin(),
                                     options.module_folders.end());
  host_options.print = options.print;
  Host host(std::move(host_options));
  Evaluation evaluation;
  try {
    evaluation = host.evaluate(name, text);
  } catch (const ValueError& error) {
    throw UsageError(Places(host.sources(), "job", 0).word({error.path(), error.what()}));
  }
  for (const Setting& setting : settings) apply_setting(evaluation.value, setting);

  const Places places(host.sources(), "job", evaluation.call_line, settings);
  std::vector<Finding> findings;
  spell_out_data_lists(evaluation.value, findings);
  places.refuse(findings);
  Json document = job_schema().check(evaluation.value, {options.require_built}, findings);
  places.refuse(findings);
  check_steps(document, findings);
  places.refuse(findings);
  bake(document, name);

  EvaluatedJob job;
  job.spec = JobSpec::from_json(document, name);
  check_job(job.spec, findings);
  places.refuse(findings);
  job.resolved = job.spec.to_json();
  job.path = path;
  job.sources = host.sources();
  for (const std::string& warning : evaluation.preamble.warnings)
    job.warnings.push_back(fmt::format("{}:{}", name, warning));
  for (const std::string& repeated : places.repeated_keys()) job.warnings.push_back(repeated);
  for (const Finding& finding : doubtful(job.spec)) job.warnings.push_back(places.word(finding));
  job.environment = host.environment_read();
  job.arguments = options.arguments;
  job.sbatch = evaluation.preamble.options;
  return job;
}

}  // namespace

EvaluatedJob evaluate_job(const std::filesystem::path& path, const JobOptions& options) {
  const std::string name = options.display_name.empty() ? path.string() : options.display_name;
  return evaluate(read_lua_file(path), name, path, options);
}

EvaluatedJob evaluate_job_text(const std::string& text, const std::string& name, const JobOptions& options) {
  return evaluate(text, name, {}, options);
}

}  // namespace railyard::lua
