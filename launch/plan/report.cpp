// Text and JSON of plans.
#include "launch/plan/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "launch/place/report.hpp"
#include "runtime/report/format.hpp"

namespace railyard::launch {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
constexpr int kBar = 50;

constexpr const char* kBold = "1";
constexpr const char* kGreen = "32";
constexpr const char* kYellow = "33";
constexpr const char* kRed = "31";

std::string painted(const std::string& text, const char* colour, const TextStyle& style) {
  return style.colour ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : text;
}

struct Part {
  const char* name;
  char mark;
  double amount;
};

// A bar of `cells` characters for `whole`; every part that is not nothing is seen.
std::string bar(const std::vector<Part>& parts, double whole, int cells) {
  std::string text;
  double sum = 0;
  for (const Part& part : parts) {
    if (part.amount <= 0) continue;
    sum += part.amount;
    const auto end = static_cast<std::size_t>(std::lround(std::min(1.0, sum / whole) * cells));
    const std::size_t wanted = std::max(end, std::min<std::size_t>(text.size() + 1, static_cast<std::size_t>(cells)));
    text.resize(wanted, part.mark);
  }
  text.resize(static_cast<std::size_t>(cells), '.');
  return text;
}

std::string legend(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts)
    if (part.amount > 0)
      text += fmt::format("{}{} {} {:.3g}", text.empty() ? "" : "   ", part.mark, part.name, part.amount);
  return text;
}

std::string wrapped(const std::string& text, int columns, int indent) {
  std::string out, line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && static_cast<int>(line.size() + word.size()) + 1 + indent > columns) {
      out += line + "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line;
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  return bytes >= 1e6 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.1f} kB", bytes / 1e3);
}

std::string seconds_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.2f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3)
                           : fmt::format("{:.0f} us", seconds * 1e6);
}

void add_memory(std::string& out, const PlanReport& report, const TextStyle& style) {
  const MemoryFigures& m = report.plan.memory;
  const bool small = m.total_gib < 1;  // told in MiB
  const double unit = small ? 1024 : 1;
  const std::vector<Part> parts{{"weights", 'W', m.weights_gib * unit},
                                {"gradients", 'G', m.grads_gib * unit},
                                {"optimizer", 'O', m.optimizer_gib * unit},
                                {"activations", 'A', m.activations_gib * unit},
                                {"other", 'x', m.other_gib * unit}};
  const bool full = m.fits() == false;
  const std::string of = m.limit_gib ? fmt::format(" of {:.1f} GiB", *m.limit_gib) : "";
  const std::string verdict = !m.limit_gib ? " (the device's memory is unknown)" : full ? "  DOES NOT FIT" : "";
  out += fmt::format("memory    [{}] {}\n", bar(parts, m.limit_gib.value_or(m.total_gib) * unit, kBar),
                     painted(fmt::format("{:.4g} {}{}{}", m.total_gib * unit, small ? "MiB" : "GiB", of, verdict),
                             full ? kRed : kGreen, style));
  out += fmt::format("          {}\n", legend(parts));
  if (report.plan.layout.ranks() > 1) out += fmt::format("          worst: rank {}, stage {}\n", m.rank, m.stage);
}

void add_time(std::string& out, const PlanReport& report, const TextStyle& style) {
  if (!report.plan.time) {
    out += "time      unknown\n";
    return;
  }
  const StepTime& t = *report.plan.time;
  const std::vector<Part> parts{{"computing", '#', t.compute_s},
                                {"communication", '~', t.exposed_comm_s},
                                {"waiting for stages", '_', t.bubble_s}};
  const double tokens = static_cast<double>(report.plan.job.train.global_batch * report.plan.job.model.seq_length);
  out += fmt::format("step      [{}] {}\n", bar(parts, t.step_s, kBar), painted(seconds_text(t.step_s), kBold, style));
  std::string split;
  for (const Part& part : parts)
    if (part.amount > 0)
      split += fmt::format("{}{} {} {:.1f} %", split.empty() ? "" : "   ", part.mark, part.name,
                           100 * part.amount / t.step_s);
  out += fmt::format("          {}\n", split);
  out +=
      fmt::format("speed     {:.4g} TFLOP/s a {}{}, {:.0f} tokens/s\n", t.tflops_per_gpu,
                  report.planner.cluster().has_gpus ? "GPU" : "rank",
                  t.mfu ? painted(fmt::format(", MFU {:.1f} %", 100 * *t.mfu), kBold, style) : "", tokens / t.step_s);
  out += fmt::format("          from {}\n", report.planner.rates_source());
}

// Per axis what each rank sends and the share of all its bytes by what they cross.
void add_links(std::string& out, const PlanReport& report) {
  if (report.placement == nullptr) return;
  const AxisBytes& bytes = report.plan.bytes;
  const auto sent = [&](Axis axis) {
    return axis == Axis::kTp   ? bytes.tp
           : axis == Axis::kDp ? bytes.dp
           : axis == Axis::kPp ? bytes.pp
           : axis == Axis::kCp ? bytes.cp
                               : bytes.ep;
  };
  bool first = true;
  for (const AxisCost& axis : report.placement->cost.axes) {
    double total = 0;
    for (int link = 1; link < kLinkClasses; ++link) total += axis.bytes[static_cast<std::size_t>(link)];
    if (total <= 0) continue;
    std::string shares;
    for (int link = 1; link < kLinkClasses; ++link)
      if (const double part = axis.bytes[static_cast<std::size_t>(link)]; part > 0)
        shares += fmt::format("{}{} {:.0f} %", shares.empty() ? "" : ", ",
                              link_class_name(static_cast<LinkClass>(link)), 100 * part / total);
    out += fmt::format("{:<10}{:<3} {:>10} a rank and step   {}\n", first ? "sends" : "", axis_name(axis.axis),
                       bytes_text(sent(axis.axis)), shares);
    first = false;
  }
}

// What to write into the job for this layout.
std::string settings_text(const Planner::Plan& plan) {
  const Layout& layout = plan.layout;
  return fmt::format("parallel = {{ tp = {}, pp = {}{}{} }}, train.micro_batch = {}{}", layout.tp, layout.pp,
                     layout.vpp > 1 ? fmt::format(", vpp = {}", layout.vpp) : "",
                     layout.sequence_parallel ? ", sequence_parallel = true" : "", plan.job.train.micro_batch,
                     plan.job.train.recompute.granularity == "full" ? ", train.recompute = \"full\"" : "");
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

std::string plan_text(const PlanReport& report, const TextStyle& style) {
  const JobSpec& job = report.plan.job;
  const Layout& layout = report.plan.layout;
  const std::int64_t microbatches = job.train.global_batch / (job.train.micro_batch * layout.dp);
  std::string out;
  out += painted(fmt::format("{} on {}", job.name, report.planner.cluster().origin), kBold, style) + "\n";
  out += fmt::format("layout    {}; {} rank{}, {} microbatch{} of {} tokens, {}\n", layout_text(job, layout),
                     layout.ranks(), layout.ranks() == 1 ? "" : "s", microbatches, microbatches == 1 ? "" : "es",
                     job.train.micro_batch * job.model.seq_length, job.train.precision);
  add_memory(out, report, style);
  add_time(out, report, style);
  add_links(out, report);
  for (const std::string& warning : report.warnings)
    out += painted("warning", kYellow, style) + "   " + wrapped(warning, style.columns, 10) + "\n";
  return out;
}

std::string search_text(const SearchResult& result, const TextStyle& style) {
  std::string out =
      painted(fmt::format("{:>3} {:>4} {:>4} {:>4} {:>5} {:>3} {:>6} {:>10} {:>12} {:>9} {:>9} {:>7} {:>7} {:>7}", "#",
                          "tp", "pp", "vpp", "dp", "sp", "micro", "recompute", "GiB a rank", "step", "TFLOP/s", "MFU %",
                          "comm %", "wait %"),
              kBold, style) +
      "\n";
  int number = 0;
  for (const Planner::Plan& plan : result.ranked) {
    const StepTime& t = *plan.time;
    out +=
        fmt::format("{:>3} {:>4} {:>4} {:>4} {:>5} {:>3} {:>6} {:>10} {:>12} {:>9} {:>9.1f} {:>7} {:>7.1f} {:>7.1f}\n",
                    ++number, plan.layout.tp, plan.layout.pp, plan.layout.vpp, plan.layout.dp,
                    plan.layout.sequence_parallel ? "yes" : "-", plan.job.train.micro_batch,
                    plan.job.train.recompute.granularity == "none" ? "-" : plan.job.train.recompute.granularity,
                    fmt::format("{:.1f}{}", plan.memory.total_gib,
                                plan.memory.limit_gib ? fmt::format("/{:.0f}", *plan.memory.limit_gib) : ""),
                    seconds_text(t.step_s), t.tflops_per_gpu, t.mfu ? fmt::format("{:.1f}", 100 * *t.mfu) : "?",
                    100 * t.exposed_comm_s / t.step_s, 100 * t.bubble_s / t.step_s);
  }
  if (result.ranked.empty())
    out += result.considered > 0 ? "no layout fits: more nodes (--nodes), or a smaller model or model.seq_length\n"
                                 : "no layout is possible: train.global_batch must be a multiple of dp; try another "
                                   "batch or other --nodes\n";
  else
    out += "the first: " + settings_text(result.ranked.front()) + "\n";
  out += fmt::format("{} layouts are possible; left out:\n", result.considered);
  for (const auto& entry : result.left_out)
    out += fmt::format("{:>6}  {}\n", entry.count,
                       wrapped(fmt::format("{} (such as {})", entry.why, entry.example), style.columns, 8));
  return out;
}

Json plan_json(const PlanReport& report) {
  const Planner::Plan& plan = report.plan;
  const MemoryFigures& m = plan.memory;
  const auto& t = plan.time;
  const auto fits = m.fits();
  Json document{{"schema", 1},
                {"layout", plan.layout.to_json()},
                {"gpus", plan.layout.ranks()},
                {"memory",
                 {{"rank", m.rank},
                  {"stage", m.stage},
                  {"weights_gib", m.weights_gib},
                  {"grads_gib", m.grads_gib},
                  {"optimizer_gib", m.optimizer_gib},
                  {"activations_gib", m.activations_gib},
                  {"other_gib", m.other_gib},
                  {"total_gib", m.total_gib},
                  {"limit_gib", number_or_null(m.limit_gib)},
                  {"fits", fits ? Json(*fits) : Json(nullptr)}}},
                {"time",
                 {{"step_s", t ? Json(t->step_s) : Json(nullptr)},
                  {"compute_s", t ? Json(t->compute_s) : Json(nullptr)},
                  {"exposed_comm_s", t ? Json(t->exposed_comm_s) : Json(nullptr)},
                  {"bubble_s", t ? Json(t->bubble_s) : Json(nullptr)}}},
                {"tflops_per_gpu", t ? Json(t->tflops_per_gpu) : Json(nullptr)},
                {"mfu", t ? number_or_null(t->mfu) : Json(nullptr)},
                {"links", Json::array()},
                {"map", Json::array()},
                {"warnings", report.warnings}};
  document["layout"]["micro_batch"] = plan.job.train.micro_batch;
  document["layout"]["global_batch"] = plan.job.train.global_batch;
  document["layout"]["recompute"] = plan.job.train.recompute.granularity;
  if (report.placement != nullptr) {
    document["links"] = placement_links_json(*report.placement);
    document["map"] = placement_map_json(plan.layout, report.planner.cluster().allocation, *report.placement);
  }
  return document;
}

Json empty_plan_json(const std::vector<std::string>& warnings) {
  return {{"schema", 1},          {"layout", nullptr},         {"gpus", nullptr}, {"memory", nullptr},
          {"time", nullptr},      {"tflops_per_gpu", nullptr}, {"mfu", nullptr},  {"links", Json::array()},
          {"map", Json::array()}, {"warnings", warnings}};
}

Json search_json(const SearchResult& result) {
  Json rows = Json::array(), left = Json::array();
  for (const Planner::Plan& plan : result.ranked) {
    Json layout = plan.layout.to_json();
    layout["micro_batch"] = plan.job.train.micro_batch;
    layout["recompute"] = plan.job.train.recompute.granularity;
    rows.push_back({{"layout", layout},
                    {"total_gib", plan.memory.total_gib},
                    {"step_s", plan.time->step_s},
                    {"tflops_per_gpu", plan.time->tflops_per_gpu},
                    {"mfu", number_or_null(plan.time->mfu)}});
  }
  for (const auto& entry : result.left_out)
    left.push_back({{"why", entry.why}, {"count", entry.count}, {"example", entry.example}});
  return {{"search", rows}, {"left_out", left}};
}

}  // namespace railyard::launch
