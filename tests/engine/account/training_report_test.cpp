#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/engine/account/training_report.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <limits>

namespace mailgrad {
namespace {

using namespace ::testing;

using json = nlohmann::ordered_json;

std::vector<std::string> field_names(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

training_report finished_run() {
  training_report r;
  r.policy = "async";
  r.devices = {"cpu:0", "cpu:1"};
  r.ended = "completed";
  r.steps = 100;
  r.samples = 6400;
  r.wall_seconds = 0.5;
  r.final_loss = 0.25;
  r.test_accuracy = 0.875;
  r.ledger = {100, 98, 0, {{"not finite", 1}}, 1};
  r.staleness.count(0, 40);
  r.staleness.count(1, 50);
  r.staleness.count(5, 8);
  r.discarded_staleness.count(9, 2);
  exchange_figures shard_0{0, 1, {}, {}, {}};
  shard_0.gaps.count(1, 3);
  shard_0.gaps.count(4, 2);
  exchange_figures shared_block{{}, 1, {}, {}, {}};
  shared_block.gaps.count(4, 1);
  r.exchanges = {shard_0, shared_block};
  r.times.compute.add(std::chrono::seconds{1});
  r.times.compute.add(std::chrono::seconds{3});
  r.waits = {1.5, 0, 0.25};
  r.switches.push_back({50, "sync", "async", "barrier wait 61 %"});
  r.parameters_sha256 = "ab12";
  r.seed = 7;
  return r;
}

json told(const training_report& r) { return json::parse(to_json(r)); }

/// Expects these figures in a report, whatever the others are.
void expect_told(const training_report& r, const char* figures) {
  const json found = told(r);
  json expected = found;
  expected.merge_patch(json::parse(figures));
  EXPECT_EQ(found, expected);
}

TEST(TrainingReport, HasTheFieldsThatToolsRead) {
  const json o = told(finished_run());
  EXPECT_THAT(field_names(o),
              ElementsAre("version", "commit", "compiler", "date", "host", "processor", "command", "model",
                          "span", "weights", "policy", "present_policy", "wire", "devices", "precision",
                          "workers", "micro_batches", "stages", "data", "reading", "optimizer",
                          "learning_rate", "batch", "shards", "ended", "why", "lost_shards", "enough",
                          "steps", "samples", "epochs", "updates", "wall_seconds", "steps_per_second",
                          "samples_per_second", "final_loss", "test_loss", "test_accuracy", "test_rmse",
                          "validation_loss", "validation_accuracy", "validation_rmse", "best", "tested",
                          "cards", "sample", "ledger", "kept_ledger", "staleness", "time_split", "weight_gap",
                          "gradient_cosine", "sampled", "wait_seconds", "batches", "switches", "members",
                          "resumed", "checkpoints", "recording", "curve", "evaluations", "local_steps",
                          "delays", "cure", "parameters_sha256", "seed"));
  EXPECT_THAT(field_names(o["ledger"]), ElementsAre("produced", "applied", "merged", "discarded", "lost"));
  EXPECT_THAT(field_names(o["staleness"]),
              ElementsAre("mean", "p50", "p99", "max", "histogram", "discarded", "per_shard"));
  EXPECT_THAT(field_names(o["staleness"]["per_shard"][0]),
              ElementsAre("shard", "worker", "mean", "p50", "p99", "max", "histogram"));
  EXPECT_THAT(field_names(o["time_split"]),
              ElementsAre("read", "compute", "wire", "mailbox", "apply", "per_shard"));
  EXPECT_THAT(field_names(o["time_split"]["compute"]), ElementsAre("seconds", "mean", "max", "count"));
  EXPECT_THAT(field_names(o["wait_seconds"]), ElementsAre("barrier", "bound", "feeder", "per_worker"));
  EXPECT_THAT(field_names(o["switches"][0]), ElementsAre("step", "time_s", "from", "to", "why"));
}

TEST(TrainingReport, DatesTheSwitchesOfItsOwnProcess) {
  training_report r = finished_run();
  EXPECT_TRUE(told(r)["switches"][0]["time_s"].is_null());
  r.switches[0].time_s = 2.5;
  r.present_policy = "async";
  EXPECT_EQ(told(r)["switches"][0]["time_s"], 2.5);
  EXPECT_EQ(told(r)["present_policy"], "async");
}

TEST(TrainingReport, NamesTheMembersOfARunOverProcesses) {
  training_report r = finished_run();
  EXPECT_TRUE(told(r)["members"].is_null()) << "in one process workers are threads";
  r.members = {{"worker", 0}, {"worker", 1, 1, run_member::state::lost}};
  r.members[1].why = "it was killed";
  const json members = told(r)["members"];
  EXPECT_EQ(members["counts"]["worker"], json::parse(R"({"joined": 1, "done": 0, "left": 0, "lost": 1})"));
  EXPECT_EQ(members["listed"][1]["why"], "it was killed");
}

TEST(TrainingReport, SaysWhereItComesFromAsFarAsThatIsKnown) {
  training_report r = finished_run();
  r.origin = this_program();
  const json o = told(r);
  EXPECT_EQ(o["version"], r.origin.version);
  EXPECT_TRUE(o["commit"].is_null() && o["date"].is_null()) << "the program has not told them";
}

TEST(TrainingReport, TellsWhichWeightsWereKept) {
  training_report r = finished_run();
  EXPECT_TRUE(told(r)["best"].is_null()) << "the last ones";
  r.best = best_test{60, 0.5, true, "cd34"};
  EXPECT_EQ(told(r)["best"],
            json::parse(R"({"steps": 60, "loss": 0.5, "samples": "validation", "weights_sha256": "cd34",
                            "why_last_untested": null})"));
  r.best->why_last_untested = "no memory";
  EXPECT_EQ(told(r)["best"]["why_last_untested"], "no memory");
}

TEST(TrainingReport, SaysWhatWasUnderstoodOfTheData) {
  training_report r = finished_run();
  EXPECT_TRUE(told(r)["reading"].is_null()) << "a program made the data";
  data_reading reading{.format = "IDX",
                       .dims = {28, 28, 1},
                       .inputs = 784,
                       .train = 60,
                       .test = 10,
                       .test_why = "t10k-images",
                       .task_why = "as such files have it",
                       .classes = 10,
                       .smallest = class_size{"3", 5},
                       .largest = class_size{"7", 8}};
  r.reading = std::make_shared<const data_reading>(reading);
  EXPECT_EQ(told(r)["reading"], json::parse(R"({
    "format": "IDX", "table": null, "dims": [28, 28, 1], "inputs": 784,
    "task": {"learns": "classes", "why": "as such files have it"},
    "samples": {"train": 60, "validation": 0, "test": 10}, "test_part": "t10k-images",
    "classes": {"count": 10, "smallest": {"name": "3", "samples": 5}, "largest": {"name": "7", "samples": 8}}})"));
  table_reading& table = reading.table.emplace();
  table.encoding = "UTF-16 LE";
  table.delimiter = ';';
  table.decimal = ",";
  table.header = true;
  table.numbers = 4;
  table.label_column = 5;
  table.label_why = "--label says so";
  table.missing = 3;
  table.became = missing_values::mean;
  r.reading = std::make_shared<const data_reading>(reading);
  EXPECT_EQ(told(r)["reading"]["table"], json::parse(R"({
    "encoding": "UTF-16 LE", "delimiter": ";", "decimal": ",", "thousands": null, "header": true,
    "comments": 0,
    "columns": {"numbers": 4, "categories": 0, "left_out": 0},
    "label": {"column": 5, "name": null, "why": "--label says so"},
    "missing": {"values": 3, "rows_left_out": 0, "became": "mean"}})"));
}

TEST(TrainingReport, WritesEachFigureUnderItsName) {
  training_report r = finished_run();
  r.worker_waits = {{1, 0, 0.25}, {0.5, 0, 0}};
  r.gradient_cosine.add(0.5);
  r.gradient_cosine.add(-0.25);
  expect_told(r, R"({"policy": "async", "devices": ["cpu:0", "cpu:1"], "ended": "completed", "why": "",
    "steps": 100, "samples": 6400, "steps_per_second": 200, "samples_per_second": 12800, "final_loss": 0.25,
    "test_accuracy": 0.875, "parameters_sha256": "ab12", "seed": 7,
    "ledger": {"produced": 100, "applied": 98, "merged": 0, "discarded": {"not finite": 1}, "lost": 1},
    "staleness": {"histogram": [[0, 40], [1, 50], [5, 8]], "discarded": [[9, 2]], "p50": 1, "p99": 5,
                  "max": 5},
    "time_split": {"compute": {"seconds": 4, "mean": 2, "max": 3, "count": 2}},
    "gradient_cosine": {"count": 2, "mean": 0.125, "min": -0.25, "max": 0.5}, "weight_gap": {"count": 0},
    "wait_seconds": {"barrier": 1.5, "bound": 0, "feeder": 0.25,
                     "per_worker": [{"worker": 0, "barrier": 1.0, "bound": 0.0, "feeder": 0.25},
                                    {"worker": 1, "barrier": 0.5, "bound": 0.0, "feeder": 0.0}]}})");
  const json o = told(r);
  EXPECT_DOUBLE_EQ(o["staleness"]["mean"].get<double>(), 90.0 / 98);
  EXPECT_EQ(o["switches"][0]["why"], "barrier wait 61 %");
  const json exchanges = o["staleness"]["per_shard"];
  EXPECT_EQ(exchanges[0]["shard"], 0);
  EXPECT_EQ(exchanges[0]["worker"], 1);
  EXPECT_EQ(exchanges[0]["mean"], 2.2);
  EXPECT_EQ(exchanges[0]["histogram"], json::parse("[[1,3],[4,2]]"));
  EXPECT_TRUE(exchanges[1]["shard"].is_null()) << "hogwild has none";
}

TEST(TrainingReport, WritesNullForWhatIsUnknown) {
  training_report r;
  r.ended = "stopped";
  const json o = told(r);
  for (const char* figure :
       {"final_loss", "test_accuracy", "test_rmse", "resumed", "checkpoints", "recording", "kept_ledger"})
    EXPECT_TRUE(o[figure].is_null()) << figure;
  for (const char* figure : {"mean", "p50", "p99", "max"})
    EXPECT_TRUE(o["staleness"][figure].is_null()) << figure;
  for (const char* figure : {"mean", "min", "max"}) EXPECT_TRUE(o["weight_gap"][figure].is_null()) << figure;
  for (const char* part : {"read", "compute", "wire", "mailbox", "apply"})
    EXPECT_TRUE(o["time_split"][part].is_null()) << part;
  EXPECT_EQ(o["staleness"]["histogram"], json::array());
  EXPECT_EQ(o["switches"], json::array());
  EXPECT_EQ(o["ledger"]["discarded"], json::object());
  EXPECT_EQ(o["steps_per_second"], 0.0);
}

TEST(TrainingReport, JoinsTheShardsOfAWorkerAndWritesHistogramsAsLines) {
  EXPECT_EQ(staleness_csv(finished_run()), "shard,worker,gap,count\n0,1,1,3\n0,1,4,2\n,1,4,1\n");
  EXPECT_EQ(staleness_csv({}), "shard,worker,gap,count\n");
  EXPECT_THAT(staleness_of(finished_run(), 1).buckets(), ElementsAre(Pair(1, 3), Pair(4, 3)));
  EXPECT_TRUE(staleness_of(finished_run(), 0).empty());
}

TEST(TrainingReport, IsJsonWhateverTextAndFiguresItHolds) {
  training_report r;
  r.why = "a \"quoted\" line\nand \xff a byte that is no UTF-8";
  r.final_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(told(r)["final_loss"].is_null());
}

TEST(TrainingReport, TellsOfCheckpointsTestsAndTheLedgerOfAShardThatIsLeft) {
  training_report r = finished_run();
  EXPECT_EQ(told(r)["evaluations"], json::parse(R"({"count": 0, "seconds": 0.0, "why_on_host": null,
    "left_out": 0, "why_left_out": null})"));
  r.evaluations = {3, 0.5, "no memory there", 2, "nor here"};
  r.resumed = resumed_figures{"kept/checkpoint-500.safetensors", 500, 40};
  r.checkpoints =
      checkpoint_account{12, 1, 4096, 0.25, 0.5, "kept/checkpoint-900.safetensors", 900, "full", 2, 4};
  r.kept_ledger = shard_ledger{3, {5, 4, 0, {{"late", 1}}, 0}};
  expect_told(r, R"({
    "evaluations": {"count": 3, "seconds": 0.5, "why_on_host": "no memory there", "left_out": 2,
                    "why_left_out": "nor here"},
    "resumed": {"from": "kept/checkpoint-500.safetensors", "steps": 500, "steps_before": 40},
    "checkpoints": {"written": 12, "failed": 1, "skipped": 2, "bytes": 4096, "seconds": 0.25,
                    "held_seconds": 0.5, "last": "kept/checkpoint-900.safetensors", "last_steps": 900,
                    "failure": "full", "removed_for_room": 4},
    "kept_ledger": {"produced": 5, "applied": 4, "merged": 0, "discarded": {"late": 1}, "lost": 0,
                    "shard": 3}})");
  EXPECT_TRUE(told(r)["resumed"]["products_before"].is_null());
  r.resumed->products_before = "cuBLAS 13.0.0";
  EXPECT_EQ(told(r)["resumed"]["products_before"], "cuBLAS 13.0.0");
}

TEST(TrainingReport, TellsOfTheRecording) {
  training_report r = finished_run();
  r.recording = recording_account{.file = "run.rec", .bytes = 4096};
  EXPECT_EQ(told(r)["recording"], json::parse(R"({"file": "run.rec", "bytes": 4096, "failure": "",
    "seconds": null, "kept": "", "kept_bytes": 0})"));
  *r.recording = {"run.rec", 4096, "No space left on device", 2.5, "run.rec.partial", 1024};
  EXPECT_EQ(told(r)["recording"], json::parse(R"({"file": "run.rec", "bytes": 4096,
    "failure": "No space left on device", "seconds": 2.5, "kept": "run.rec.partial", "kept_bytes": 1024})"));
}

TEST(RecordingAccount, SaysWhatIsLeft) {
  recording_account r{"run.rec", 4096, "No space left on device", 2.5, "run.rec.partial", 4096};
  const std::string what =
      "recording 'run.rec' ended early, after 2.5 s with 4.0 KiB: No space left on device";
  EXPECT_EQ(format_recording(r), what + "; all of that is in 'run.rec.partial'");
  r.kept_bytes = 1024;
  EXPECT_EQ(format_recording(r),
            what + "; its first 1.0 KiB are in 'run.rec.partial', the rest made room for other files");
  r = {.file = r.file, .bytes = r.bytes, .failure = r.failure, .seconds = r.seconds};
  EXPECT_EQ(format_recording(r), what) << "a device keeps nothing, and gives no room back";
  r.removed = true;
  EXPECT_EQ(format_recording(r), what + "; it was removed to make room for other files");
}

TEST(TrainingReport, HasNoUpdatesWhileNoShardHasToldOfAny) {
  training_report r;
  r.ended = "running";
  r.shards = 1;
  r.late = {{0, {}}};
  EXPECT_TRUE(told(r)["updates"].is_null());
  EXPECT_TRUE(told(r)["staleness"]["mean"].is_null());
  r.late = {{0, 0.5}};
  EXPECT_EQ(told(r)["updates"], 0) << "those of half a second ago";
}

/// And neither date nor commit, or two runs of one program could not be compared byte for byte.
TEST(Provenance, NamesTheBuildAndTheMachine) {
  const provenance p = this_program();
  EXPECT_THAT(p.version, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(p.compiler, MatchesRegex("(GNU|Clang) [0-9]+\\.[0-9]+\\.[0-9]+"));
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host), 0);
  EXPECT_EQ(p.host, host);
  EXPECT_THAT(p.processor, Not(IsEmpty()));
  EXPECT_FALSE(p.processor.starts_with(' '));
  EXPECT_THAT(p.date, IsEmpty());
  EXPECT_THAT(p.commit, IsEmpty());
}

using state = run_member::state;

run_member worker(std::uint32_t number, state is, double heard = 0.1) {
  run_member m{"worker", number, 1, is};
  m.since = 5;
  m.heard = heard;
  m.address = "10.0.0.3:51234";
  m.devices = {"cpu:0"};
  return m;
}

TEST(RunMember, IsToldWithTheFieldsThatToolsRead) {
  run_member lost = worker(1, state::lost, 6.5);
  lost.incarnation = 3;
  lost.losses = 2;
  lost.why = "it was killed";
  run_member host{"parameter host", 0, 1, state::joined};
  const json all = json::parse(to_json({host, lost, worker(0, state::joined)}));
  EXPECT_EQ(all["counts"], json::parse(R"({"parameter host": {"joined": 1, "done": 0, "left": 0, "lost": 0},
                                  "worker": {"joined": 1, "done": 0, "left": 0, "lost": 1}})"));
  ASSERT_THAT(all["listed"], SizeIs(3));
  EXPECT_EQ(all["listed"][1],
            json::parse(R"({"role": "worker", "number": 1, "incarnation": 3, "state": "lost",
      "since_seconds": 5.0, "heard_seconds": 6.5, "address": "10.0.0.3:51234", "devices": ["cpu:0"],
      "shards": [], "losses": 2, "why": "it was killed"})"));
  EXPECT_EQ(all["listed"][0]["number"], 0) << "by their numbers";
  EXPECT_EQ(all["listed"][2]["role"], "parameter host") << "behind the workers";
  EXPECT_TRUE(all["listed"][2]["heard_seconds"].is_null());
}

TEST(RunMember, IsCountedByItsRoleAndItsState) {
  std::vector<run_member> all{
      worker(0, state::joined), {"parameter host", 0}, worker(1, state::lost), worker(2, state::joined)};
  all[2].losses = 1;
  all[3].losses = 2;
  const std::vector<member_counts> counts = counted(all);
  ASSERT_THAT(counts, SizeIs(2));
  EXPECT_EQ(counts[0].role, "worker");
  EXPECT_THAT(counts[0].in, ElementsAre(2, 0, 0, 1)) << "joined, done, left, lost";
  EXPECT_EQ(counts[0].losses, 3U);
  EXPECT_THAT(counts[1].in, ElementsAre(1, 0, 0, 0));
}

TEST(RunMember, IsListedIfAnOperatorMustLookAtIt) {
  std::vector<run_member> all;
  for (std::uint32_t n = 0; n < 200; ++n) all.push_back(worker(n, state::joined, n == 150 ? 1.4 : 0.1));
  all[170].is = state::lost;
  all[190].is = state::left;
  json told = json::parse(to_json(all));
  ASSERT_THAT(told["listed"], SizeIs(most_members_listed));
  std::vector<int> last;
  for (std::size_t i = most_members_listed - 3; i < most_members_listed; ++i)
    last.push_back(told["listed"][i]["number"]);
  EXPECT_THAT(last, ElementsAre(150, 170, 190)) << "unheard for longest, lost, left";
  EXPECT_EQ(told["counts"]["worker"], json::parse(R"({"joined": 198, "done": 0, "left": 1, "lost": 1})"));
  for (std::uint32_t n = 0; n < 200; ++n) {
    all[n] = worker(n, state::lost);
    all[n].since = 200 - n;
  }
  told = json::parse(to_json(all));
  ASSERT_THAT(told["listed"], SizeIs(most_members_listed));
  EXPECT_EQ(told["listed"][0]["number"], 200 - most_members_listed) << "of the lost, those that went last";
}

/// However many they are and whatever they said.
TEST(RunMember, TakesARoomThatIsBounded) {
  std::vector<run_member> all;
  for (std::uint32_t n = 0; n < 10'000; ++n) {
    all.push_back(worker(n, state::lost));
    all.back().why = std::string(5'000, 'x');
  }
  EXPECT_LT(to_json(all).size(), 64U << 10);
  all.resize(most_members_listed + 1); // the more devices need the more memory here
  for (run_member& m : all) m.devices.assign(1'000, std::string(1'000, 'd'));
  EXPECT_LT(to_json(all).size(), 128U << 10);
  EXPECT_THAT(to_json(all), HasSubstr("\"and 984 more\""));
  EXPECT_THAT(to_json(all), HasSubstr("xxx...\""));
  run_member host{"parameter host", 0, 1, state::joined};
  host.shards.resize(100);
  EXPECT_THAT(json::parse(to_json({host}))["listed"][0]["shards"], SizeIs(16));
}

} // namespace
} // namespace mailgrad
