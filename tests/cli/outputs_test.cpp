#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/full_disk.hpp>

#include <array>
#include <set>

// What a run of the tool leaves behind beside its report, and what a terminal shows of it.

namespace mailgrad::testing {
namespace {

struct Outputs : ToolTest {
  /// The report of a run that ends well.
  json trained(const words& more) const {
    done(train(more + "--report"_w + path("run.json")));
    return report();
  }
};

TEST_F(Outputs, TellTheUpdatesAndAPolicyThatMakesOneAlone) {
  const spoken few = done(train("--policy malenia:1000000 --devices cpu:0,cpu:0 --steps 30"_w));
  EXPECT_THAT(few.out, HasSubstr("\nupdates       1\n"));
  EXPECT_THAT(
      few.err + few.out,
      HasSubstr("policy malenia:1000000: an update is made of 1000000 gradients or more, and all under "
                "it, 30 at most, are less, so they make one update, at its end\n"));
  const spoken many = done(train("--policy async --devices cpu:0 --steps 30"_w));
  EXPECT_THAT(many.out, HasSubstr("\nupdates       30\n"));
  EXPECT_THAT(many.err + many.out, Not(HasSubstr("an update is made of")));
}

TEST_F(Outputs, CountEveryAppliedGradientInTheStalenessHistogram) {
  for (const std::string policy : {"async", "hogwild"}) {
    trained("--devices cpu:0,cpu:0 --steps 40 --shards 2 --policy"_w + policy + "--staleness-csv" +
            path("gaps.csv"));
    words lines = lines_of(content_of(path("gaps.csv")));
    ASSERT_THAT(lines, Not(IsEmpty()));
    EXPECT_EQ(lines[0], "shard,worker,gap,count");
    std::map<std::string, std::uint64_t> by_shard;
    for (std::size_t i = 1; i < lines.size(); ++i)
      by_shard[lines[i].substr(0, lines[i].find(','))] +=
          std::stoull(lines[i].substr(lines[i].rfind(',') + 1));
    if (policy == "hogwild")
      EXPECT_THAT(by_shard, ElementsAre(Pair("", 40)));
    else
      EXPECT_THAT(by_shard, ElementsAre(Pair("0", 40), Pair("1", 40)));
  }
}

TEST_F(Outputs, TellOfEachWorkerIfThereAreSeveral) {
  EXPECT_THAT(done(train("--steps 8 --devices cpu:0,cpu:0"_w)).out, HasSubstr("  worker 1    "));
  EXPECT_THAT(done(train("--steps 8"_w)).out, Not(HasSubstr("  worker 0")));
}

TEST_F(Outputs, SplitTheTimeOfAGradient) {
  for (const std::string policy : {"async", "hogwild"}) {
    const json split = trained("--steps 8 --policy"_w + policy)["time_split"];
    EXPECT_EQ(split["compute"]["count"], 8);
    EXPECT_GT(split["compute"]["seconds"], 0.0);
    EXPECT_EQ(split["apply"]["count"], 8);
    EXPECT_TRUE(split["wire"].is_null());
    EXPECT_EQ(split["mailbox"].is_null(), policy == "hogwild");
    EXPECT_EQ(split["per_shard"].size(), 1U);
  }
}

TEST_F(Outputs, AreWrittenThoughOneOfThemFails) {
  EXPECT_THAT(refusal(train("--steps 8 --report /dev/full --staleness-csv"_w + path("gaps.csv")), 1),
              HasSubstr("report '/dev/full' cannot be written: No space left"));
  EXPECT_TRUE(std::filesystem::exists(path("gaps.csv")));
}

TEST_F(Outputs, SayWhichOfThemFailed) {
  EXPECT_THAT(refusal(train("--steps 8 --staleness-csv /dev/full"_w), 1),
              HasSubstr("staleness histogram '/dev/full' cannot be written: No space left"));
  tool nowhere(train("--steps 8 --staleness-csv /no/such/folder/gaps.csv"_w));
  EXPECT_EQ(nowhere.code(), 2);
  EXPECT_THAT(nowhere.err(), HasSubstr("/no/such/folder/gaps.csv"));
  EXPECT_EQ(nowhere.out(), "");
}

/// The events of a trace by track, in the order of time; those of no duration apart.
std::map<int, std::vector<json>> spans_of(const json& trace) {
  std::map<int, std::vector<json>> tracks;
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "X") tracks[e["tid"]].push_back(e);
  for (auto& [track, spans] : tracks)
    std::ranges::stable_sort(spans, {}, [](const json& e) { return e["ts"].get<double>(); });
  return tracks;
}

TEST_F(Outputs, TellWhatWasSampled) {
  EXPECT_THAT(
      done(train("--steps 20 --sample-gap 5 --report"_w + path("run.json"))).out,
      HasSubstr("sampled       weights moved by 0 (root mean square), cosine to a fresh gradient 1.0000"));
  EXPECT_EQ(report()["gradient_cosine"], json::parse(R"({"count":4,"mean":1.0,"min":1.0,"max":1.0})"));
  EXPECT_EQ(report()["weight_gap"]["max"], 0.0);
}

TEST_F(Outputs, DrawATimelineOfEachActor) {
  for (const std::string policy : {"async", "sync", "ssp:0", "hogwild", "async, sync@20"}) {
    done(train("--devices cpu:0,cpu:0 --steps 40 --policy"_w + policy + "--trace" + path("run.trace")));
    const json trace = report("run.trace");
    std::set<std::string> tracks;
    std::map<std::string, int> names;
    for (const json& e : trace["traceEvents"]) {
      if (e["name"] == "thread_name") tracks.insert(e["args"]["name"]);
      if (e["ph"] == "X") ++names[e["name"]];
    }
    EXPECT_THAT(tracks, IsSupersetOf({"coordinator", "worker 0 on cpu:0", "worker 1 on cpu:0"}));
    EXPECT_EQ(tracks.contains("shard 0"), policy != "hogwild");
    EXPECT_EQ(names["compute"], 40) << policy;
    EXPECT_EQ(names["apply"], 40) << policy;
    EXPECT_EQ(names.contains("switch from async to sync"), policy.size() > 7);
    for (const auto& [track, spans] : spans_of(trace)) {
      double end = 0;
      for (const json& e : spans) {
        EXPECT_GE(e["dur"], 0.0);
        EXPECT_GE(e["ts"].get<double>(), end - 1e-4) << e;
        end = e["ts"].get<double>() + e["dur"].get<double>();
      }
    }
    EXPECT_TRUE(trace["otherData"]["missing"].empty());
  }
}

TEST_F(Outputs, NameTheTraceThatCannotBeWritten) {
  EXPECT_THAT(refusal(train("--steps 8 --trace /dev/full"_w), 1),
              HasSubstr("trace '/dev/full' cannot be written: No space left"));
}

TEST_F(Outputs, GrowByALineWhileTheRunGoesOn) {
  const json r = trained("--steps 40 --metrics-every 1 --evaluate-every 10 --metrics"_w + path("m.csv"));
  const words lines = lines_of(content_of(path("m.csv")));
  EXPECT_THAT(lines.at(0), StartsWith("time_s,steps,updates,samples,epoch,train_loss,"));
  EXPECT_THAT(lines.back(), HasSubstr(",40,40,"));
  EXPECT_EQ(r["curve"].back()["steps"], 40);
  EXPECT_EQ(r["curve"].back()["test_accuracy"], r["test_accuracy"]);
  EXPECT_TRUE(r["evaluations"]["count"].is_number());
}

TEST_F(Outputs, EndEarlyAsTheyWereAskedTo) {
  const spoken run = done(train("--epochs 1000 --metrics-every 1 --evaluate-every 5 --validation 0.25 "
                                "--stop-when 'steps>=20, accuracy>1.5' --keep-weights best --report"_w +
                                path("run.json") + "--save" + path("best.safetensors")));
  EXPECT_THAT(run.err, HasAll(" held out, ", ", at least 20"));
  EXPECT_THAT(run.out, HasSubstr("validation    loss "));
  const json r = report();
  EXPECT_EQ(r["ended"], "stopped");
  EXPECT_EQ(r["enough"], true);
  EXPECT_TRUE(r["validation_loss"].is_number());
  EXPECT_FALSE(r["curve"][0].contains("test_loss"));
  EXPECT_TRUE(std::filesystem::exists(path("best.safetensors")));
}

TEST_F(Outputs, SayThatTestSamplesChooseTheWeights) {
  EXPECT_THAT(done(train("--epochs 2 --patience 1"_w)).err,
              HasSubstr("so the test figures are too good; --validation 0.1 holds other samples out"));
}

TEST_F(Outputs, NameTheMetricsThatEndEarly) {
  EXPECT_THAT(refusal(train("--steps 8 --metrics /dev/full --report"_w + path("run.json")), 1),
              HasSubstr("metrics '/dev/full' end early: No space left"));
  EXPECT_EQ(report()["ended"], "completed");
}

TEST_F(Outputs, NameTheEventsThatEndEarly) {
  std::optional<tool> t;
  {
    const full_disk full(200); // bytes, which the first line exceeds
    t.emplace(train("--steps 40 --tensorboard"_w + path("board")), "/dev/null");
    EXPECT_EQ(t->code(), 1);
  }
  EXPECT_THAT(t->err(), HasAll("tensorboard '" + path("board") + "/events.out.tfevents.",
                               "' ends early: File too large", "step 40 of 40"));
}

TEST_F(Outputs, AreNoneOfAReplay) {
  done(train("--steps 8 --record"_w + path("run.rec") + "--tensorboard" + path("board") + "--metrics" +
             path("m.csv")));
  std::filesystem::remove_all(path("board"));
  std::filesystem::remove(path("m.csv"));
  done("replay"_w + path("run.rec"));
  EXPECT_FALSE(std::filesystem::exists(path("board")));
  EXPECT_FALSE(std::filesystem::exists(path("m.csv")));
}

TEST_F(Outputs, RefuseMetricsThatCannotBe) {
  for (const auto& [given, why] :
       {std::pair{"--metrics -"_w, "--metrics: the lines go to a file"},
        {"--metrics"_w + path("a") + "--trace" + path("a"), "--metrics and --trace both name"},
        {"--metrics /no/such/folder/m.csv"_w, "metrics '/no/such/folder/m.csv' cannot be written"},
        {"--tensorboard -"_w, "--tensorboard: events go to a folder; name one"},
        {"--tensorboard"_w + MAILGRAD_SMALL_CSV, "small.csv' cannot be written: Not a directory"},
        {"--metrics-every often"_w, "'often' is no interval; steps as 500"},
        {"--evaluate-every 0"_w, "'0' is no interval"},
        {"--stop-when los<3"_w, "there is no figure 'los'; did you mean 'loss'?"},
        {"--stop-when loss"_w, "expected a figure, one of < <= > >=, and a number"},
        {"--validation 1"_w, "validation: the share of the training samples lies between 0 and 1"}})
    expect_refused(train(given), why);
}

TEST_F(Outputs, AreNoFileThatTheRunReads) {
  const std::string csv = "x,y,label\n1,2,0\n3,4,1\n5,6,1\n7,8,0\n9,1,1\n2,3,0\n";
  const std::string layers = R"({"layers": [{"dense": {}}]})";
  const std::string data = folder.write("data.csv", csv), model = folder.write("model.json", layers);
  std::filesystem::create_symlink(data, path("link"));
  for (const auto& [option, file] : {std::pair<std::string, std::string>{"--report", data},
                                     {"--staleness-csv", path("link")},
                                     {"--trace", model},
                                     {"--record", model},
                                     {"--metrics", data}})
    expect_refused({"train", "--data", data, "--model", model, "--batch", "1", option, file},
                   option + " and --", "both name '" + file + "'");
  EXPECT_EQ(content_of(data), csv);
  EXPECT_EQ(content_of(model), layers);
}

TEST_F(Outputs, AreNotTwoInOneFile) {
  expect_error(train("--steps 8 --report"_w + path("both") + "--staleness-csv" + path("both")),
               "--report and --staleness-csv both name");
}

TEST_F(Outputs, AreNoFileOfADataSetOrPluginEither) {
  folder.write("ratings.dat", "1::1::3::100\n2::1::4::200\n3::2::1::300\n1::2::5::400\n2::2::2::500\n");
  const std::string items = folder.write("movies.dat", "1::A Film (1999)::Drama\n");
  expect_error("train --model dlrm --batch 1 --data"_w + folder.path() + "--report" + items,
               "--report and --data both name '" + items + "'; name another file");
  EXPECT_EQ(std::filesystem::file_size(items), 24U);

  const std::string plugin = path("libmine.so");
  std::filesystem::copy(MAILGRAD_TEST_PLUGINS "/own_sgd.so", plugin);
  expect_error(train("--steps 4 --optimizer"_w + plugin + "--trace" + plugin),
               "--trace and --optimizer both name");

  const std::string recording = path("run.rec");
  done(train("--steps 4 --record"_w + recording));
  expect_error({"replay", recording, "--report", recording}, "--report and the recording both name");

  const std::string model = folder.write("model.json", R"({"layers": [{"dense": {}}]})");
  expect_error({"graph", "--model", model, "--output", model}, "--output and --model both name");
}

TEST_F(Outputs, GoToStandardOutputAloneIfNamedByADash) {
  const spoken run = done(train("--steps 8 --report -"_w));
  EXPECT_EQ(json::parse(run.out)["steps"], 8);
  EXPECT_THAT(run.err, HasSubstr("completed after 8 steps"));
  EXPECT_EQ(done(train("--steps 8 --quiet --staleness-csv -"_w)).out, "shard,worker,gap,count\n0,0,0,8\n");
  EXPECT_FALSE(std::filesystem::exists("-"));

  expect_error(train("--steps 8 --report - --trace -"_w),
               "--report and --trace both name '-'; give each a file of its own");
  expect_error(train("--steps 8 --record -"_w), "--record: a recording is no output for a pipe; name a file");

  done(train("--steps 8 --record"_w + path("run.rec")));
  const spoken again = done("replay --report -"_w + path("run.rec"));
  EXPECT_EQ(json::parse(again.out)["steps"], 8);
  EXPECT_THAT(again.err, HasSubstr("the same parameters as recorded"));
  EXPECT_THAT(done("graph --output -"_w).out, StartsWith("digraph"));
}

TEST_F(Outputs, SayThatAFullDiskLostWhatADashNames) {
  tool t(train("--steps 8 --report -"_w), "/dev/full");
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("standard output cannot be written: No space left"));
}

/// The tool with standard error on a terminal that moves its cursor.
tool on_terminal(const words& given, unsigned short columns) {
  setenv("TERM", "xterm", 1);
  return tool(given, nullptr, columns);
}

/// What was drawn over itself, in the order of time.
words redrawn_lines(const std::string& shown) {
  constexpr std::string_view start = "\r\033[K";
  words lines;
  for (std::size_t at = shown.find(start); at != shown.npos; at = shown.find(start, at + 1)) {
    const std::size_t begin = at + start.size();
    lines.push_back(shown.substr(begin, shown.find('\r', begin) - begin));
  }
  return lines;
}

/// The last line of a run of 20 steps, on a terminal of so many columns.
std::string last_line(unsigned short columns) {
  tool t = on_terminal(train("--steps 20"_w), columns);
  EXPECT_EQ(t.code(), 0) << t.err();
  const words lines = redrawn_lines(t.err());
  EXPECT_FALSE(lines.empty()) << t.err();
  for (const std::string& line : lines) EXPECT_LT(line.size(), columns) << line;
  return lines.empty() ? "" : lines.back();
}

TEST(Progress, FitsIntoOneLineOfAnyTerminal) {
  const std::string full_bar = "[" + std::string(24, '#') + "] step 20 of 20, ";
  EXPECT_THAT(last_line(200),
              AllOf(StartsWith(full_bar), HasSubstr("samples/s, loss "), HasSubstr("mean staleness")));
  EXPECT_THAT(last_line(70),
              AllOf(StartsWith("[####"), HasSubstr("samples/s, loss "), Not(HasSubstr("staleness"))));
  EXPECT_THAT(last_line(48),
              AllOf(StartsWith("[####"), HasSubstr("] step 20 of 20, loss "), Not(HasSubstr("samples"))));
  EXPECT_THAT(last_line(30), AllOf(StartsWith("step 20 of 20, loss ")));
  EXPECT_EQ(last_line(20), "step 20 of 20");
  EXPECT_EQ(last_line(8), "step 20");
}

TEST(Progress, EndsWithAFullBar) {
  for (const unsigned short columns : std::to_array<unsigned short>({200, 100, 80, 52})) {
    const std::string line = last_line(columns);
    EXPECT_THAT(line, AllOf(HasSubstr("loss "), Not(HasSubstr("loss 0.0000")))) << "as at the end";
    const std::string bar = line.substr(0, line.find(']'));
    EXPECT_EQ(bar, '[' + std::string(bar.size() - 1, '#')) << columns;
  }
}

TEST(Progress, TakesTheWidthFromTheEnvironmentWhereTheTerminalDoesNotTell) {
  setenv("COLUMNS", "20", 1);
  tool t = on_terminal(train("--steps 20"_w), 0);
  unsetenv("COLUMNS");
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(redrawn_lines(t.err()), Contains("step 20 of 20"));
  tool usual = on_terminal(train("--steps 20"_w), 0);
  EXPECT_EQ(usual.code(), 0);
  EXPECT_THAT(redrawn_lines(usual.err()), Contains(AllOf(StartsWith("[####"), HasSubstr("loss"))));
}

TEST(Progress, TellsHowMuchTimeIsLeft) {
  const words long_run = train("--epochs 1000000000"_w);
  for (const bool drawn : {true, false}) {
    tool t = drawn ? on_terminal(long_run, 100) : tool(long_run);
    EXPECT_TRUE(t.says(" left"));
    t.signal(SIGINT);
    EXPECT_EQ(t.code(), 130);
  }
  EXPECT_THAT(last_line(200), Not(HasSubstr(" left"))) << "nothing is left to do";
}

TEST(Progress, MovesNoCursorWhereThereIsNone) {
  setenv("TERM", "dumb", 1);
  tool t(train("--steps 20"_w), nullptr, 80);
  setenv("TERM", "xterm", 1);
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(redrawn_lines(t.err()), IsEmpty());
}

} // namespace
} // namespace mailgrad::testing
