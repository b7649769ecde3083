#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/full_disk.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

// What a run of the tool leaves behind beside its report.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using testing::tool;

class Outputs : public ::testing::Test {
protected:
  static std::vector<std::string> train(const std::vector<std::string>& words) {
    std::vector<std::string> all{"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  const scratch_folder folder_;
};

TEST_F(Outputs, TellTheUpdatesAndAPolicyThatMakesOneAlone) {
  tool few(train({"--policy", "malenia:1000000", "--devices", "cpu:0,cpu:0", "--steps", "30"}));
  ASSERT_EQ(few.code(), 0) << few.err();
  EXPECT_THAT(few.out(), HasSubstr("\nupdates       1\n"));
  EXPECT_THAT(
      few.err() + few.out(),
      HasSubstr(
          "policy malenia:1000000: an update is made of 1000000 gradients or more, and all under it, 30 at "
          "most, are less, so they make one update, at its end\n"));
  tool many(train({"--policy", "async", "--devices", "cpu:0", "--steps", "30"}));
  EXPECT_THAT(many.out(), HasSubstr("\nupdates       30\n"));
  EXPECT_EQ((many.err() + many.out()).find("an update is made of"), std::string::npos);
}

TEST_F(Outputs, CountEveryAppliedGradientInTheStalenessHistogram) {
  for (const char* policy : {"async", "hogwild"}) {
    tool t(train({"--policy", policy, "--devices", "cpu:0,cpu:0", "--steps", "40", "--shards", "2",
                  "--staleness-csv", path("gaps.csv"), "--report", path("run.json")}));
    ASSERT_EQ(t.code(), 0) << t.err();
    std::ifstream file(path("gaps.csv"));
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line, "shard,worker,gap,count");
    std::map<std::string, std::uint64_t> by_shard;
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string shard, worker, gap, count;
      std::getline(fields, shard, ',');
      std::getline(fields, worker, ',');
      std::getline(fields, gap, ',');
      std::getline(fields, count, ',');
      by_shard[shard] += std::stoull(count);
    }
    if (std::string(policy) == "hogwild")
      EXPECT_THAT(by_shard, ::testing::ElementsAre(::testing::Pair("", 40)));
    else
      EXPECT_THAT(by_shard, ::testing::ElementsAre(::testing::Pair("0", 40), ::testing::Pair("1", 40)));
  }
}

TEST_F(Outputs, TellOfEachWorkerIfThereAreSeveral) {
  EXPECT_THAT(tool(train({"--steps", "8", "--devices", "cpu:0,cpu:0"})).out(), HasSubstr("  worker 1    "));
  EXPECT_THAT(tool(train({"--steps", "8"})).out(), ::testing::Not(HasSubstr("  worker 0")));
}

TEST_F(Outputs, SplitTheTimeOfAGradient) {
  for (const char* policy : {"async", "hogwild"}) {
    tool t(train({"--policy", policy, "--steps", "8", "--report", path("run.json")}));
    ASSERT_EQ(t.code(), 0) << t.err();
    const json split = json::parse(std::ifstream(path("run.json")))["time_split"];
    EXPECT_EQ(split["compute"]["count"], 8);
    EXPECT_GT(split["compute"]["seconds"], 0.0);
    EXPECT_EQ(split["apply"]["count"], 8);
    EXPECT_TRUE(split["wire"].is_null());
    EXPECT_EQ(split["mailbox"].is_null(), std::string(policy) == "hogwild");
    EXPECT_EQ(split["per_shard"].size(), 1U);
  }
}

TEST_F(Outputs, AreWrittenThoughOneOfThemFails) {
  tool t(train({"--steps", "8", "--report", "/dev/full", "--staleness-csv", path("gaps.csv")}));
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("report '/dev/full' cannot be written: No space left"));
  EXPECT_TRUE(std::filesystem::exists(path("gaps.csv")));
}

TEST_F(Outputs, SayWhichOfThemFailed) {
  tool full(train({"--steps", "8", "--staleness-csv", "/dev/full"}));
  EXPECT_EQ(full.code(), 1);
  EXPECT_THAT(full.err(), HasSubstr("staleness histogram '/dev/full' cannot be written: No space left"));
  tool nowhere(train({"--steps", "8", "--staleness-csv", "/no/such/folder/gaps.csv"}));
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
  tool t(train({"--steps", "20", "--sample-gap", "5", "--report", path("run.json")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  const json report = json::parse(std::ifstream(path("run.json")));
  EXPECT_EQ(report["gradient_cosine"], json::parse(R"({"count":4,"mean":1.0,"min":1.0,"max":1.0})"));
  EXPECT_EQ(report["weight_gap"]["max"], 0.0);
  EXPECT_THAT(
      t.out(),
      HasSubstr("sampled       weights moved by 0 (root mean square), cosine to a fresh gradient 1.0000"));
}

TEST_F(Outputs, DrawATimelineOfEachActor) {
  for (const char* policy : {"async", "sync", "ssp:0", "hogwild", "async, sync@20"}) {
    tool t(train(
        {"--policy", policy, "--devices", "cpu:0,cpu:0", "--steps", "40", "--trace", path("run.trace")}));
    ASSERT_EQ(t.code(), 0) << t.err();
    const json trace = json::parse(std::ifstream(path("run.trace")));
    std::set<std::string> tracks;
    std::map<std::string, int> names;
    for (const json& e : trace["traceEvents"]) {
      if (e["name"] == "thread_name") tracks.insert(e["args"]["name"]);
      if (e["ph"] == "X") ++names[e["name"]];
    }
    EXPECT_THAT(tracks, ::testing::IsSupersetOf({"coordinator", "worker 0 on cpu:0", "worker 1 on cpu:0"}));
    EXPECT_EQ(tracks.contains("shard 0"), std::string(policy) != "hogwild");
    EXPECT_EQ(names["compute"], 40) << policy;
    EXPECT_EQ(names["apply"], 40) << policy;
    EXPECT_EQ(names.contains("switch from async to sync"), std::string(policy).size() > 7);
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
  tool t(train({"--steps", "8", "--trace", "/dev/full"}));
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("trace '/dev/full' cannot be written: No space left"));
}

TEST_F(Outputs, GrowByALineWhileTheRunGoesOn) {
  tool t(train({"--steps", "40", "--metrics", path("m.csv"), "--metrics-every", "1", "--evaluate-every", "10",
                "--report", path("r.json")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  std::ifstream lines(path("m.csv"));
  std::string line;
  std::string last;
  std::getline(lines, line);
  EXPECT_THAT(line, ::testing::StartsWith("time_s,steps,updates,samples,epoch,train_loss,"));
  while (std::getline(lines, line)) last = line;
  EXPECT_THAT(last, HasSubstr(",40,40,"));
  const auto report = nlohmann::json::parse(std::ifstream(path("r.json")));
  EXPECT_EQ(report["curve"].back()["steps"], 40);
  EXPECT_EQ(report["curve"].back()["test_accuracy"], report["test_accuracy"]);
  EXPECT_TRUE(report["evaluations"]["count"].is_number());
}

TEST_F(Outputs, EndEarlyAsTheyWereAskedTo) {
  tool t(train({"--epochs", "1000", "--metrics-every", "1", "--evaluate-every", "5", "--validation", "0.25",
                "--stop-when", "steps>=20, accuracy>1.5", "--keep-weights", "best", "--report",
                path("r.json"), "--save", path("best.safetensors")}));
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr(" held out, "));
  EXPECT_THAT(t.err(), HasSubstr(", at least 20"));
  EXPECT_THAT(t.out(), HasSubstr("validation    loss "));
  const auto report = nlohmann::json::parse(std::ifstream(path("r.json")));
  EXPECT_EQ(report["ended"], "stopped");
  EXPECT_EQ(report["enough"], true);
  EXPECT_TRUE(report["validation_loss"].is_number());
  EXPECT_FALSE(report["curve"][0].contains("test_loss"));
  EXPECT_TRUE(std::filesystem::exists(path("best.safetensors")));
}

TEST_F(Outputs, SayThatTestSamplesChooseTheWeights) {
  tool t(train({"--epochs", "2", "--patience", "1"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(),
              HasSubstr("so the test figures are too good; --validation 0.1 holds other samples out"));
}

TEST_F(Outputs, NameTheMetricsThatEndEarly) {
  tool t(train({"--steps", "8", "--metrics", "/dev/full", "--report", path("r.json")}));
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("metrics '/dev/full' end early: No space left"));
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(path("r.json")))["ended"], "completed");
}

TEST_F(Outputs, NameTheEventsThatEndEarly) {
  std::optional<tool> t;
  {
    const testing::full_disk full(200); // bytes, which the first line exceeds
    t.emplace(train({"--steps", "40", "--tensorboard", path("board")}), "/dev/null");
    EXPECT_EQ(t->code(), 1);
  }
  EXPECT_THAT(t->err(), HasSubstr("tensorboard '" + path("board") + "/events.out.tfevents."));
  EXPECT_THAT(t->err(), HasSubstr("' ends early: File too large"));
  EXPECT_THAT(t->err(), HasSubstr("step 40 of 40"));
}

TEST_F(Outputs, AreNoneOfAReplay) {
  ASSERT_EQ(tool(train({"--steps", "8", "--record", path("run.rec"), "--tensorboard", path("board"),
                        "--metrics", path("m.csv")}))
                .code(),
            0);
  std::filesystem::remove_all(path("board"));
  std::filesystem::remove(path("m.csv"));
  EXPECT_EQ(tool({"replay", path("run.rec")}).code(), 0);
  EXPECT_FALSE(std::filesystem::exists(path("board")));
  EXPECT_FALSE(std::filesystem::exists(path("m.csv")));
}

TEST_F(Outputs, RefuseMetricsThatCannotBe) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    tool t(train(words));
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
  };
  refused({"--metrics", "-"}, "--metrics: the lines go to a file");
  refused({"--metrics", path("a"), "--trace", path("a")}, "--metrics and --trace both name");
  refused({"--metrics", "/no/such/folder/m.csv"}, "metrics '/no/such/folder/m.csv' cannot be written");
  refused({"--tensorboard", "-"}, "--tensorboard: events go to a folder; name one");
  refused({"--tensorboard", MAILGRAD_SMALL_CSV}, "small.csv' cannot be written: Not a directory");
  refused({"--metrics-every", "often"}, "'often' is no interval; steps as 500");
  refused({"--evaluate-every", "0"}, "'0' is no interval");
  refused({"--stop-when", "los<3"}, "there is no figure 'los'; did you mean 'loss'?");
  refused({"--stop-when", "loss"}, "expected a figure, one of < <= > >=, and a number");
  refused({"--validation", "1"}, "validation: the share of the training samples lies between 0 and 1");
}

TEST_F(Outputs, AreNoFileThatTheRunReads) {
  const std::string csv = "x,y,label\n1,2,0\n3,4,1\n5,6,1\n7,8,0\n9,1,1\n2,3,0\n";
  const std::string layers = R"({"layers": [{"dense": {}}]})";
  const std::string data = folder_.write("data.csv", csv).string();
  const std::string model = folder_.write("model.json", layers).string();
  const std::string link = path("link");
  std::filesystem::create_symlink(data, link);
  const std::vector<std::pair<std::string, std::string>> wrong{{"--report", data},
                                                               {"--staleness-csv", link},
                                                               {"--trace", model},
                                                               {"--record", model},
                                                               {"--metrics", data}};
  for (const auto& [option, file] : wrong) {
    tool t({"train", "--data", data, "--model", model, "--batch", "1", option, file});
    EXPECT_EQ(t.code(), 2) << option;
    EXPECT_THAT(t.err(), AllOf(HasSubstr(option + " and --"), HasSubstr("both name '" + file + "'")));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
  }
  std::string text;
  std::getline(std::ifstream(data), text, '\0');
  EXPECT_EQ(text, csv);
  std::getline(std::ifstream(model), text, '\0');
  EXPECT_EQ(text, layers);
}

TEST_F(Outputs, AreNotTwoInOneFile) {
  tool t(train({"--steps", "8", "--report", path("both"), "--staleness-csv", path("both")}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("--report and --staleness-csv both name"));
}

TEST_F(Outputs, AreNoFileOfADataSetOrPluginEither) {
  folder_.write("ratings.dat", "1::1::3::100\n2::1::4::200\n3::2::1::300\n1::2::5::400\n2::2::2::500\n");
  const std::string items = folder_.write("movies.dat", "1::A Film (1999)::Drama\n").string();
  tool ratings({"train", "--model", "dlrm", "--data", folder_.path(), "--batch", "1", "--report", items});
  EXPECT_EQ(ratings.code(), 2);
  EXPECT_THAT(ratings.err(), HasSubstr("--report and --data both name '" + items + "'; name another file"));
  EXPECT_EQ(std::filesystem::file_size(items), 24U);

  const std::string plugin = path("libmine.so");
  std::filesystem::copy(MAILGRAD_TEST_PLUGINS "/own_sgd.so", plugin);
  tool rule(train({"--steps", "4", "--optimizer", plugin, "--trace", plugin}));
  EXPECT_EQ(rule.code(), 2);
  EXPECT_THAT(rule.err(), HasSubstr("--trace and --optimizer both name"));

  const std::string recording = path("run.rec");
  ASSERT_EQ(tool(train({"--steps", "4", "--record", recording})).code(), 0);
  tool replay({"replay", recording, "--report", recording});
  EXPECT_EQ(replay.code(), 2);
  EXPECT_THAT(replay.err(), HasSubstr("--report and the recording both name"));

  const std::string model = folder_.write("model.json", R"({"layers": [{"dense": {}}]})").string();
  tool picture({"graph", "--model", model, "--output", model});
  EXPECT_EQ(picture.code(), 2);
  EXPECT_THAT(picture.err(), HasSubstr("--output and --model both name"));
}

TEST_F(Outputs, GoToStandardOutputAloneIfNamedByADash) {
  tool report(train({"--steps", "8", "--report", "-"}));
  ASSERT_EQ(report.code(), 0) << report.err();
  EXPECT_EQ(json::parse(report.out())["steps"], 8);
  EXPECT_THAT(report.err(), HasSubstr("completed after 8 steps"));
  tool gaps(train({"--steps", "8", "--quiet", "--staleness-csv", "-"}));
  EXPECT_EQ(gaps.out(), "shard,worker,gap,count\n0,0,0,8\n");
  EXPECT_FALSE(std::filesystem::exists("-"));

  tool two(train({"--steps", "8", "--report", "-", "--trace", "-"}));
  EXPECT_EQ(two.code(), 2);
  EXPECT_THAT(two.err(), HasSubstr("--report and --trace both name '-'; give each a file of its own"));
  tool record(train({"--steps", "8", "--record", "-"}));
  EXPECT_EQ(record.code(), 2);
  EXPECT_THAT(record.err(), HasSubstr("--record: a recording is no output for a pipe; name a file"));

  ASSERT_EQ(tool(train({"--steps", "8", "--record", path("run.rec")})).code(), 0);
  tool again({"replay", path("run.rec"), "--report", "-"});
  ASSERT_EQ(again.code(), 0) << again.err();
  EXPECT_EQ(json::parse(again.out())["steps"], 8);
  EXPECT_THAT(again.err(), HasSubstr("the same parameters as recorded"));
  EXPECT_THAT(tool({"graph", "--output", "-"}).out(), ::testing::StartsWith("digraph"));
}

TEST_F(Outputs, SayThatAFullDiskLostWhatADashNames) {
  tool t(train({"--steps", "8", "--report", "-"}), "/dev/full");
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("standard output cannot be written: No space left"));
}

} // namespace
} // namespace mailgrad
