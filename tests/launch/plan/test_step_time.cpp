// The time model: its parts add up, its short cuts agree with the long way, measurements count.
#include <gtest/gtest.h>

#include "launch/plan/plan.hpp"
#include "launch/plan/step_time.hpp"
#include "runtime/parallel/schedule.hpp"
#include "tests/launch/plan/jobs.hpp"

namespace railyard::launch {
namespace {

using namespace testing_jobs;

constexpr const char* kTrain =
    "micro_batch = 1, global_batch = 128, precision = \"bf16\", optimizer = { distributed = true }";

JobSpec llama(const std::string& parallel) {
  return job_of("models.llama3_8b { seq_length = 4096 }", parallel, kTrain);
}

std::optional<Calibration> nothing() { return std::nullopt; }

TEST(StepTime, PartsAddUp) {
  const Cluster cluster = synthetic_cluster(h100_site(), 4, 1);
  const Planner planner(cluster, std::nullopt, 1);
  for (const char* parallel : {"tp = 1", "tp = 8, sequence_parallel = true", "tp = 2, pp = 4", "pp = 4, vpp = 4"}) {
    const JobSpec job = llama(parallel);
    const auto time = planner.time(job, Layout::resolve(job.parallel, 32));
    ASSERT_TRUE(time);
    EXPECT_NEAR(time->compute_s + time->exposed_comm_s + time->bubble_s, time->step_s, 1e-12 * time->step_s);
    EXPECT_GT(*time->mfu, 0.1) << parallel;
    EXPECT_LT(*time->mfu, 0.75) << parallel;
    EXPECT_EQ(time->bubble_s > 0, job.parallel.pp > 1) << parallel;
  }
}

TEST(StepTime, LongSchedulesAreExtendedExactly) {
  for (const auto& [pp, vpp] : {std::pair{4, 1}, {8, 1}, {4, 3}}) {
    Layout layout;
    layout.pp = pp;
    layout.vpp = vpp;
    std::vector<double> forward, backward;
    for (int piece = 0; piece < pp * vpp; ++piece) {  // uneven stages, a heavy last one
      forward.push_back(1.0 + 0.1 * (piece % 3) + (piece + 1 == pp * vpp ? 0.7 : 0));
      backward.push_back(2.1 * forward.back());
    }
    for (const std::int64_t microbatches : {pp, 6 * pp, 16 * pp}) {
      const double exact =
          simulate_schedule(schedule_interleaved(pp, vpp, static_cast<int>(microbatches)), forward, backward, 0.05)
              .length;
      EXPECT_NEAR(schedule_seconds(layout, microbatches, forward, backward, 0.05), exact, 1e-3 * exact)
          << pp << " " << vpp << " " << microbatches;
    }
  }
  Layout layout;
  layout.pp = 4;
  const double exact = simulate_schedule(schedule_1f1b(4, 37), {1, 1, 1, 1}, {2, 2, 2, 2}, 0).length;
  EXPECT_NEAR(schedule_seconds(layout, 37, {1, 1, 1, 1}, {2, 2, 2, 2}, 0), exact, 1e-9);
  EXPECT_NEAR(exact, 3 * (37 + 3), 1e-9);  // the closed form of 1F1B
}

TEST(StepTime, NoScheduleBeatsTheBound) {
  const Cluster cluster = synthetic_cluster(h100_site(), 4, 1);
  const Planner planner(cluster, std::nullopt, 1);
  for (const char* parallel :
       {"tp = 1", "pp = 8", "pp = 4, vpp = 8", "tp = 4, pp = 2, vpp = 2, sequence_parallel = true"}) {
    const JobSpec job = llama(parallel);
    const Layout layout = Layout::resolve(job.parallel, 32);
    const double exact = planner.time(job, layout)->step_s, bound = planner.least_time(job, layout);
    EXPECT_LE(bound, exact * (1 + 1e-9)) << parallel;
    EXPECT_GT(bound, 0.7 * exact) << parallel;
  }
}

TEST(StepTime, SlowerLinksAndFewerMicrobatchesCost) {
  const auto step = [](const Json& site, const std::string& parallel, const char* train) {
    const Cluster cluster = synthetic_cluster(site, 4, 1);
    const JobSpec job = job_of("models.llama3_8b { seq_length = 4096 }", parallel, train);
    return *Planner(cluster, std::nullopt, 1).time(job, Layout::resolve(job.parallel, 32));
  };
  const Json fast = h100_site();
  const Json slow = site_of(
      "node = { gpus = 8, gpu = \"H100-SXM5-80GB\", nvlink_domain = 8 }, fabric = { rails = 1, nic_gbps = 25, kind = "
      "\"tcp\" }");
  EXPECT_GT(step(slow, "tp = 1", kTrain).exposed_comm_s, 5 * step(fast, "tp = 1", kTrain).exposed_comm_s);
  const char* few = "micro_batch = 1, global_batch = 16, precision = \"bf16\"";
  EXPECT_GT(
      step(fast, "tp = 1, pp = 8, dp = 4", few).bubble_s / step(fast, "tp = 1, pp = 8, dp = 4", few).step_s,
      step(fast, "tp = 1, pp = 8, dp = 4", kTrain).bubble_s / step(fast, "tp = 1, pp = 8, dp = 4", kTrain).step_s);
  const char* alone =
      "micro_batch = 1, global_batch = 128, precision = \"bf16\", optimizer = { distributed = true }, seed = 1";
  const auto overlapped = step(fast, "tp = 1", alone);
  const auto exposed = step(fast, "tp = 1, overlap_grad_reduce = false, overlap_param_gather = false", alone);
  EXPECT_GT(exposed.data_s, overlapped.data_s);
}

TEST(StepTime, RecomputingCostsAForwardPass) {
  const Cluster cluster = synthetic_cluster(h100_site(), 1, 1);
  const Planner planner(cluster, std::nullopt, 1);
  JobSpec job = llama("tp = 8, sequence_parallel = true");
  const Layout layout = Layout::resolve(job.parallel, 8);
  const double none = planner.time(job, layout)->step_s;
  job.train.recompute.granularity = "selective";
  const double selective = planner.time(job, layout)->step_s;
  job.train.recompute.granularity = "full";
  const double full = planner.time(job, layout)->step_s;
  EXPECT_GT(selective, none);
  EXPECT_GT(full, selective);
  EXPECT_NEAR(full / none, 4.0 / 3, 0.08);
}

TEST(DeviceRates, MeasuredShapesAreTakenAsMeasured) {
  const GpuSpec spec = *find_gpu("H100-SXM5-80GB");
  Calibration c;
  c.gemm = {{"bf16", 8192, 4096, 4096, 500}, {"bf16", 1024, 1024, 1024, 100}, {"fp8", 8192, 4096, 4096, 900}};
  c.attention = {{4096, 32, 128, "bf16", 300, 200}};
  c.copy_gb_s = 1234;
  const DeviceRates rates(spec, c);
  EXPECT_NEAR(rates.gemm_seconds("bf16", 8192, 4096, 4096), 2.0 * 8192 * 4096 * 4096 / 500e12, 1e-9);
  EXPECT_NEAR(rates.gemm_seconds("fp8", 8192, 4096, 4096), 2.0 * 8192 * 4096 * 4096 / 900e12, 1e-9);
  EXPECT_NEAR(rates.attention_seconds("bf16", 4096, 32, 128, 1e12, false), 1e12 / 300e12, 4e-6);
  EXPECT_NEAR(rates.attention_seconds("bf16", 4096, 32, 128, 1e12, true), 2.5e12 / 200e12, 4e-6);
  EXPECT_NEAR(rates.memory_seconds(1234e9), 1.0, 1e-12);
  EXPECT_TRUE(rates.unmeasured().empty());
  // Between measured shapes: between their ratios to the model.
  const DeviceRates plain(spec, nothing());
  const auto ratio = [&](double m, double n, double k) {
    return rates.gemm_seconds("bf16", m, n, k) / plain.gemm_seconds("bf16", m, n, k);
  };
  const double large = ratio(8192, 4096, 4096), small = ratio(1024, 1024, 1024), between = ratio(3000, 2000, 2000);
  EXPECT_GT(between, std::min(large, small));
  EXPECT_LT(between, std::max(large, small));
  EXPECT_EQ(plain.unmeasured().size(), 3U);
}

// Published rates of square products: H100 in 8 bits and A100 in 16 (Azure's benchmarking notes).
TEST(DeviceRates, DataSheetModelIsNearMeasuredProducts) {
  const auto tflops = [](const DeviceRates& rates, const char* dtype, double n) {
    return 2 * n * n * n / rates.gemm_seconds(dtype, n, n, n) * 1e-12;
  };
  const DeviceRates h100(*find_gpu("H100-SXM5-80GB"), nothing()), a100(*find_gpu("A100-SXM4-80GB"), nothing());
  for (const auto& [n, published] : {std::pair{2048.0, 1011.0}, {4096.0, 1217.0}, {8192.0, 1290.0}, {16384.0, 1377.0}})
    EXPECT_NEAR(tflops(h100, "fp8", n) / published, 1.0, 0.25) << n;
  for (const auto& [n, published] :
       {std::pair{1024.0, 119.0}, {2048.0, 222.0}, {4096.0, 228.0}, {8192.0, 254.0}, {16384.0, 257.0}})
    EXPECT_NEAR(tflops(a100, "bf16", n) / published, 1.0, 0.2) << n;
}

TEST(AxisPath, RingsDriveTheNicsOfAllTheirMembers) {
  AxisPath path{.ranks = 16, .inside = 8, .inside_gb_s = 360, .across_gb_s = 40};
  EXPECT_NEAR(collective_seconds(path, 3.2e9, 0), 0.01, 1e-12);  // 8 NICs of 40 GB/s
  path.inside = 1;
  EXPECT_NEAR(collective_seconds(path, 3.2e9, 0), 0.08, 1e-12);
  path.ranks = 1;
  EXPECT_EQ(collective_seconds(path, 3.2e9, 5), 0);
}

TEST(AxisPath, LayoutsNestIntoDomains) {
  const Cluster cluster = synthetic_cluster(h100_site(), 8, 1);
  const LinkModel links(cluster, std::nullopt);
  Layout layout;
  layout.tp = 2;
  layout.pp = 4;
  layout.dp = 8;
  const AxisPaths data = links.nested(layout, false), pipeline = links.nested(layout, true);
  EXPECT_EQ(data.tp.inside, 2);
  EXPECT_EQ(data.dp.inside, 4);
  EXPECT_EQ(data.pp.inside, 1);
  EXPECT_EQ(pipeline.pp.inside, 4);
  EXPECT_EQ(pipeline.dp.inside, 1);
  // A placement on the same cluster is one of the two.
  Traffic traffic{{Axis::kTp, 1e12}, {Axis::kDp, 1e11}, {Axis::kPp, 1e9}};
  const Placement placed = place(layout, cluster.allocation, traffic, cluster.rates);
  const AxisPaths found = links.placed(layout, cluster.allocation, placed);
  EXPECT_EQ(found.tp.inside, 2);
  EXPECT_TRUE(found.dp.inside == 4 || found.pp.inside == 4);
}

TEST(AxisPath, MeasuredMessagesReplaceGuesses) {
  const Cluster cluster = synthetic_cluster(h100_site(), 2, 1);
  Calibration c;
  c.comm = {
      {"all_gather", 8, 1e9, 333, "nvlink"}, {"all_gather", 8, 1e6, 40, "nvlink"}, {"all_gather", 16, 1e9, 44, "rail"}};
  const LinkModel links(cluster, c);
  EXPECT_TRUE(links.measured_inside());
  EXPECT_TRUE(links.measured_across());
  Layout layout;
  layout.tp = 8;
  layout.dp = 2;
  const AxisPaths paths = links.nested(layout, false);
  EXPECT_EQ(paths.tp.inside_gb_s, 333);
  EXPECT_EQ(paths.dp.across_gb_s, 44);
  EXPECT_GT(paths.tp.inside_latency, 0);
}

}  // namespace
}  // namespace railyard::launch
