// The time model against published runs: each file in published/ names a model, a layout, measured step times and where
// they were published. Adding a run is adding a line or a file. Lines: source TEXT, attention
// fused (or unfused: its scores go through memory, which the model does not know), gpu NAME, model KEY=VALUE ...,
// layout KEY=VALUE ..., run gpus=N global_batch=N step_s=X peak_gib=X (optional:
// what a rank of this program has allocated).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "launch/plan/plan.hpp"
#include "runtime/model/rank_model.hpp"
#include "tests/launch/plan/jobs.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
using namespace testing_jobs;
using Words = std::map<std::string, std::string>;

struct PublishedRun {
  std::string name, source, gpu, attention;
  JobSpec job;
  int gpus = 0;
  double step_s = 0, peak_gib = 0;
};

// KEY=VALUE words as Lua fields; texts in quotes.
std::string lua_fields(const Words& words) {
  std::string text;
  for (const auto& [key, value] : words) {
    const bool plain = value == "true" || value == "false" || std::isdigit(static_cast<unsigned char>(value[0])) != 0;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, plain ? value : "\"" + value + "\"");
  }
  return text;
}

std::vector<PublishedRun> read_runs(const fs::path& path) {
  std::ifstream in(path);
  std::vector<PublishedRun> runs;
  std::string source, gpu, attention;
  Words model, layout;
  for (std::string line; std::getline(in, line);) {
    std::istringstream stream(line);
    std::string what;
    if (!(stream >> what) || what[0] == '#') continue;
    if (what == "source") {
      source = line.substr(7);
      continue;
    }
    Words words;
    for (std::string word; stream >> word;) words[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    if (what == "attention") attention = line.substr(10);
    if (what == "gpu") gpu = line.substr(4);
    if (what == "model") model = words;
    if (what == "layout") layout = words;
    if (what != "run") continue;
    Words parallel = layout;
    const std::string micro = parallel["micro_batch"], precision = parallel["precision"];
    const std::string distributed = parallel.contains("distributed") ? parallel["distributed"] : "true";
    const std::string recompute = parallel.contains("recompute") ? parallel["recompute"] : "none";
    for (const char* key : {"micro_batch", "precision", "recompute", "distributed"}) parallel.erase(key);
    PublishedRun run;
    run.source = source;
    run.gpu = gpu;
    run.attention = attention;
    run.gpus = std::stoi(words.at("gpus"));
    run.step_s = std::stod(words.at("step_s"));
    if (words.contains("peak_gib")) run.peak_gib = std::stod(words["peak_gib"]);
    run.job = job_of(
        "models.transformer { " + lua_fields(model) + " }", lua_fields(parallel),
        fmt::format("micro_batch = {}, global_batch = {}, precision = \"{}\", optimizer = {{ distributed = {} }}",
                    micro, words.at("global_batch"), precision, distributed));
    run.job.train.recompute.granularity = recompute;
    run.name = fmt::format("{} {}", path.stem().string(), run.gpus);
    runs.push_back(std::move(run));
  }
  EXPECT_FALSE(runs.empty()) << path;
  EXPECT_FALSE(source.empty()) << path << ": no source";
  return runs;
}

Json site_with(const std::string& gpu) {
  return site_of(
      fmt::format("node = {{ gpus = 8, gpu = \"{}\", nvlink_domain = 8 }}, fabric = {{ kind = \"ib\", rails = "
                  "8, nic_gbps = {} }}",
                  gpu, gpu.starts_with("A100") ? 200 : 400));
}

TEST(PublishedRuns, ArePredictedFromDataSheets) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "tests/launch/plan/published"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  struct Errors {
    double sum = 0, squares = 0, worst = 0;
    int count = 0;
    void add(double error) {
      sum += std::abs(error);
      squares += error * error;
      worst = std::max(worst, std::abs(error));
      ++count;
    }
  };
  std::map<std::string, Errors> errors;
  fmt::print("{:<38} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "run", "published", "predicted", "published", "predicted",
             "error");
  fmt::print("{:<38} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "(file, GPUs)", "step s", "step s", "MFU %", "MFU %", "%");
  for (const auto& file : files) {
    for (const PublishedRun& run : read_runs(file)) {
      const Cluster cluster = synthetic_cluster(site_with(run.gpu), (run.gpus + 7) / 8, 1);
      const Planner planner(cluster, std::nullopt, 1);
      const Layout layout = Layout::resolve(run.job.parallel, run.gpus);
      const auto time = planner.time(run.job, layout);
      ASSERT_TRUE(time) << run.name;
      const double flops = training_flops(run.job.model, run.job.train.global_batch) / run.gpus;
      const double peak = cluster.spec->bf16_tflops * 1e12, published = flops / run.step_s / peak;
      const double error = time->step_s / run.step_s - 1;
      fmt::print("{:<38} {:>9.3f} {:>9.3f} {:>9.1f} {:>9.1f} {:>+8.1f}\n", run.name, run.step_s, time->step_s,
                 100 * published, 100 * *time->mfu, 100 * error);
      errors[run.attention].add(error);
      // The arena, and the workspaces and staging buffers that are allocated beside it; CUDA's own share is not in
      // peaks.
      if (run.peak_gib > 0) {
        const double total = worst_memory(run.job, layout, cluster).total_gib;
        EXPECT_GT(total, run.peak_gib) << run.name;
        EXPECT_LT(total, run.peak_gib + 1.3) << run.name;
      }
    }
  }
  for (const auto& [attention, e] : errors)
    fmt::print(
        "{} attention, {} runs: mean of the absolute error of step_s {:.1f} %, root of the mean square {:.1f} %, "
        "worst {:.1f} %\n",
        attention, e.count, 100 * e.sum / e.count, 100 * std::sqrt(e.squares / e.count), 100 * e.worst);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_LT(errors["fused"].sum / errors["fused"].count, 0.07);
  EXPECT_LT(errors["fused"].worst, 0.12);
  EXPECT_LT(errors["unfused"].sum / errors["unfused"].count, 0.25);
}

}  // namespace
}  // namespace railyard::launch
