#include <mailgrad/tests/cli/tool.hpp>

#include <mailgrad/tensor/device.hpp>

#include <chrono>
#include <regex>

// How the tool takes the words of its command line, what it says of wrong ones, and what it answers about
// itself: its help, its version, the devices that it finds and keys that it makes. Also what is made of the
// options: scripts by which a shell completes words, and manual pages.

namespace mailgrad::testing {
namespace {

TEST(Tool, SaysHowGpusAreNamedWhereDevicesAreTaken) {
  for (const char* command : {"train", "serve", "launch", "join", "replay", "graph"}) {
    std::istringstream help(done(words{command, "--help"}).out);
    std::string text;
    for (std::string word; help >> word;) text += word + ' ';
    EXPECT_THAT(text, HasSubstr("streams of a GPU, cuda:0,cuda:0/1")) << command;
  }
}

TEST(Tool, SaysWithoutACommandWhatToTypeFirst) {
  tool t(words{});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(StartsWith("mailgrad: a command is missing."), HasSubstr("\n  mailgrad train "),
                             HasSubstr("\n  mailgrad --help ")));
  EXPECT_THAT(t.out(), IsEmpty());
}

TEST(Tool, HelpsWithEachCommand) {
  const std::vector<words> commands{
      "--help train export report devices graph keys"_w,
      "train --model --data --devices --policy --optimizer --lr --batch --epochs --steps --shards --seed "
      "--report async hogwild Example '{\"layers\": [' graph/models/model_file.hpp 'sgd 0.001' "
      "'adagrad 0.01' 'delayed-nesterov 0.7'"_w,
      "export --model-file --onnx 'version 17'"_w,
      "report --out --svg --png gnuplot"_w,
      "devices 'mailgrad devices'"_w,
      "graph --model Graphviz 'file FILE' '--out FILE'"_w,
      "serve '--listen HOST:PORT' --workers --keys 'mailgrad join'"_w,
      "launch '--listen HOST:PORT' '--rendezvous DIR' --meet-within --keys 'mpirun -n 4'"_w,
      "join ADDRESS --devices --keys"_w,
      "status ADDRESS --json"_w,
      "switch ADDRESS POLICY"_w,
      "stop ADDRESS WHY"_w,
      "keys new 'mailgrad keys new run-keys'"_w};
  for (const words& command : commands) {
    const spoken help = done(command[0] == "--help" ? "--help"_w : words{command[0], "--help"});
    for (std::size_t i = 1; i < command.size(); ++i) EXPECT_THAT(help.out, HasSubstr(command[i]));
    for (const std::string& line : lines_of(help.out)) EXPECT_LE(line.size(), 100U) << line;
    EXPECT_THAT(help.err, IsEmpty());
  }
}

/// Help of train lists models, policies and rates; that of the others says so.
TEST(Tool, SaysWhereHelpListsWhatAnOptionTakes) {
  for (const char* command : {"serve", "launch"})
    EXPECT_THAT(done(words{command, "--help"}).out,
                AllOf(Not(HasSubstr("listed below")), HasSubstr("'mailgrad help train'")))
        << command;
  EXPECT_THAT(done("train --help"_w).out,
              AllOf(HasSubstr("listed below"), Not(HasSubstr("--policy WORD=async"))));
}

TEST(Tool, HelpsAlsoByTheWordHelp) {
  EXPECT_EQ(done("help"_w).out, done("--help"_w).out);
  EXPECT_EQ(done("help keys new"_w).out, done("keys new --help"_w).out);
  expect_error("help jion"_w, "did you mean 'join'?");
}

TEST(Tool, ShowsTheWordsThatAnOptionTakes) {
  EXPECT_THAT(done("train --help"_w).out, HasAll("--load-strict yes|no=yes ", "--keep-weights last|best "));
}

TEST(Tool, TellsItsVersion) {
  EXPECT_TRUE(std::regex_match(
      done("--version"_w).out,
      std::regex(
          R"(mailgrad \d+\.\d+\.\d+\ncommit   (unknown|[0-9a-f]{12,40}(-dirty)?)\ncompiler \w+ [\d.]+\n)"
          R"(kernels  for (AVX-512|AVX2 with FMA|AVX|SSE2|any processor)\n)")));
}

TEST(Tool, ListsTheDevicesThatTrain) {
  const std::string all = done("devices"_w).out;
  ASSERT_THAT(all, StartsWith("cpu:0\n"));
  EXPECT_THAT(lines_of(all).back(), AnyOf(StartsWith("no GPU: "), StartsWith("cuda:")))
      << "one line says which GPU, or why none";
}

TEST(Tool, ListsTheDevicesThereAreWhenOneIsNot) {
  expect_refused("train --devices cpu:0,cuda:99"_w, "cuda:99", "cpu:0");
}

TEST(Tool, NamesTheNearestRightWord) {
  expect_refused("train --devises cpu:0"_w, "--devises", "'--devices'");
  expect_refused("train --polcy=sync"_w, "'--polcy'", "'--policy'");
  expect_refused("trian"_w, "'trian'", "'train'");
  for (const auto& [option, word, right] : {std::tuple{"--policy", "asinc", "'async'"},
                                            {"--optimizer", "adan", "adam"},
                                            {"--model", "lenett", "'lenet'"},
                                            {"--schedule", "cosin", "cosine"}})
    expect_refused(words{"train", option, word, "--data", "/nowhere"}, word, right);
}

TEST(Tool, ListsWhatThereIsWhereNothingIsNear) {
  for (const auto& [option, word, known] :
       {std::tuple{"--optimizer", "conjugate", "known are: sgd, momentum"},
        {"--policy", "federated", "known are: async, sync"},
        {"--cure", "vaccine", "known are: none, inverse"},
        {"--model", "transformer", "known are: "}})
    expect_refused(words{"train", option, word, "--data", MAILGRAD_SMALL_CSV}, known);
  expect_refused("train --quantum 1"_w, "'mailgrad train --help' lists");
  expect_refused("bake"_w, "known are: train, serve");
  expect_refused("train -"_w);
}

TEST(Tool, RefusesValuesOutOfRangeInOneLine) {
  for (const words& wrong : {"--batch 0"_w, "--batch -3"_w, "--batch many"_w, "--lr -1"_w, "--lr nan"_w,
                             "--shards 0"_w, "--clip-norm -1"_w, "--devices tpu:0"_w, "--epochs 0"_w,
                             "--run-ahead 2"_w, "--seed x"_w, "--task guessing"_w}) {
    tool t("train --model softmax --data"_w + MAILGRAD_SMALL_CSV + wrong);
    EXPECT_EQ(t.code(), 2) << wrong[0] << ' ' << wrong[1];
    EXPECT_THAT(t.err(), IsOneLine());
    EXPECT_THAT(t.out(), IsEmpty());
  }
}

TEST(Tool, RefusesAnotherPrecisionOnCores) {
  for (const char* precision : {"tf32", "bfloat16"})
    expect_refused(train("--precision"_w + precision), precision, "cpu:0 computes in float32");
  expect_refused("train --precision half"_w, "float32, tf32 or bfloat16");
  expect_refused(train("--precision tf32 --processes 2"_w), "--precision");
}

/// Their workers are other processes, so their weights are on the host.
TEST(Tool, OffersNoPlaceForWeightsToServers) {
  EXPECT_THAT(done("train --help"_w).out, HasAll("--parameters", "--run-ahead"));
  for (const char* command : {"serve", "launch"}) {
    EXPECT_THAT(done(words{command, "--help"}).out,
                Not(AnyOf(HasSubstr("--parameters"), HasSubstr("--run-ahead"))));
    expect_refused(words{command} + "--parameters cuda:0"_w,
                   "no option '--parameters'; 'mailgrad train' has it");
  }
}

TEST(Tool, TakesHostAndCpuForTheHost) {
  const words run = train("--steps 2 --quiet --parameters"_w);
  for (const char* list : {"host", "cpu", "cpu:0", "host,cpu", "cpu, host"})
    done(run + list + "--shards 2"_w);
  done(run + "cpu --processes 1"_w);
  EXPECT_THAT(tool(run + "cpu,host").err(), HasSubstr("--parameters: host,host: 2 places for 1 shard; give"));
  if (available_devices().size() > 1) {
    EXPECT_THAT(tool(run + "cpu:1").err(), HasSubstr("belong to no core; say host"));
  }
  EXPECT_THAT(tool(run + "HOST").err(),
              AllOf(IsOneLine(), HasSubstr("--parameters takes host and GPUs; device 'HOST': expected")));
  EXPECT_THAT(tool(run + "cpu,cuda:0 --processes 1"_w).err(),
              HasSubstr("the weights lie on the host; leave it out"));
}

TEST(Tool, RefusesToRunAheadWhereNoWorkerCan) {
  const auto refused = [](const words& more, const std::string& why) {
    expect_refused(train("--steps 2 --parameters host --run-ahead 1"_w + more),
                   "--run-ahead 1: workers do not run ahead " + why);
  };
  refused({}, "unless all weights are on their GPU; take --run-ahead 0");
  refused("--clip-norm 1"_w, "with --clip-norm");
  refused("--sample-gap 1"_w, "with --sample-gap");
  refused("--policy 'async, hogwild@1'"_w, "in a run under hogwild");
  if (available_devices().size() > 1)
    refused("--pipeline --devices cpu:0,cpu:1"_w, "if a model spans devices");
}

TEST(Tool, TakesEitherStepsOrEpochs) {
  expect_refused("train --steps 5 --epochs 2"_w, "--steps", "--epochs");
}

TEST(Tool, TakesOneListOfDevices) {
  expect_refused("train --devices cpu:0 --devices cpu:0"_w, "--devices");
  expect_refused("train --devices cpu:0,,cpu:0"_w);
}

/// Ranks of a launcher share standard error, where parts of a line would mix with those of another.
TEST(Tool, WritesALineOfFailureAtOnce) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_DIRECT), 0); // each read gives what one write has left
  const int before = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  EXPECT_NE(std::system((MAILGRAD_TOOL + std::string(" trian")).c_str()), 0);
  dup2(before, STDERR_FILENO);
  for (const int open : {before, ends[1]}) close(open);
  std::string line(4096, '\0');
  const ssize_t length = read(ends[0], line.data(), line.size());
  close(ends[0]);
  ASSERT_GT(length, 0);
  line.resize(static_cast<std::size_t>(length));
  EXPECT_THAT(line, IsOneLine());
}

TEST(Tool, SaysSoWhenItsOutputIsLost) {
  for (const words& given : {"graph --model mlp"_w, "devices"_w, "--help"_w, "train --help"_w}) {
    tool t(given, "/dev/full");
    EXPECT_EQ(t.code(), 1) << given[0];
    EXPECT_THAT(t.err(), EndsWith("mailgrad: standard output cannot be written: No space left on device\n"));
    if (given.back() == "--help") {
      EXPECT_THAT(t.err(), IsOneLine());
    }
  }
}

TEST(Tool, RefusesWhatIsNoWholeNumberInOneShortLine) {
  for (const char* word : {"-1", "0", "x", "1.5"}) {
    const std::string line = refusal("train --batch"_w + word);
    EXPECT_THAT(line, HasSubstr("must be a whole number from 1 on, not '" + std::string(word) + "'"));
    EXPECT_LT(line.size(), 140U);
  }
  refusal("train --steps 0"_w);
}

/// A wrong command line, and a word that its message has to have.
struct wrong_line {
  words given;
  const char* says;
};

std::ostream& operator<<(std::ostream& out, const wrong_line& line) {
  out << "mailgrad";
  for (const std::string& word : line.given) out << ' ' << word;
  return out;
}

class WrongLine : public TestWithParam<wrong_line> {};

TEST_P(WrongLine, IsRefusedInALineOfOurOwnThatSaysWhatToDo) {
  tool t(as_typed{GetParam().given});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.out(), IsEmpty());
  EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr(GetParam().says)));
  for (const char* parsers_own :
       {"required", "requires", "excludes", "At Most", "At least", "Could not convert", "UINT", "FLOAT",
        "TEXT", "not in range", "not in {", "ubcommand", "not expected", "flag override", "Validat"})
    EXPECT_THAT(t.err(), Not(HasSubstr(parsers_own)));
  EXPECT_THAT(t.err(), ContainsRegex("lists what it takes|did you mean|known are|must be|give |write "));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, WrongLine,
    Values(wrong_line{"lab"_w, "a command is missing; known are: run"},
           wrong_line{"trian --batch 3"_w, "no command 'trian'; did you mean 'train'?"},
           wrong_line{"watch"_w, "mailgrad has no command 'watch'; did you mean"},
           wrong_line{"help train nope"_w, "help: 'train' has no command 'nope'"},
           wrong_line{"lab staleness-laws --out x"_w, "no option '--out'; did you mean '--output'?"},
           wrong_line{"test"_w, "the option '--model-file' is missing: The trained model; 'mailgrad test"},
           wrong_line{"-"_w, "no option '-'"},
           wrong_line{"--batch 3 train"_w, "write 'mailgrad train --batch ...'"},
           wrong_line{"--model=mlp train"_w, "write 'mailgrad train --model ...'"},
           wrong_line{"--quantum train"_w, "no option '--quantum'"},
           wrong_line{"devices cpu:0"_w, "mailgrad devices has no argument 'cpu:0'"},
           wrong_line{"replay"_w, "'recording' is missing: The file that 'mailgrad train --record' wrote"},
           wrong_line{"replay a b"_w, "mailgrad replay has no argument 'b'"},
           wrong_line{"graph --replicate"_w, "--replicate makes sense only with --devices"},
           wrong_line{"graph --input 3 --data x"_w, "--input and --data exclude each other"},
           wrong_line{"graph --input 3,x"_w, "must be a whole number from 1 on, not 'x'"},
           wrong_line{"graph --classes ''"_w, "--classes"}));

INSTANTIATE_TEST_SUITE_P(
    Values, WrongLine,
    Values(wrong_line{"train --batch"_w, "--batch needs a value"},
           wrong_line{"train --report"_w, "--report needs a value"},
           wrong_line{"train --report="_w, "--report needs a value"},
           wrong_line{"train --report ''"_w, "--report: a file name is missing"},
           wrong_line{"train --model --lr 1"_w, "--model needs a value before '--lr'"},
           wrong_line{"train --batch --lr 1"_w, "--batch"},
           wrong_line{"train --batch 3 --batch 4"_w, "--batch is given 2 times: give it once"},
           wrong_line{"train --quiet=3"_w, "--quiet takes no value"},
           wrong_line{"train --quiet 3"_w, "no argument '3'"},
           wrong_line{"train --steps 5 --epochs 5"_w, "exclude each other: give one"},
           wrong_line{"train --run-ahead 0"_w, "--run-ahead makes sense only with --parameters"},
           wrong_line{"train --outer-lr 1"_w, "--outer-lr makes sense only with --local-steps"},
           wrong_line{"train --lr abc"_w, "--lr: must be a finite number, such as 0.01, not 'abc'"},
           wrong_line{"train --lr 1e999"_w, "--lr: must be a finite number"},
           wrong_line{"train --lr ''"_w, "--lr: must be a finite number"},
           wrong_line{"train --l2 0,1"_w, "--l2: must be a finite number"},
           wrong_line{"train --shards 5000000000"_w, "a whole number from 1 to 4294967295"},
           wrong_line{"train --seed -1"_w, "a whole number from 0 on"},
           wrong_line{"train --seed 99999999999999999999"_w,
                      "--seed: must be a whole number below 2^64, not '99999999999999999999'"},
           wrong_line{"train --lr -1"_w, "--lr: must be a number from 0 to 3.40282e+38, not '-1'"},
           wrong_line{"train --temperature hot"_w, "a number from 0 to 1000, not 'hot'"},
           wrong_line{"train --task guess"_w, "automatic, classification or regression, not 'guess'"},
           wrong_line{"train --keep-weights worst"_w, "--keep-weights: must be last or best, not 'worst'"},
           wrong_line{"train --load m --load-strict 2"_w, "--load-strict: must be yes or no, not '2'"},
           wrong_line{"train --split even"_w, "random or time, not 'even'"}));

INSTANTIATE_TEST_SUITE_P(
    Names, WrongLine,
    Values(wrong_line{"train --batchsize 3"_w, "'--batchsize'; did you mean '--batch'?"},
           wrong_line{"train --batch-size=3"_w, "'--batch-size'; did you mean '--batch'?"},
           wrong_line{"train --learning-rate 1"_w, "did you mean '--lr'?"},
           wrong_line{"train --optim sgd"_w, "did you mean '--optimizer'?"},
           wrong_line{"train --device cuda:0"_w, "'--device'; did you mean '--devices'?"},
           wrong_line{"test --devices cuda:0"_w, "'--devices'; did you mean '--device'?"},
           wrong_line{"train -s"_w, "no option '-s'"}, wrong_line{"train -x"_w, "no option '-x'"},
           wrong_line{train("--optimizer adam:lr=3"_w), "give the learning rate by --lr"},
           wrong_line{train("--optimizer adam:beta1=0.5,"_w), "a setting is missing at a comma; write"},
           wrong_line{train("--policy federated"_w), "ringmaster, auto"},
           wrong_line{train("--policy aut"_w), "did you mean 'auto'?"},
           wrong_line{train({}, "mlp:hidden=512x"), "hidden must be widths such as 512x256, not '512x'"},
           wrong_line{train({}, "mlp:hidden=512,"), "a setting is missing at a comma; write"}));

struct Keys : ToolTest {
  std::string where = path("keys");
};

TEST_F(Keys, AreMadeAndExplained) {
  const spoken made = done("keys new"_w + where);
  EXPECT_THAT(made.err, IsEmpty());
  EXPECT_THAT(made.out, StartsWith("Made in " + where + ":\n"));
  for (const auto& file : std::filesystem::directory_iterator(where))
    EXPECT_THAT(made.out, HasSubstr(file.path().filename().string()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(where), {}), 9);
}

TEST_F(Keys, AreNotMadeTwice) {
  done("keys new"_w + where);
  expect_refused("keys new"_w + where,
                 "mailgrad: " + where + ": expected a folder without keys, found ca.pem");
}

TEST_F(Keys, WantAFolder) {
  for (const words& given : {"keys"_w, "keys new"_w, "keys old"_w + where}) {
    expect_refused(given);
    EXPECT_FALSE(std::filesystem::exists(where));
  }
}

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
  expect_error("completion tcsh"_w, "must be bash, zsh or fish, not 'tcsh'");
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
