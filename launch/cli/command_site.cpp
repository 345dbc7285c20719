// railyard site --show / --check.
#include "launch/cli/command_site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "launch/cli/streams.hpp"
#include "launch/site_lookup.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

constexpr int kFindings = 1;  // exit code of --check where something is doubtful

struct Words {
  std::string file;
  bool show = false, check = false;
};

int show(const lua::SiteFile& site) {
  const auto values = site.values();
  std::size_t key_width = 0, value_width = 0;
  for (const auto& value : values) {
    key_width = std::max(key_width, value.key.size());
    value_width = std::max(value_width, std::min<std::size_t>(value.value.dump().size(), 40));
  }
  std::string text = site.file() + "\n";
  for (const auto& value : values) {
    const std::string told = value.value.is_null() ? "unknown" : value.value.dump();
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", value.key, key_width, told, value_width, value.origin);
  }
  write_standard_output(text);
  return kExitDone;
}

int check(lua::SiteFile& site) {
  const auto findings = lua::check_site(site);
  std::string text;
  for (const std::string& finding : findings) text += finding + "\n";
  if (findings.empty()) text = site.file() + ": nothing to complain about\n";
  write_standard_output(text);
  return findings.empty() ? static_cast<int>(kExitDone) : kFindings;
}

}  // namespace

std::function<int()> define_site(CLI::App& program) {
  auto words = std::make_shared<Words>();
  CLI::App* command = program.add_subcommand("site", "Shows or checks the site file that counts here.");
  CLI::Option* show_flag =
      command->add_flag("--show", words->show, "Print every value with the file and line it comes from");
  command->add_flag("--check", words->check, "Say what is wrong: exit 0 clean, 1 findings, 2 unusable")
      ->excludes(show_flag);
  command->add_option("FILE", words->file, "A site file; without it, the one that is found");
  command->footer(
      "A site file is looked for in this order: FILE, $RAILYARD_SITE, "
      "~/.config/railyard/site.lua,\n/etc/railyard/site.lua, "
      "PREFIX/etc/railyard/site.lua, a shipped one that matches the cluster, the shipped local.lua.\n"
      "Examples:\n  railyard site --show\n  railyard site --check /etc/railyard/site.lua");
  return [words] {
    if (!words->show && !words->check) throw UsageError("site: give --show or --check; see railyard site --help");
    lua::SiteFile site = load_site(words->file.empty() ? std::nullopt : std::optional(words->file));
    return words->check ? check(site) : show(site);
  };
}

}  // namespace railyard::launch
