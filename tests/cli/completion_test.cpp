#include <mailgrad/tests/cli/tool.hpp>

#include <chrono>
#include <regex>

// What is made of the options: scripts by which a shell completes the words of the tool, and manual pages;
// and what cmake/mailgrad_commit.cmake finds out of a folder of sources.

namespace mailgrad::testing {
namespace {

std::string completion_for(const char* shell) { return done(words{"completion", shell}).out; }

/// What the first words of lines are, below these titles: of "  -h,--help   Print this", "-h" and "--help".
words named_below(const std::string& help, const std::string& titles) {
  words names;
  bool below = false;
  const std::regex title(titles), name("  ([-a-z0-9,]+).*");
  std::smatch found;
  for (const std::string& line : lines_of(help))
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

std::string joined(const words& given) {
  std::string all;
  for (const std::string& word : given) all += (all.empty() ? "" : " ") + word;
  return all;
}

/// How the lines of a script begin that say what is offered behind these words.
std::string begin_behind(const std::string& shell, const words& given) {
  if (shell == "bash") return "    '" + joined(given) + "') words='";
  if (shell == "zsh") return "    '" + joined(given) + "') named=(";
  if (given.empty()) return "complete -c mailgrad -n '__fish_use_subcommand'";
  return "complete -c mailgrad -n '__fish_seen_subcommand_from " + given[0] +
         (given.size() > 1 ? "; and __fish_seen_subcommand_from " + given[1] + "'" : "");
}

/// What such a line has if it offers `name`.
std::string offer(const std::string& shell, const std::string& name) {
  if (shell == "bash") return ' ' + name + ' ';
  if (shell == "zsh") return " '" + name + ':';
  if (name.starts_with("--")) return " -l " + name.substr(2) + ' ';
  return name.starts_with('-') ? " -s " + name.substr(1) + ' ' : " -f -a " + name + ' ';
}

class CompletionFor : public TestWithParam<const char*> {
protected:
  void expect_all_offered(const words& given) {
    const std::string help = done(given + "--help").out, offered = offered_behind(given);
    const words commands = named_below(help, "Subcommands:|Experiments:");
    words names = named_below(help, "(?!Subcommands|Experiments).*:");
    std::erase_if(names, [](const std::string& name) { return !name.starts_with('-'); });
    names = names + commands;
    for (const std::string& name : names)
      EXPECT_NE(offered.find(offer(GetParam(), name)), std::string::npos)
          << "mailgrad " << joined(given) << ' ' << name;
    offered_ += names.size();
    for (const std::string& command : commands) expect_all_offered(given + command);
  }

  /// The lines of the script on what comes behind these words, with a blank for each quote in bash.
  std::string offered_behind(const words& given) const {
    std::string all;
    for (const std::string& line : lines_of(script_))
      if (line.starts_with(begin_behind(GetParam(), given))) all += line + '\n';
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

INSTANTIATE_TEST_SUITE_P(Shells, CompletionFor, Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return std::string(shell.param); });

/// What bash offers for the last of these words.
words offered_by_bash(const std::string& typed) {
  tool t({"-c", completion_for("bash") + "COMP_WORDS=(mailgrad " + typed +
                    "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mailgrad; echo \"${COMPREPLY[@]}\""},
         nullptr, {}, "bash");
  EXPECT_EQ(t.code(), 0) << t.err();
  std::istringstream out(t.out());
  words offered;
  for (std::string word; out >> word;) offered.push_back(word);
  return offered;
}

TEST(CompletionInBash, OffersCommandsOptionsAndValues) {
  for (const auto& [typed, offered] : {std::pair{"tr", "train"_w},
                                       {"train --load-s", "--load-strict"_w},
                                       {"train --load-strict ''", "yes no"_w},
                                       {"train --lr 0.1 --task c", "classification"_w},
                                       {"train --policy ring", "ringleader ringmaster"_w},
                                       {"train --save ''", ""_w}, // files are offered by bash itself
                                       {"lab what", "what-if"_w},
                                       {"lab stability-map --qui", "--quick --quiet"_w},
                                       {"keys n", "new"_w},
                                       {"completion z", "zsh"_w}})
    EXPECT_EQ(offered_by_bash(typed), offered) << typed;
}

// The options are those of the completion, which the tests above compare with each --help.
TEST(ManualPages, HaveEachOptionThatIsDeclared) {
  const scratch_folder folder;
  tool t({std::string("-DTOOL=") + MAILGRAD_TOOL, "-DVERSION=0", "-DFOLDER=" + folder.path().string(), "-P",
          MAILGRAD_MAN_PAGES_SCRIPT},
         nullptr, {}, "cmake");
  ASSERT_EQ(t.code(), 0) << t.err();
  const std::regex offered("    '([a-z][-a-z]*(?: [a-z][-a-z]*)?)'\\) words='(.*)' ;;");
  std::smatch found;
  std::size_t checked = 0;
  for (const std::string& line : lines_of(completion_for("bash"))) {
    if (!std::regex_match(line, found, offered)) continue;
    std::istringstream command(found[1]), all(found[2]);
    std::string name;
    command >> name;
    const std::string page = content_of(folder.path() / ("mailgrad-" + name + ".1"));
    for (std::string word; all >> word;) {
      if (!word.starts_with('-')) continue;
      EXPECT_NE(page.find(std::regex_replace(word, std::regex("-"), "\\-")), std::string::npos)
          << "mailgrad " << found[1] << ' ' << word;
      ++checked;
    }
  }
  EXPECT_GT(checked, 300U);
}

TEST(Completion, IsRefusedForOtherShells) {
  EXPECT_THAT(refusal("completion tcsh"_w), HasSubstr("must be bash, zsh or fish, not 'tcsh'"));
}

struct BuildCommit : Test {
  void SetUp() override {
    if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no git here";
  }
  void run(const std::string& command) const {
    const std::string all = "cd " + sources_.path().string() + " && (" + command + ") >/dev/null 2>&1";
    ASSERT_EQ(std::system(all.c_str()), 0) << all;
  }
  void commit(const std::string& file) const {
    sources_.write(file, "text");
    run("git init -q && git add . && git -c user.name=a -c user.email=b commit -qm c");
  }
  /// As the generated source has it.
  std::string asked(const std::string& folder = "") const {
    run("cmake -DSOURCE=" + (sources_.path() / folder).string() + " -DOUTPUT=" + output().string() + " -P " +
        MAILGRAD_COMMIT_SCRIPT);
    const std::string text = content_of(output());
    const std::size_t begin = text.find('"') + 1;
    return text.substr(begin, text.find('"', begin) - begin);
  }
  std::filesystem::path output() const { return build_.path() / "commit.cpp"; }

  const scratch_folder sources_;
  const scratch_folder build_;
};

TEST_F(BuildCommit, IsUnknownWhereThereIsNoRepository) { EXPECT_EQ(asked(), "unknown"); }

TEST_F(BuildCommit, SaysWhetherFilesHaveChangedSince) {
  commit("a.cpp");
  const std::string clean = asked();
  EXPECT_EQ(clean.size(), 12U) << clean;
  EXPECT_EQ(clean.find_first_not_of("0123456789abcdef"), clean.npos) << clean;
  sources_.write("untracked", "text");
  EXPECT_EQ(asked(), clean);
  sources_.write("a.cpp", "other text");
  EXPECT_EQ(asked(), clean + "-dirty");
}

TEST_F(BuildCommit, IsNotThatOfARepositoryAround) {
  commit("a.cpp");
  std::filesystem::create_directory(sources_.path() / "unpacked");
  EXPECT_EQ(asked("unpacked"), "unknown");
}

TEST_F(BuildCommit, LeavesItsSourceAloneUntilItChanges) {
  commit("a.cpp");
  asked();
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(output(), old);
  asked();
  EXPECT_EQ(std::filesystem::last_write_time(output()), old);
  sources_.write("a.cpp", "other text");
  asked();
  EXPECT_GT(std::filesystem::last_write_time(output()), old);
}

} // namespace
} // namespace mailgrad::testing
