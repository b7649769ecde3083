#include <mailgrad/cli/remote/run_status.hpp>

#include <mailgrad/tests/cli/tool.hpp>

#include <fmt/format.h>

namespace mailgrad::testing {
namespace {

constexpr std::uint32_t workers = 10'000;
constexpr std::uint32_t shards = 4;
constexpr std::uint32_t devices_each = 2;

/// Of a run whose workers have all done something else.
training_report large_report() {
  training_report r;
  r.ended = "running";
  r.policy = "async";
  r.wire = "float32";
  r.wall_seconds = 60;
  r.workers = workers;
  r.shards = shards;
  for (std::uint32_t w = 0; w < workers; ++w) {
    for (std::uint32_t d = 0; d < devices_each; ++d) {
      r.devices.push_back(fmt::format("cpu:{}", d));
      r.stages.push_back({w, r.devices.back(), 1.0 + w % 50});
    }
    r.worker_waits.push_back({1, 2, 3});
    r.batches.push_back({w % 2, w % 3, w % 5, w});
    for (std::uint32_t s = 0; s < shards; ++s) {
      exchange_figures x;
      x.shard = s;
      x.worker = w;
      x.gaps.count(w % 7);
      r.exchanges.push_back(x);
      r.staleness.count(w % 7);
    }
  }
  return r;
}

std::vector<run_member> many_members() {
  std::vector<run_member> all;
  for (std::uint32_t w = 0; w < workers; ++w) {
    run_member m;
    m.role = "worker";
    m.number = w;
    m.is = w % 100 == 0 ? run_member::state::lost : run_member::state::joined;
    m.address = "10.0.0.3:51234";
    m.devices.assign(devices_each, "cpu:0");
    m.why = w % 100 == 0 ? std::string(5000, 'x') : "";
    all.push_back(m);
  }
  return all;
}

std::string large_status() {
  words waits;
  for (std::uint32_t w = 0; w < workers; ++w)
    waits.push_back(fmt::format("worker {} waits for a batch, for 0.1 s", w));
  training_report r = large_report();
  r.members = many_members();
  return status_of(std::move(r), waits);
}

TEST(RunStatus, IsSmallHoweverManyWorkersThereAre) {
  const std::string status = large_status();
  EXPECT_LE(status.size(), 128U << 10);
  EXPECT_EQ(nlohmann::json::parse(status).at("report").at("workers"), workers);
}

TEST(RunStatus, IsATableThatAPersonReads) {
  const std::string all = format_status(large_status());
  const words lines = lines_of(all);
  EXPECT_THAT(lines, SizeIs(Le(160U))) << "64 members, 64 waits, and what there is of all";
  EXPECT_THAT(lines, Each(ResultOf([](const std::string& l) { return l.size(); }, Le(600U))));
  for (const char* part :
       {"members       9900 workers joined, 100 lost\n", "and 9936 more, which give less cause for concern",
        "and 9936 more waits", "data          5000 batches from the own disk of 5000 workers, ",
        "; 9999 batches sent to 6666 workers; 20000 sent to 8000 workers and lost with them\n",
        "stages        computed from 2 % to 83 % of the time\n"})
    EXPECT_THAT(all, HasSubstr(part));
}

/// A run of two shards, which a parameter host holds that stands still.
std::string status_with(std::vector<late_figures> late, const std::string& state = "joined") {
  training_report r;
  r.ended = "running";
  r.policy = "async";
  r.workers = 1;
  r.shards = 2;
  r.devices = {"cpu:0"};
  r.ledger = {956, 655, 0, {}, 0};
  r.updates = 655;
  r.late = std::move(late);
  if (r.knows_ledger()) r.staleness.count(1, 655);
  run_member host{"parameter host", 3, 1};
  host.shards = {0, 1};
  host.heard = 0.8;
  host.since = 5;
  if (state == "lost") host.is = run_member::state::lost;
  r.members = {host};
  return status_of(std::move(r), {});
}

TEST(RunStatus, NamesThePolicyOfNow) {
  training_report r = large_report();
  r.present_policy = "async";
  EXPECT_THAT(format_status(status_of(r, {})), HasSubstr("\npolicy        async\n"));
  r.present_policy = "sync";
  r.switches = {{298, "async", "sync", "asked for"}};
  EXPECT_THAT(format_status(status_of(r, {})), HasSubstr("\npolicy        sync since step 298\n"));
}

TEST(RunStatus, SaysWhoIsBackAndWhyTheyWereLost) {
  training_report r = large_report();
  r.members = {{"worker", 0}, {"worker", 1, 2}, {"worker", 2, 3, run_member::state::lost}};
  r.members[1].losses = 1;
  r.members[1].why = "it was killed";
  r.members[2].losses = 3;
  r.members[2].why = "no sign of life";
  const std::string status = status_of(std::move(r), {});
  const std::string text = format_status(status);
  EXPECT_THAT(text, HasSubstr("\nmembers       2 workers joined, 1 lost\n"));
  EXPECT_THAT(text, ContainsRegex("\n  worker 0  joined  [^\n]* 1 *\n"));
  EXPECT_THAT(text, ContainsRegex("\n  worker 1  back    [^\n]* was lost: it was killed\n"));
  EXPECT_THAT(
      text, ContainsRegex("\n  worker 2  lost    [^\n]* was lost 3 times, the last time: no sign of life\n"));
  const auto told = nlohmann::json::parse(status);
  EXPECT_EQ(told["members"]["listed"][1]["losses"], 1);
  EXPECT_FALSE(told["report"].contains("members")) << "they are told once";
}

TEST(RunStatus, SaysHowOldTheFiguresOfAFrozenHostAre) {
  const std::string status = status_with({{0, 1.26}, {1, 1.31}});
  EXPECT_THAT(
      format_status(status),
      HasSubstr("gradients     655 produced = 655 applied + 0 merged + 0 discarded + 0 lost; 301 more "
                "under way or not told of yet\n"
                "late          the figures of shards 0, 1 are of 1.3 s ago; parameter host 3, which "
                "holds them, was heard 0.8 s ago\n"));
  EXPECT_EQ(nlohmann::json::parse(status).at("late")[1],
            nlohmann::json::parse(
                R"({"shard": 1, "seconds_old": 1.31, "parameter_host": 3, "heard_seconds": 0.8})"));
}

TEST(RunStatus, TellsNoLedgerThatNobodyKnows) {
  const std::string status = status_with({{0, {}}, {1, {}}});
  const std::string text = format_status(status);
  EXPECT_THAT(text, HasSubstr("updates       unknown\nstaleness     unknown\n"));
  EXPECT_THAT(text,
              HasSubstr("gradients     unknown, since no shard has told what became of them\n"
                        "late          shards 0, 1 have told no figures yet; parameter host 3, which holds "
                        "them, was heard 0.8 s ago\n"));
  EXPECT_TRUE(nlohmann::json::parse(status).at("report").at("ledger").is_null());
  EXPECT_TRUE(nlohmann::json::parse(status).at("under_way").is_null());
}

TEST(RunStatus, SaysWithWhichHostFiguresWereLost) {
  EXPECT_THAT(
      format_status(status_with({{1, {}}}, "lost")),
      HasSubstr("\nlate          shard 1 has told no figures yet; parameter host 3, which held it, was "
                "lost 5.0 s ago\n"));
}

} // namespace
} // namespace mailgrad::testing
