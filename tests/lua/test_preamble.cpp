// The lines above the Lua of a job file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lua/source/preamble.hpp"

namespace railyard::lua {
namespace {

std::vector<std::string> told(const Preamble& preamble) {
  std::vector<std::string> result;
  for (const auto& option : preamble.options) result.push_back(option.name + (option.value ? "=" + *option.value : ""));
  return result;
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Preamble, reads_every_form_of_an_option) {
  const Preamble p = split_preamble(
      "#!/usr/bin/env railyard\n#SBATCH --nodes=4 --exclusive -p gpu,cpu\n#SBATCH -N8 -t 1:00:00 --account nlp # ours\n"
      "#SBATCH --comment=\"two words\" --requeue --job-name 'x y'\n##SBATCH --nodes=99\nreturn job {}\n");
  EXPECT_THAT(told(p), ElementsAre("nodes=4", "exclusive", "partition=gpu,cpu", "nodes=8", "time=1:00:00",
                                   "account=nlp", "comment=two words", "requeue", "job-name=x y"));
  EXPECT_EQ(p.options[0].line, 2);
  EXPECT_EQ(p.options[3].line, 3);
  EXPECT_THAT(p.warnings, IsEmpty());
}

TEST(Preamble, keeps_line_numbers_and_lengths) {
  const std::string text = "#!/x\n# y\n\nreturn 1\n# not for the shell: Lua refuses it\n";
  const Preamble p = split_preamble(text);
  EXPECT_EQ(p.lua.size(), text.size());
  EXPECT_EQ(std::count(p.lua.begin(), p.lua.end(), '\n'), 5);
  EXPECT_EQ(p.lua.find("return 1"), text.find("return 1"));
  EXPECT_NE(p.lua.find("# not"), std::string::npos);
}

TEST(Preamble, warns_of_what_hides_options_from_sbatch) {
  EXPECT_THAT(split_preamble("#!/x\n--[[ long\n#SBATCH -N 2\n]]\nreturn 1").warnings,
              ElementsAre(HasSubstr("3: this #SBATCH line is hidden")));
  EXPECT_THAT(split_preamble("#!/x\n-- a remark\n#SBATCH -N 2\n#SBATCH -n 2\nreturn 1").warnings,
              ElementsAre(HasSubstr("stops reading at line 2")));
  EXPECT_THAT(split_preamble("#!/x\r\n#SBATCH -N 2\r\nreturn 1\r\n").warnings, ElementsAre(HasSubstr("DOS line ends")));
  EXPECT_THAT(split_preamble("\xEF\xBB\xBF#!/x\nreturn 1").warnings, ElementsAre(HasSubstr("byte order mark")));
  EXPECT_THAT(split_preamble("#!/x\n#SBATCH--nodes=2\nreturn 1").warnings, ElementsAre(HasSubstr("does not read")));
  EXPECT_THAT(split_preamble("#!/x\n#SBATCH nodes=2\nreturn 1").warnings,
              ElementsAre(HasSubstr("no option of sbatch")));
}

TEST(Preamble, takes_any_text) {
  for (const char* text : {"", "#", "#\n", "#SBATCH", "#SBATCH ", "#SBATCH \"open", "#SBATCH -", "#SBATCH --",
                           "#SBATCH -N", "--[[", "--[==[ x ]=] ", "\n\n\n", "\\"})
    EXPECT_EQ(split_preamble(text).lua.size(), std::string(text).size()) << text;
}

}  // namespace
}  // namespace railyard::lua
