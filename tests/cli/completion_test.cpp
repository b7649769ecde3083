#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

// The scripts by which a shell completes the words of the tool.

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::tool;

std::string completion_for(const char* shell) {
  tool t({"completion", shell});
  EXPECT_EQ(t.code(), 0) << t.err();
  return t.out();
}

std::string help_of(std::vector<std::string> words) {
  words.emplace_back("--help");
  tool t(words);
  EXPECT_EQ(t.code(), 0) << t.err();
  return t.out();
}

/// What the first words of lines are, below these titles: of "  -h,--help   Print this", "-h" and "--help".
std::vector<std::string> named_below(const std::string& help, const std::string& titles) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  bool below = false;
  const std::regex title(titles), name("  ([-a-z0-9,]+).*");
  std::smatch found;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with(' ') && line.ends_with(':'))
      below = std::regex_match(line, title);
    else if (line.empty())
      continue;
    else if (below && std::regex_match(line, found, name) && !line.starts_with("   ")) {
      std::istringstream each(found[1]);
      for (std::string one; std::getline(each, one, ',');) names.push_back(one);
    }
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

/// How the lines of a script begin that say what is offered behind `words`.
std::string begin_behind(const std::string& shell, const std::vector<std::string>& words) {
  if (shell == "bash") return "    '" + joined(words) + "') words='";
  if (shell == "zsh") return "    '" + joined(words) + "') named=(";
  if (words.empty()) return "complete -c mailgrad -n '__fish_use_subcommand'";
  return "complete -c mailgrad -n '__fish_seen_subcommand_from " + words[0] +
         (words.size() > 1 ? "; and __fish_seen_subcommand_from " + words[1] + "'" : "");
}

/// What such a line has if it offers `name`.
std::string offer(const std::string& shell, const std::string& name) {
  if (shell == "bash") return ' ' + name + ' ';
  if (shell == "zsh") return " '" + name + ':';
  if (name.starts_with("--")) return " -l " + name.substr(2) + ' ';
  return name.starts_with('-') ? " -s " + name.substr(1) + ' ' : " -f -a " + name + ' ';
}

class CompletionFor : public ::testing::TestWithParam<const char*> {
protected:
  void expect_all_offered(const std::vector<std::string>& words) {
    const std::string help = help_of(words), offered = offered_behind(words);
    const auto commands = named_below(help, "Subcommands:|Experiments:");
    std::vector<std::string> names = named_below(help, "(?!Subcommands|Experiments).*:");
    std::erase_if(names, [](const std::string& name) { return !name.starts_with('-'); });
    names.insert(names.end(), commands.begin(), commands.end());
    for (const std::string& name : names)
      EXPECT_NE(offered.find(offer(GetParam(), name)), std::string::npos)
          << "mailgrad " << joined(words) << ' ' << name;
    offered_ += names.size();
    for (const std::string& command : commands) {
      std::vector<std::string> below = words;
      below.push_back(command);
      expect_all_offered(below);
    }
  }

  /// The lines of the script on what comes behind these words, with a blank for each quote in bash.
  std::string offered_behind(const std::vector<std::string>& words) const {
    std::string all;
    std::istringstream lines(script_);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(begin_behind(GetParam(), words))) all += line + '\n';
    if (GetParam() == std::string("bash")) std::ranges::replace(all, '\'', ' ');
    return all;
  }

  const std::string script_ = completion_for(GetParam());
  std::size_t offered_ = 0;
};

TEST_P(CompletionFor, OffersEachCommandAndOptionThatIsDeclared) {
  expect_all_offered({});
  EXPECT_GT(offered_, 300U);
}

TEST_P(CompletionFor, IsUnderstood) {
  if (!std::filesystem::exists(std::string("/usr/bin/") + GetParam()))
    GTEST_SKIP() << "there is no " << GetParam();
  tool t({"-n", "-c", script_}, nullptr, {}, GetParam());
  EXPECT_EQ(t.code(), 0) << t.err();
}

INSTANTIATE_TEST_SUITE_P(Shells, CompletionFor, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return std::string(shell.param); });

/// What bash offers for the last of these words.
std::vector<std::string> offered_by_bash(const std::string& words) {
  tool t({"-c", completion_for("bash") + "COMP_WORDS=(" + words +
                    "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mailgrad; echo \"${COMPREPLY[@]}\""},
         nullptr, {}, "bash");
  EXPECT_EQ(t.code(), 0) << t.err();
  std::istringstream out(t.out());
  std::vector<std::string> offered;
  for (std::string word; out >> word;) offered.push_back(word);
  return offered;
}

TEST(CompletionInBash, OffersCommandsOptionsAndValues) {
  EXPECT_THAT(offered_by_bash("mailgrad tr"), ElementsAre("train"));
  EXPECT_THAT(offered_by_bash("mailgrad train --load-s"), ElementsAre("--load-strict"));
  EXPECT_THAT(offered_by_bash("mailgrad train --load-strict ''"), ElementsAre("yes", "no"));
  EXPECT_THAT(offered_by_bash("mailgrad train --lr 0.1 --task c"), ElementsAre("classification"));
  EXPECT_THAT(offered_by_bash("mailgrad train --policy ring"), ElementsAre("ringleader", "ringmaster"));
  EXPECT_THAT(offered_by_bash("mailgrad train --save ''"), ElementsAre())
      << "files are offered by bash itself";
  EXPECT_THAT(offered_by_bash("mailgrad lab what"), ElementsAre("what-if"));
  EXPECT_THAT(offered_by_bash("mailgrad lab stability-map --qui"), ElementsAre("--quick", "--quiet"));
  EXPECT_THAT(offered_by_bash("mailgrad keys n"), ElementsAre("new"));
  EXPECT_THAT(offered_by_bash("mailgrad completion z"), ElementsAre("zsh"));
}

// The options are those of the completion, which the tests above compare with each --help.
TEST(ManualPages, HaveEachOptionThatIsDeclared) {
  const scratch_folder folder;
  tool t({std::string("-DTOOL=") + MAILGRAD_TOOL, "-DVERSION=0", "-DFOLDER=" + folder.path().string(), "-P",
          MAILGRAD_MAN_PAGES_SCRIPT},
         nullptr, {}, "cmake");
  ASSERT_EQ(t.code(), 0) << t.err();
  std::istringstream lines(completion_for("bash"));
  const std::regex offered("    '([a-z][-a-z]*(?: [a-z][-a-z]*)?)'\\) words='(.*)' ;;");
  std::smatch found;
  std::size_t checked = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_match(line, found, offered)) continue;
    std::istringstream command(found[1]), words(found[2]);
    std::string name;
    command >> name;
    std::ifstream file(folder.path() / ("mailgrad-" + name + ".1"));
    const std::string page(std::istreambuf_iterator<char>(file), {});
    for (std::string word; words >> word;) {
      if (!word.starts_with('-')) continue;
      EXPECT_NE(page.find(std::regex_replace(word, std::regex("-"), "\\-")), std::string::npos)
          << "mailgrad " << found[1] << ' ' << word;
      ++checked;
    }
  }
  EXPECT_GT(checked, 300U);
}

TEST(Completion, IsRefusedForOtherShells) {
  tool t({"completion", "tcsh"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("must be bash, zsh or fish, not 'tcsh'"));
}

} // namespace
} // namespace mailgrad
