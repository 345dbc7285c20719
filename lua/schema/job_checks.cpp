// Checks across the keys of a job.
#include "lua/schema/job_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "runtime/base/error.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::lua {
namespace {

class Checker {
 public:
  Checker(const JobSpec& job, std::vector<Finding>& findings) : job_(job), findings_(findings) {}

  void run() {
    name();
    model();
    data();
    parallel();
    batch();
    learning_rate();
    evaluation();
  }

 private:
  template <class... Args>
  void report(std::string path, fmt::format_string<Args...> format, Args&&... args) {
    findings_.push_back({std::move(path), fmt::format(format, std::forward<Args>(args)...)});
  }

  // "KEY: tp 8 does not divide heads 12"
  void divides(const char* path, const char* part_name, std::int64_t part, const char* whole_name, std::int64_t whole) {
    if (whole % part != 0) report(path, "{} {} does not divide {} {}", part_name, part, whole_name, whole);
  }

  void name() {
    const bool fits = std::all_of(job_.name.begin(), job_.name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
    if (!fits || job_.name.empty() || job_.name.front() == '.' || job_.name.size() > 128)
      report(
          "name",
          "names the run directory runs/NAME: letters, digits, '-', '_' and '.', at most 128 of them, not '.' first");
  }

  void model() {
    const ModelSpec& m = job_.model;
    divides("model.kv_heads", "kv_heads", m.kv_heads, "heads", m.heads);
    if (m.head_dim * m.heads != m.hidden && m.hidden % m.heads != 0 && m.head_dim == m.hidden / m.heads)
      report("model.heads", "heads {} does not divide hidden {}; give head_dim if that is meant", m.heads, m.hidden);
    if (m.position == "rope" && m.rope_dims() < 2)
      report("model.head_dim", "rotary positions need at least 2 rotated features, got {} ({} of head_dim {})",
             m.rope_dims(), m.rotary_percent, m.head_dim);
    if (m.position == "rope" && m.rotary_percent == 1.0 && m.head_dim % 2 != 0)
      report("model.head_dim", "rotary positions need an even head_dim, got {}", m.head_dim);
    if (m.position != "none" && m.seq_length > m.max_positions)
      report("model.seq_length", "{} is longer than the {} positions; raise model.max_positions ({})", m.seq_length,
             m.position == "learned" ? "learned" : "rotary", m.max_positions);
    if (m.rope_scaling && m.position != "rope") report("model.rope_scaling", "needs model.position = \"rope\"");
    if (m.vocab == 0 && !job_.data.tokenizer && !job_.data.mock)
      report("model.vocab", "\"auto\" takes the size from data.tokenizer, which is not given");
    if (m.vocab == 0 && job_.data.mock) report("model.vocab", "made-up data (data.mock) need a number");
  }

  void data() {
    const DataSpec& d = job_.data;
    const int sources = (d.text.empty() ? 0 : 1) + (d.train.empty() ? 0 : 1) + (d.mock ? 1 : 0);
    if (sources != 1)
      report("data", "{}; give one of text, train and mock",
             sources == 0 ? "has nothing to train on" : "says more than one thing to train on");
    if (!d.text.empty() && !d.tokenizer)
      report("data.tokenizer", "missing; a plain text needs one, such as {{ type = \"char\" }}");
    if (d.tokenizer && d.tokenizer->path.empty() && d.tokenizer->type != "char" && d.tokenizer->type != "bytes")
      report("data.tokenizer.path", "missing; a {} tokenizer is read from a file or folder", d.tokenizer->type);
    split();
    const bool some_weight =
        std::any_of(d.train.begin(), d.train.end(), [](const DataSource& s) { return s.weight.has_value(); });
    if (some_weight && std::any_of(d.train.begin(), d.train.end(), [](const DataSource& s) { return !s.weight; }))
      report("data.train", "gives weights to some sources only; give them to all or to none");
  }

  // "969,30,1": up to three shares, not all zero, none negative.
  void split() {
    const bool lists = !job_.data.valid.empty() || !job_.data.test.empty();
    if (lists && !job_.data.split.empty())
      report("data.split", "cannot go with data.valid or data.test, which name the splits' files themselves");
    if (lists && job_.data.valid.empty() && job_.eval.every > 0)
      report("data.valid", "missing; eval.every asks for evaluations");
    if (lists) return;
    std::vector<double> shares;
    std::string part;
    bool fits = true;
    for (const char c : job_.data.split + ",") {
      if (c != ',') {
        part += c;
        continue;
      }
      char* end = nullptr;
      shares.push_back(std::strtod(part.c_str(), &end));
      fits = fits && !part.empty() && *end == '\0' && part.find_first_not_of("0123456789. ") == std::string::npos;
      part.clear();
    }
    if (!fits || shares.size() > 3)
      return report("data.split", "expected up to three shares like \"969,30,1\", got \"{}\"", job_.data.split);
    shares.resize(3, 0.0);
    if (!(shares[0] > 0)) report("data.split", "\"{}\" leaves nothing to train on", job_.data.split);
    if (!(shares[1] > 0) && job_.eval.every > 0 && job_.data.valid.empty())
      report("data.split", "\"{}\" leaves nothing for the evaluations that eval.every asks for", job_.data.split);
  }

  void parallel() {
    const ParallelSpec& p = job_.parallel;
    const ModelSpec& m = job_.model;
    if (p.automatic) return;
    try {
      Layout::resolve(fixed_dp(p), 0);
    } catch (const UsageError& error) {
      const std::string message = error.what();
      const auto colon = message.find(": ");
      report(message.substr(0, colon), "{}", message.substr(colon + 2));
      return;
    }
    divides("parallel.tp", "tp", p.tp, "model.heads", m.heads);
    divides("parallel.tp", "tp", p.tp, "model.kv_heads", m.kv_heads);
    divides("parallel.tp", "tp", p.tp, "model.ffn", m.ffn);
    if (p.sequence_parallel) divides("parallel.sequence_parallel", "tp", p.tp, "model.seq_length", m.seq_length);
    if (p.cp > 1) divides("parallel.cp", "2 cp =", 2 * p.cp, "model.seq_length", m.seq_length);
    stages();
  }

  void stages() {
    const ParallelSpec& p = job_.parallel;
    const std::int64_t layers = job_.model.layers, chunks = p.pp * p.vpp;
    const std::int64_t ends = p.first_stage_layers + p.last_stage_layers;
    const std::int64_t ended = (p.first_stage_layers > 0 ? 1 : 0) + (p.last_stage_layers > 0 ? 1 : 0);
    if (p.vpp > 1 && p.pp == 1) report("parallel.vpp", "{} chunks need a pipeline; raise pp or leave vpp out", p.vpp);
    if (!p.pipeline_layout.empty()) return;
    if (ended > 0) {
      if (p.pp < 2)
        report("parallel.first_stage_layers", "needs a pipeline of at least 2 stages");
      else if (layers - ends < p.pp - ended || (p.pp == ended && layers != ends))
        report("parallel.first_stage_layers",
               "the first and last stage take {} layers of {}, which does not suit {} stages", ends, layers, p.pp);
      return;
    }
    if (layers < chunks)
      report("parallel.pp", "{} stages{} need at least as many layers; model.layers is {}", p.pp,
             p.vpp > 1 ? fmt::format(" x {} chunks", p.vpp) : "", layers);
    else if (p.vpp > 1)
      divides("parallel.vpp", "pp x vpp =", chunks, "model.layers", layers);
  }

  // dp as given, or 1 where the ranks will decide: what can be checked without them.
  static ParallelSpec fixed_dp(ParallelSpec spec) {
    if (spec.dp == 0) {
      spec.dp = 1;
      spec.ep = spec.etp = 1;
    }
    return spec;
  }

  void batch() {
    const TrainSpec& t = job_.train;
    if (t.global_batch % t.micro_batch != 0)
      return divides("train.global_batch", "micro_batch", t.micro_batch, "global_batch", t.global_batch);
    if (job_.parallel.dp > 0 && t.global_batch % (t.micro_batch * job_.parallel.dp) != 0)
      report("train.global_batch", "micro_batch {} x dp {} = {} does not divide global_batch {}", t.micro_batch,
             job_.parallel.dp, t.micro_batch * job_.parallel.dp, t.global_batch);
    if (!t.rampup_batch.empty() && t.rampup_batch.size() != 3)
      report("train.rampup_batch", "expected three values: start, step, samples");
    if (t.recompute.granularity == "full" && t.recompute.layers == 0)
      report("train.recompute.layers", "missing; full recomputing takes groups of this many layers");
  }

  void learning_rate() {
    const LearningRateSpec& lr = job_.train.lr;
    if (lr.min > lr.peak) report("train.lr.min", "{} is above peak {}", lr.min, lr.peak);
    if (lr.init > lr.peak) report("train.lr.init", "{} is above peak {}", lr.init, lr.peak);
    if (lr.warmup > 0 && lr.warmup_fraction > 0)
      report("train.lr.warmup_fraction", "is given beside warmup; give one of them");
    if (lr.warmup >= lr.decay_iterations && lr.schedule != "constant" && lr.warmup > 0)
      report("train.lr.warmup", "{} steps of warm-up leave nothing of the {} steps of the schedule", lr.warmup,
             lr.decay_iterations);
    if (lr.schedule == "wsd" && lr.wsd_decay > lr.decay_iterations - lr.warmup)
      report("train.lr.wsd_decay", "{} steps do not fit between warm-up ({}) and decay_iterations ({})", lr.wsd_decay,
             lr.warmup, lr.decay_iterations);
  }

  void evaluation() {
    const ProfileSpec& p = job_.profile;
    if ((p.start >= 0) != (p.stop >= 0) || p.stop < p.start)
      report("profile.stop", "give start and stop, and stop not before start");
  }

  const JobSpec& job_;
  std::vector<Finding>& findings_;
};

}  // namespace

void check_job(const JobSpec& job, std::vector<Finding>& findings) { Checker(job, findings).run(); }

std::vector<Finding> doubtful(const JobSpec& job) {
  std::vector<Finding> result;
  if (job.parallel.sequence_parallel && job.parallel.tp == 1 && !job.parallel.automatic)
    result.push_back({"parallel.sequence_parallel", "has no effect with tp = 1"});
  if (job.eval.every > job.train.iterations)
    result.push_back({"eval.every", fmt::format("{} is more than the {} iterations of the run", job.eval.every,
                                                job.train.iterations)});
  if (job.train.lr.decay_iterations > job.train.iterations && job.train.lr.schedule != "constant")
    result.push_back(
        {"train.lr.decay_iterations", fmt::format("the run ends after {} of its {} steps, before min is reached",
                                                  job.train.iterations, job.train.lr.decay_iterations)});
  return result;
}

}  // namespace railyard::lua
