// Reading a run directory, live or broken.
#include "runtime/report/run_view.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>
#include <system_error>

#include "runtime/base/error.hpp"

namespace railyard {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kTailBytes = 256 * 1024;                    // some thousand steps
constexpr std::uintmax_t kLongestText = std::uintmax_t{64} << 20;  // a file beyond this is not what its name says

// The number N of a name PREFIX N SUFFIX; -1 when it has none.
std::int64_t number_between(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix)) return -1;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : -1;
}

// Reads whatever of a run is there; what is not readable becomes a problem, never an error.
class Reader {
 public:
  explicit Reader(RunView& view) : view_(view) {}

  Json json(const std::string& name) {
    Json document;
    attempt([&] {
      if (present(name)) document = read_json_file(view_.path / name);
    });
    return document;
  }
  std::string text(const std::string& name) {
    std::string content;
    attempt([&] {
      if (present(name)) content = read_file(view_.path / name);
    });
    return content;
  }
  void attempt(const std::function<void()>& read) {
    try {
      read();
    } catch (const Error& error) {
      view_.problems.emplace_back(error.what());
    }
  }

 private:
  [[nodiscard]] bool present(const std::string& name) const {
    std::error_code error;
    const fs::path path = view_.path / name;
    const auto status = fs::status(path, error);
    if (!fs::exists(status)) return false;
    if (!fs::is_regular_file(status)) throw UsageError("{}: is not a regular file", path.string());
    const auto size = fs::file_size(path, error);
    if (!error && size > kLongestText) throw UsageError("{}: {} bytes are too many to read", path.string(), size);
    return true;
  }

  RunView& view_;
};

}  // namespace

RunView view_run(const fs::path& path, const RunViewOptions& options) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) throw UsageError("{}: there is no such run directory", path.string());
  if (!fs::is_directory(status))
    throw UsageError("{}: is not a run directory; give the folder that holds metrics.jsonl", path.string());

  RunView view;
  view.path = fs::absolute(path).lexically_normal();
  if (!view.path.has_filename()) view.path = view.path.parent_path();
  Reader reader(view);
  bool is_run = false;
  fs::directory_iterator entries(path, error);
  if (error) throw UsageError("{}: cannot be read: {}", path.string(), error.message());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    is_run = is_run || name == "job.json" || name == "metrics.jsonl" || name == "why.json" || name == "lock";
    view.starts = std::max(
        view.starts, static_cast<int>(std::min<std::int64_t>(number_between(name, "placement-", ".json"), 1 << 30)));
  }
  if (!is_run && view.starts == 0)
    throw UsageError("{}: is not a run directory: it holds neither job.json nor metrics.jsonl", path.string());

  view.job = reader.json("job.json");
  view.why = reader.json("why.json");
  if (view.starts > 0) view.placement = reader.json(fmt::format("placement-{}.json", view.starts));
  reader.attempt([&] {
    const fs::path metrics = view.path / "metrics.jsonl";
    view.metrics = options.whole ? read_metrics(metrics) : read_metrics_tail(metrics, kTailBytes);
  });
  if (options.whole) {
    view.job_text = reader.text("job.lua");
    reader.attempt([&] {
      const Json timeline = reader.json("log/timeline.json");
      if (!timeline.is_null()) view.timeline = PipelineTimeline::from_json(timeline, "log/timeline.json");
    });
    if (view.metrics.skipped_lines > 0)
      view.problems.push_back(fmt::format("metrics.jsonl: {} line{} torn or not a row, left out",
                                          view.metrics.skipped_lines,
                                          view.metrics.skipped_lines == 1 ? " is" : "s are"));
  }
  const Json* name = view.job.is_object() && view.job.contains("name") ? &view.job["name"] : nullptr;
  view.name = name != nullptr && name->is_string() ? name->get<std::string>() : view.path.filename().string();
  return view;
}

std::optional<double> RunView::number(const std::string& pointer) const {
  const Json::json_pointer at(pointer);
  if (!job.is_object() || !job.contains(at) || !job[at].is_number()) return {};
  return job[at].get<double>();
}

std::int64_t RunView::integer(const std::string& pointer) const {
  const double value = number(pointer).value_or(0.0);
  return value > 0.0 && value < 9e18 ? static_cast<std::int64_t>(value) : 0;
}

std::int64_t RunView::iterations() const { return integer("/train/iterations"); }

std::vector<std::int64_t> RunView::checkpoints() const {
  std::string dir = "ckpt";
  const Json::json_pointer at("/checkpoint/dir");
  if (job.is_object() && job.contains(at) && job[at].is_string()) dir = job[at].get<std::string>();
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(path / dir, error), end; !error && entry != end; entry.increment(error))
    if (const auto step = number_between(entry->path().filename().string(), "step-", ""); step >= 0)
      steps.push_back(step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string RunView::state() const {
  if (owner == Owner::kLive) return metrics.steps.empty() ? "starting" : "running";
  if (owner == Owner::kDead) return "died";
  if (why.is_object() && why.contains("exit") && why["exit"].is_number_integer()) {
    const auto code = why["exit"].get<std::int64_t>();
    return code == kExitDone ? "done" : code == kExitStopped ? "stopped" : "failed";
  }
  const std::int64_t total = iterations();
  if (!metrics.steps.empty()) return total > 0 && metrics.steps.back().step >= total ? "done" : "ended";
  return "not started";
}

std::string RunView::state_text() const {
  if (owner == Owner::kLive) return "held by " + owner_text;
  if (owner == Owner::kDead)
    return fmt::format("its owner, {}, is gone without a word; `railyard run` resumes from the last checkpoint",
                       owner_text);
  if (why.is_object())
    for (const char* key : {"detail", "reason"})
      if (why.contains(key) && why[key].is_string() && !why[key].get<std::string>().empty())
        return why[key].get<std::string>();
  return {};
}

}  // namespace railyard
