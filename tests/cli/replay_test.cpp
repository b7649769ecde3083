#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/full_disk.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <zlib.h>

// Runs of the tool, recorded and repeated, on a table of sixty rows.

namespace mailgrad::testing {
namespace {

struct ReplayCommand : ToolTest {
  words record(const words& more) const {
    return train("--quiet --record"_w + recording + "--report" + path("run.json") + more);
  }
  /// A run that is recorded until a signal ends it, once it has trained some steps.
  words record_without_end(const words& more = {}) const {
    words run = record("--epochs 1000000000"_w + more);
    std::erase(run, "--quiet");
    return run;
  }
  /// What repeating it prints, and leaves as its report.
  std::string repeated(const words& more = {}) const {
    return done("replay --quiet"_w + recording + "--report" + path("run.json") + more).out;
  }
  std::string bytes() const { return content_of(recording); }

  /// Writes the recording anew, `from` replaced by `to`, which is as long, under a checksum that is right.
  void forge(const std::string& from, const std::string& to) const {
    std::string text = bytes();
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    const std::size_t body = text.size() - 12;
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), body);
    for (std::size_t i = 0; i < 4; ++i) text[body + i] = static_cast<char>(checksum >> (8 * i) & 0xff);
    folder.write("run.rec", text);
  }

  const std::string recording = path("run.rec");
};

/// All that a report tells of its switches but when they came, which is another time in a replay.
json switches_in(json report) {
  for (json& one : report["switches"]) one.erase("time_s");
  return report["switches"];
}

TEST_F(ReplayCommand, EndsWithTheSameParametersUnderEveryPolicy) {
  for (const char* policy :
       {"async", "sync", "ssp:1", "dssp:0,3", "backup:1", "k-async:2", "k-batch-async:2", "k-batch-sync:2",
        "rennala:3", "ringmaster:2", "malenia:4", "ringleader", "async, sync@40, k-async:2@80, ssp:1@120"}) {
    SCOPED_TRACE(policy);
    done(record("--devices cpu:0,cpu:0,cpu:0 --shards 2 --steps 200 --lr 0.1 --policy"_w + policy));
    const json was = report();
    EXPECT_THAT(repeated(), HasSubstr("the same parameters as recorded"));
    const json is = report();
    for (const char* field : {"parameters_sha256", "ledger", "staleness", "policy", "seed", "steps"})
      EXPECT_EQ(was[field], is[field]) << field;
    EXPECT_EQ(switches_in(was), switches_in(is));
  }
}

TEST_F(ReplayCommand, ReadsAPathThatIsNotUtf8) {
  const std::string data = path("caf\xe9.csv");
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, data);
  words run = record("--steps 12"_w);
  std::ranges::replace(run, std::string(MAILGRAD_SMALL_CSV), data);
  done(run);
  done({"replay", recording});
}

TEST_F(ReplayCommand, RepeatsTheWordsOfTheCommandLine) {
  done(record("--optimizer adam:beta1=0.8 --lr 0.01 --schedule cosine:total=100 --cure polynomial:0.7 "
              "--devices 'cpu:0, cpu:0' --epochs 3 --seed 7 --l2 0.001 --clip-norm 2 --weight-decay 0.01"_w));
  EXPECT_THAT(done({"replay", recording}).out, HasAll("the same parameters", "polynomial:0.7"));
}

TEST_F(ReplayCommand, TakesOtherDevicesAndDataThatMoved) {
  done(record("--devices cpu:0,cpu:0 --steps 50"_w));
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, path("moved.csv"));
  done("replay --devices cpu:0,cpu:0"_w + recording + "--data" + path("moved.csv"));
  expect_error("replay --devices cpu:0"_w + recording, "--devices: the recording has 2, these are 1");
}

TEST_F(ReplayCommand, LooksCloserAtARunThatDidNot) {
  done(record("--devices cpu:0,cpu:0,cpu:0 --shards 2 --steps 120"_w));
  const json was = report();
  std::vector<json> seen;
  for (std::size_t i = 0; i < 2; ++i) {
    repeated("--sample-gap 5 --metrics-every 30 --metrics"_w + path("run.jsonl") + "--trace" +
             path("trace.json") + "--staleness-csv" + path("gaps.csv"));
    seen.push_back(report());
    EXPECT_EQ(seen[i]["parameters_sha256"], was["parameters_sha256"]);
    EXPECT_EQ(seen[i]["staleness"], was["staleness"]);
    EXPECT_GT(seen[i]["weight_gap"]["count"], 0);
  }
  EXPECT_EQ(seen[0]["weight_gap"], seen[1]["weight_gap"]);
  EXPECT_EQ(seen[0]["gradient_cosine"], seen[1]["gradient_cosine"]);
  const words gaps = lines_of(content_of(path("gaps.csv")));
  EXPECT_EQ(gaps.at(0), "shard,worker,gap,count");
  std::uint64_t counted = 0;
  for (std::size_t i = 1; i < gaps.size(); ++i)
    counted += std::stoull(gaps[i].substr(gaps[i].rfind(',') + 1));
  EXPECT_EQ(counted, 2 * 120U) << "on each shard";
  const json trace = report("trace.json");
  EXPECT_EQ(trace["otherData"]["missing"], json::array());
  EXPECT_EQ(
      std::ranges::count_if(trace["traceEvents"],
                            [](const json& e) { return e["name"] == "compares with a fresh gradient"; }),
      seen[1]["gradient_cosine"]["count"].get<std::ptrdiff_t>());
  const json last = json::parse(lines_of(content_of(path("run.jsonl"))).back());
  EXPECT_EQ(last["steps"], 120);
  EXPECT_EQ(last["updates"], was["updates"]);
}

TEST_F(ReplayCommand, SamplesAsItsRunDidUnlessToldOtherwise) {
  done(record("--devices cpu:0,cpu:0 --steps 60 --sample-gap 4"_w));
  const json was = report();
  repeated();
  EXPECT_EQ(report()["weight_gap"], was["weight_gap"]);
  EXPECT_EQ(report()["gradient_cosine"], was["gradient_cosine"]);
  repeated("--sample-gap 0"_w);
  EXPECT_EQ(report()["weight_gap"]["count"], 0);
  repeated("--sample-gap 1"_w);
  EXPECT_GT(report()["weight_gap"]["count"], was["weight_gap"]["count"]);
}

TEST_F(ReplayCommand, LeavesStandardOutputToAFileThatGoesThere) {
  done(record("--steps 20"_w));
  const spoken replayed = done("replay --quiet --staleness-csv -"_w + recording);
  EXPECT_THAT(replayed.out, StartsWith("shard,worker,gap,count\n"));
  EXPECT_EQ(std::ranges::count(replayed.out, '\n'), 2) << replayed.out;
  EXPECT_THAT(replayed.err, HasSubstr("the same parameters as recorded"));
}

TEST_F(ReplayCommand, WritesNoFileThatOnlyItsRunWasToWrite) {
  const std::string weights = path("w.safetensors");
  done(record("--steps 20 --save"_w + weights + "--checkpoint" + path("checkpoints")));
  ASSERT_TRUE(std::filesystem::remove(weights));
  repeated();
  EXPECT_FALSE(std::filesystem::exists(weights));
}

TEST_F(ReplayCommand, SaysSoIfTheParametersDiffer) {
  done(record("--steps 20"_w));
  const std::string sha = report()["parameters_sha256"];
  forge(sha, std::string(64, '0'));
  EXPECT_THAT(refusal("replay --quiet"_w + recording, 3),
              AllOf(IsOneLine(), HasSubstr("differs"), HasSubstr(sha), HasSubstr(std::string(64, '0'))));
}

// What the tool does not record or repeat, and what it says then.

TEST_F(ReplayCommand, WritesOverNothingThatItReads) {
  done(record("--devices cpu:0,cpu:0 --steps 12"_w));
  const std::string before = bytes(), file = path("run.json");
  const words to_train = "train --data"_w + MAILGRAD_SMALL_CSV + "--report";
  expect_error({"replay", recording, "--report", recording}, "--report and the recording both name");
  EXPECT_EQ(bytes(), before);
  expect_error(to_train + file + "--record" + file, "--report and --record both name");
  expect_error(to_train + "", "file name is missing");
}

TEST_F(ReplayCommand, RefusesInOneLineALookThatMakesNoSense) {
  done(record("--steps 20 --local-steps 4"_w));
  const std::string before = bytes();
  for (const auto& [more, why] :
       {std::pair{"--sample-gap 2"_w, "--sample-gap: with --local-steps"},
        {"--trace"_w + recording, "--trace and the recording both name"},
        {"--metrics"_w + recording, "--metrics and the recording both name"},
        {"--staleness-csv"_w + MAILGRAD_SMALL_CSV, "--staleness-csv and --data both name"},
        {"--trace - --report -"_w, "--report and --trace both name"},
        {"--metrics -"_w, "--metrics: the lines go to a file"},
        {"--trace /no/such/folder/x"_w, "'/no/such/folder/x' cannot be written"},
        {"--sample-gap x"_w, "--sample-gap"}})
    expect_refused("replay"_w + recording + more, why);
  EXPECT_EQ(bytes(), before);
}

TEST_F(ReplayCommand, RefusesInOneLineWhatItCannotRepeat) {
  done(record("--steps 20 --devices cpu:0,cpu:0"_w));
  const std::string whole = bytes();
  const auto refused = [&](const words& more, const words& says) {
    tool t("replay"_w + recording + more);
    EXPECT_EQ(t.code(), 2) << says[0];
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("run.rec")));
    for (const std::string& text : says) EXPECT_THAT(t.err(), HasSubstr(text));
    EXPECT_EQ(t.out(), "");
  };
  const auto write = [&](const std::string& text) { folder.write("run.rec", text); };
  const std::string other_data = "x,y,label\n1,2,0\n3,4,1\n5,6,1\n7,8,0\n9,1,1\n2,3,0\n";
  refused("--data"_w + folder.write("other.csv", other_data),
          {"training samples was 48, and is 5 here; the training data were small.csv (SHA-256 ",
           "), and are other.csv (SHA-256 "});
  forge("kernels ", "Kernels ");
  refused({}, {"the arithmetic was Kernels"});
  write(whole.substr(0, whole.size() / 2));
  refused({}, {"cut short"});
  write("{}");
  refused({}, {"is no recording"});
  write(whole.substr(0, 8) + '\7' + whole.substr(9));
  refused({}, {"has format 7; this version reads format 2"});
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 1;
  write(damaged);
  refused({}, {"is damaged: expected checksum"});
  std::filesystem::remove(recording);
  refused({}, {"cannot be read: No such file"});
  std::filesystem::create_directory(recording);
  refused({}, {"cannot be read: Is a directory"});
}

TEST_F(ReplayCommand, RefusesASwitchToWhatIsNoPolicyBeforeItTrains) {
  done(record("--steps 20 --policy 'async, sync@9'"_w));
  forge("\"policy\":\"sync\"", "\"policy\":\"snyc\"");
  expect_refused({"replay", recording}, "a switch that cannot be", "'snyc'");
}

TEST_F(ReplayCommand, TrainRecordsNoHogwild) {
  expect_refused(record("--policy hogwild"_w), "record", "hogwild");
  EXPECT_FALSE(std::filesystem::exists(recording));
}

TEST_F(ReplayCommand, TrainSaysSoIfItCannotRecord) {
  expect_refused(train("--record /no/such/folder/x"_w), "'/no/such/folder/x' cannot be written");
  expect_error(train("--quiet --record /dev/full"_w),
               "recording '/dev/full' cannot be written: No space left");
}

/// It is the recording that asks for them. What is forged is as long as what was there.
TEST_F(ReplayCommand, SaysThatTheRecordingHasItsWeightsOrWorkersOnAGpu) {
  const words replay = "replay --quiet"_w + recording;
  done(record("--devices cpu:0,cpu:0 --shards 2 --parameters host,host --steps 12"_w));
  forge("--devices=cpu:0,cpu:0", "--devices=cuda:9,cuda");
  expect_error(replay, "run.rec' has its workers on cuda:9,cuda: device cuda:9 is not",
               "it repeats on such GPUs alone");
  expect_error(replay + "--devices cuda:99,cuda:99"_w, "mailgrad: device cuda:99 is not");
  done(replay + "--devices cpu:0,cpu:0"_w);
  forge("--parameters=host,host", "--parameters=cuda:9999");
  expect_error(replay + "--devices cpu:0,cpu:0"_w,
               "run.rec' has its weights on cuda:9999: device cuda:9999 is not",
               "it repeats on such GPUs alone");
}

// Recordings of runs that were ended, were killed or are still under way, and one that filled the disk.

TEST_F(ReplayCommand, KeepsAnOlderRecordingUntilTheNewOneIsWhole) {
  folder.write("run.rec", "an older recording");
  tool killed(record_without_end());
  ASSERT_TRUE(killed.says("step ")) << killed.err();
  EXPECT_EQ(bytes(), "an older recording");
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.code(), -SIGKILL);
  EXPECT_EQ(bytes(), "an older recording");
  done(record("--steps 12"_w));
  EXPECT_TRUE(bytes().starts_with("mgradrec"));
  EXPECT_FALSE(std::filesystem::exists(recording + ".partial")) << "nor is what was left before in the way";
  EXPECT_TRUE(std::filesystem::exists(recording + ".killed")) << "where it may still be replayed";
}

TEST_F(ReplayCommand, GoesOnWithItsOutputsIfThatIsAskedFor) {
  done(record("--steps 60"_w));
  const std::string again = path("again.json"), kept = path("kept");
  done("replay --quiet --checkpoint-every 20 --metrics-every 10 --checkpoint"_w + kept + "--report" + again +
       "--metrics" + path("again.jsonl") + recording);
  const auto resumed = [&](const words& more) {
    std::filesystem::remove(again);
    const spoken said =
        done("replay --quiet"_w + recording + "--resume" + checkpoints_in(kept).back() + more);
    EXPECT_THAT(said.out, HasSubstr("the same parameters as recorded"));
    return said.err;
  };
  EXPECT_THAT(resumed("--checkpoint"_w + path("other")), HasSubstr("; without --report=" + again));
  EXPECT_FALSE(std::filesystem::exists(again));
  resumed("--same-outputs --checkpoint"_w + path("third"));
  EXPECT_TRUE(std::filesystem::exists(again));
}

TEST_F(ReplayCommand, RepeatsARunThatCtrlCEnded) {
  tool recorded(record_without_end("--devices cpu:0,cpu:0 --shards 2"_w));
  ASSERT_TRUE(recorded.says("step ")) << recorded.err();
  recorded.signal(SIGINT);
  ASSERT_EQ(recorded.code(), 130);
  const json was = report();
  repeated();
  EXPECT_EQ(report()["parameters_sha256"], was["parameters_sha256"]);
  EXPECT_EQ(report()["ledger"], was["ledger"]);
}

TEST_F(ReplayCommand, RepeatsAKilledRunAsFarAsItGoes) {
  tool killed(record_without_end("--devices cpu:0,cpu:0 --shards 2"_w));
  ASSERT_TRUE(killed.says("step ")) << killed.err();
  expect_error({"replay", recording + ".partial"}, "is being written by a run (process ");
  killed.signal(SIGKILL);
  killed.code();
  EXPECT_THAT(refusal({"replay", recording}), HasSubstr("run.rec.partial'")) << "where to look";
  tool replayed("replay --quiet"_w + (recording + ".partial") + "--report" + path("run.json"));
  EXPECT_EQ(replayed.code(), 4) << replayed.err();
  EXPECT_THAT(replayed.out(), HasSubstr("as far as the recording goes"));
  EXPECT_THAT(replayed.err(), HasAll("the recording ends after " + report()["steps"].dump() + " of ",
                                     "since it was not completed"));
  EXPECT_EQ(report()["ended"], "completed");
  EXPECT_GT(report()["steps"], 0);
}

TEST_F(ReplayCommand, LeavesARunThatRecordsAlone) {
  tool first(record_without_end());
  ASSERT_TRUE(first.says("step ")) << first.err();
  expect_refused(record("--steps 12"_w), "another run is recording into it (process ", "run.rec");
  first.signal(SIGINT);
  EXPECT_EQ(first.code(), 130);
  done("replay --quiet"_w + recording);
}

TEST_F(ReplayCommand, GoesAsFarAsARecordingThatFilledTheDisk) {
  std::optional<tool> recorded;
  {
    const full_disk full(200'000); // bytes, which the recording alone exceeds
    recorded.emplace(record("--devices cpu:0,cpu:0 --steps 20000 --save"_w + path("m.safetensors")),
                     "/dev/null");
    EXPECT_EQ(recorded->code(), 1);
  }
  if (count_of(recorded->err(), "ended early") > 0) { // the recorder was no later than the run
    EXPECT_THAT(recorded->err(), HasAll("recording '" + recording + "' ended early, after ",
                                        "File too large; all of that is in '" + recording + ".partial'"));
    EXPECT_EQ(count_of(recorded->err(), "ended early"), 1U);
  }
  EXPECT_THAT(recorded->err(),
              HasSubstr("mailgrad: recording '" + recording + "' is not whole: File too large\n"));
  EXPECT_EQ(report()["ended"], "completed");
  EXPECT_EQ(report()["steps"], 20000);
  EXPECT_EQ(report()["recording"]["failure"], "File too large");
  EXPECT_EQ(report()["recording"]["kept_bytes"], std::filesystem::file_size(recording + ".partial"));
  EXPECT_TRUE(std::filesystem::exists(path("m.safetensors")));
  refusal("replay --quiet"_w + (recording + ".partial") + "--report" + path("run.json"), 4);
  EXPECT_GT(report()["steps"], 1000);
  EXPECT_LT(report()["steps"], 20000);
}

} // namespace
} // namespace mailgrad::testing
