// Writing and reading metrics.jsonl.
#include "runtime/report/metrics_log.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLongestLine = std::size_t{1} << 20;  // longer ones are no rows of ours

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

// Takes the numbers of one flat object as the parser meets them: a document tree for each of a million rows costs more
// than all the rest of a report.
class RowReader final : public nlohmann::json_sax<Json> {
 public:
  StepRecord step;
  EvaluationRecord evaluation;
  bool is_step = false, is_evaluation = false;

  // Whether `line` is a row; then `step` or `evaluation` hold it.
  bool read(std::string_view line) {
    step = StepRecord{};
    step.loss = step.lr = step.grad_norm = step.tokens_per_s = step.tokens_per_s_per_gpu = step.tflops_per_gpu =
        step.step_s = kUnknown;
    evaluation = EvaluationRecord{0, kUnknown, kUnknown};
    is_step = is_evaluation = has_step_ = false;
    depth_ = 0;
    if (!Json::sax_parse(line.begin(), line.end(), this)) return false;
    evaluation.step = step.step;
    return has_step_ && (is_step || is_evaluation);
  }

  bool null() override { return depth_ > 0 && (depth_ > 1 || take_null()); }
  bool boolean(bool) override { return ignored(); }
  bool number_integer(std::int64_t value) override { return take(static_cast<double>(value), value); }
  bool number_unsigned(std::uint64_t value) override {
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return take(static_cast<double>(value), static_cast<std::int64_t>(std::min(value, most)));
  }
  bool number_float(double value, const std::string&) override {
    const bool whole = std::abs(value) < 9e18 && value == std::floor(value);
    return take(value, whole ? static_cast<std::int64_t>(value) : -1);
  }
  bool string(std::string&) override { return ignored(); }
  bool binary(Json::binary_t&) override { return ignored(); }
  bool key(std::string& name) override {
    if (depth_ == 1) key_ = name;
    return true;
  }
  bool start_object(std::size_t) override { return ++depth_ < kDeepest; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return depth_ > 0 && ++depth_ < kDeepest; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr int kDeepest = 64;

  // A value of a kind that no key of ours has; one of a key of ours makes the line invalid.
  [[nodiscard]] bool ignored() const {
    return depth_ > 0 && (depth_ > 1 || (key_ != "step" && key_ != "loss" && key_ != "valid_loss"));
  }
  bool take_null() {
    if (key_ == "loss") is_step = true;
    if (key_ == "valid_loss") is_evaluation = true;
    return key_ != "step";
  }
  bool take(double value, std::int64_t whole) {
    if (depth_ != 1) return depth_ > 1;
    if (key_ == "step") {
      step.step = whole;
      has_step_ = true;
      return whole >= 0;
    }
    if (key_ == "loss") {
      step.loss = value;
      is_step = true;
    } else if (key_ == "valid_loss") {
      evaluation.valid_loss = value;
      is_evaluation = true;
    } else if (key_ == "valid_s")
      evaluation.seconds = value;
    else if (key_ == "lr")
      step.lr = value;
    else if (key_ == "grad_norm")
      step.grad_norm = value;
    else if (key_ == "tokens")
      step.tokens = std::max<std::int64_t>(whole, 0);
    else if (key_ == "tokens_per_s")
      step.tokens_per_s = value;
    else if (key_ == "tokens_per_s_per_gpu")
      step.tokens_per_s_per_gpu = value;
    else if (key_ == "tflops_per_gpu")
      step.tflops_per_gpu = value;
    else if (key_ == "mfu")
      step.mfu = value;
    else if (key_ == "mem_gib")
      step.mem_gib = value;
    else if (key_ == "step_s")
      step.step_s = value;
    return true;
  }

  std::string key_;
  int depth_ = 0;
  bool has_step_ = false;
};

// Orders rows by step and keeps the last row of each.
template <class Record>
void keep_last_rows(std::vector<Record>& rows) {
  const auto later = [](const Record& a, const Record& b) { return a.step >= b.step; };
  if (std::adjacent_find(rows.begin(), rows.end(), later) == rows.end()) return;
  std::stable_sort(rows.begin(), rows.end(), [](const Record& a, const Record& b) { return a.step < b.step; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i + 1 == rows.size() || rows[i + 1].step != rows[i].step) rows[kept++] = rows[i];
  rows.resize(kept);
}

// Calls `take` with each line of the stream, without its newline; `too_long` for each that is no line.
void each_line(std::istream& in, const std::function<void(std::string_view)>& take,
               const std::function<void()>& too_long) {
  std::string buffer(std::size_t{1} << 18, '\0');
  std::string line;
  bool dropping = false;
  const auto add = [&](std::string_view part) {
    if (dropping) return;
    if (line.size() + part.size() > kLongestLine) {
      dropping = true;
      line.clear();
    } else {
      line += part;
    }
  };
  const auto end_line = [&] {
    if (dropping)
      too_long();
    else
      take(line);
    dropping = false;
    line.clear();
  };
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    std::string_view rest(buffer.data(), static_cast<std::size_t>(in.gcount()));
    for (std::size_t newline = rest.find('\n'); newline != std::string_view::npos; newline = rest.find('\n')) {
      add(rest.substr(0, newline));
      end_line();
      rest.remove_prefix(newline + 1);
    }
    add(rest);
  }
  if (dropping || !line.empty()) end_line();
}

MetricsHistory read_from(const std::filesystem::path& path, std::int64_t bytes) {
  MetricsHistory history;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return history;
  if (error) throw UsageError("{}: cannot read: {}", path.string(), error.message());
  if (!std::filesystem::is_regular_file(status)) throw UsageError("{}: is not a regular file", path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UsageError("{}: cannot read: {}", path.string(), std::strerror(errno));
  if (bytes > 0) {
    in.seekg(0, std::ios::end);
    const std::streamoff size = in.tellg();
    const bool whole = size <= bytes;
    in.seekg(whole ? 0 : size - bytes - 1);
    if (!whole) in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }

  RowReader row;
  each_line(
      in,
      [&](std::string_view line) {
        if (line.empty()) return;
        if (!row.read(line)) {
          ++history.skipped_lines;
          return;
        }
        if (row.is_step) {
          if (!history.steps.empty() && row.step.step <= history.steps.back().step)
            history.resumes.push_back(row.step.step);
          history.steps.push_back(row.step);
        }
        if (row.is_evaluation) history.evaluations.push_back(row.evaluation);
      },
      [&] { ++history.skipped_lines; });
  if (in.bad()) throw UsageError("{}: cannot read: {}", path.string(), std::strerror(errno));
  keep_last_rows(history.steps);
  keep_last_rows(history.evaluations);
  return history;
}

}  // namespace

Json metrics_row(const StepRecord& record, const Json& more) {
  Json row = Json::object();
  row["step"] = record.step;
  row["loss"] = number(record.loss);
  row["lr"] = number(record.lr);
  row["grad_norm"] = number(record.grad_norm);
  row["tokens"] = record.tokens;
  row["tokens_per_s"] = number(record.tokens_per_s);
  row["tokens_per_s_per_gpu"] = number(record.tokens_per_s_per_gpu);
  row["tflops_per_gpu"] = number(record.tflops_per_gpu);
  row["mfu"] = number(record.mfu);
  row["mem_gib"] = number(record.mem_gib);
  row["step_s"] = number(record.step_s);
  for (const auto& [key, value] : more.items()) row[key] = value;
  return row;
}

Json metrics_row(const EvaluationRecord& record) {
  Json row = Json::object();
  row["step"] = record.step;
  row["valid_loss"] = number(record.valid_loss);
  row["valid_s"] = number(record.seconds);
  return row;
}

MetricsLog::MetricsLog(const std::filesystem::path& path) : file_(path) {
  if (file_.ends_otherwise_than('\n')) file_.append("\n");
}

void MetricsLog::append(const StepRecord& record, const Json& more) { append_line(metrics_row(record, more)); }
void MetricsLog::append(const EvaluationRecord& record) { append_line(metrics_row(record)); }
void MetricsLog::sync() { file_.sync(); }

void MetricsLog::append_line(const Json& row) {
  // Names and texts in `more` may come from files: bytes that are no UTF-8 are replaced, not refused.
  std::string line = row.dump(-1, ' ', false, Json::error_handler_t::replace);
  line += '\n';
  file_.append(line);
}

MetricsHistory read_metrics(const std::filesystem::path& path) { return read_from(path, 0); }

MetricsHistory read_metrics_tail(const std::filesystem::path& path, std::int64_t bytes) {
  return read_from(path, std::max<std::int64_t>(bytes, 1));
}

}  // namespace railyard
