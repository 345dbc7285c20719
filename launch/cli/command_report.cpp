// railyard report: a run as one HTML page.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "launch/cli/report.hpp"
#include "launch/run_sight.hpp"
#include "runtime/base/error.hpp"
#include "runtime/report/format.hpp"
#include "runtime/report/report_page.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

void write_stream(std::FILE* stream, const std::string& name, const std::string& page) {
  if (std::fwrite(page.data(), 1, page.size(), stream) != page.size() || std::fflush(stream) != 0)
    throw RunError("{}: cannot write: {}", name, std::strerror(errno));
}

void write_page(const fs::path& output, const std::string& page) {
  std::error_code error;
  const auto status = fs::status(output, error);
  if (fs::is_directory(status)) throw UsageError("-o {}: is a directory; name a file in it", output.string());
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // a device or pipe is written to, not replaced
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(output.c_str(), "w"), &std::fclose);
    if (!file) throw UsageError("-o {}: cannot be written: {}", output.string(), std::strerror(errno));
    write_stream(file.get(), output.string(), page);
    return;
  }
  try {
    write_file_atomic(output, page);
  } catch (const RunError& problem) {
    throw UsageError("{}; name a writable file with -o", problem.what());
  }
}

int report(const fs::path& directory, const std::string& output) {
  RunView run = sight_run(directory);
  if (!run.timeline) run.timeline = simulated_timeline(run);
  const std::string page = report_page(run);
  if (output == "-") {
    write_stream(stdout, "standard output", page);
    return kExitDone;
  }
  const fs::path file = output.empty() ? run.path / "report.html" : fs::path(output);
  write_page(file, page);
  fmt::print("{}: {}, {} steps ({})\n", file.string(), run.state(),
             format_grouped(static_cast<double>(run.metrics.steps.size())),
             format_bytes(static_cast<double>(page.size())));
  return kExitDone;
}

}  // namespace

std::function<int()> define_report(CLI::App& program) {
  struct Options {
    std::string directory, output;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "report", "Draw a run, live or ended, as one HTML page: curves, timeline, placement, settings.");
  command->add_option("RUN_DIR", options->directory, "Directory of the run, such as runs/NAME")->required();
  command->add_option("-o,--output", options->output, "File to write, - for standard output [RUN_DIR/report.html]");
  command->footer("Examples:\n  railyard report runs/first-train\n  railyard report runs/first-train -o ~/first.html");
  return [options] { return report(options->directory, options->output); };
}

}  // namespace railyard::launch
