#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/watcher.hpp>

#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

// Runs whose workers have the samples themselves end as those whose batches are sent.

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;

/// The samples of a run as a worker of another machine has them: in memory of its own.
std::shared_ptr<local_samples> copy_of(const dataset& samples) {
  return std::make_shared<local_samples>("a copy", std::make_shared<const dataset>(samples));
}

std::uint64_t bytes_of_batches(const training_report& r) {
  std::uint64_t sum = 0;
  for (const batch_origins& b : r.batches) sum += b.spared_bytes;
  return sum;
}

struct OwnData : ::testing::TestWithParam<kind_of_run> {};

TEST_P(OwnData, GivesTheWeightsOfBatchesThatAreSent) {
  const kind_of_run& kind = GetParam();
  const training_report sent = trained_elsewhere(kind);
  const auto own = copy_of(kind.data->train);
  const training_report all = trained_elsewhere(kind, 0, "float32", [&](std::uint32_t) { return own; });
  const training_report mixed =
      trained_elsewhere(kind, 0, "float32", [&](std::uint32_t r) { return r == 0 ? own : nullptr; });
  ASSERT_EQ(all.ended, "completed") << all.why;
  ASSERT_EQ(mixed.ended, "completed") << mixed.why;
  EXPECT_EQ(all.parameters_sha256, sent.parameters_sha256);
  EXPECT_EQ(mixed.parameters_sha256, sent.parameters_sha256);
  for (std::size_t r = 0; r < all.batches.size(); ++r) {
    EXPECT_EQ(sent.batches[r].own, 0U);
    EXPECT_GT(sent.batches[r].sent, 0U);
    EXPECT_GT(all.batches[r].own, 0U);
    EXPECT_EQ(all.batches[r].sent, 0U);
    EXPECT_EQ(mixed.batches[r].own > 0, r == 0);
    EXPECT_EQ(mixed.batches[r].sent > 0, r != 0);
  }
  EXPECT_EQ(bytes_of_batches(sent), 0U);
  EXPECT_GT(bytes_of_batches(all), kind.data->train.size() * sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(All, OwnData, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(OwnDataOfWorkers, ThatAreOthersAreNamedAndTheBatchesAreSent) {
  const kind_of_run kind = with("", "sync", 2);
  const auto other = std::make_shared<const dataset>(mailgrad::testing::small_samples(48, 9));
  std::string said;
  const training_report r = trained_elsewhere(
      kind, 0, "float32", [&](std::uint32_t) { return std::make_shared<local_samples>("other", other); },
      [&](std::uint32_t worker, const std::string& why) {
        if (worker == 0) said = why;
      });
  ASSERT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(r.parameters_sha256, train(kind.model, kind.data, kind.options).parameters_sha256);
  EXPECT_EQ(r.batches[0].own, 0U);
  EXPECT_THAT(said, HasSubstr("data 'other': expected the 48 training samples of 'small'"));
  EXPECT_THAT(said, HasSubstr(digest_of(kind.data->train)));
  EXPECT_THAT(said, HasSubstr(digest_of(*other)));
}

TEST(OwnDataOfWorkers, IsReplayedInOneProcessBitForBit) {
  const scratch_folder folder;
  kind_of_run kind = with("", "async", 3, [](training_options& o) { o.shards = 2; });
  kind.options.record = (folder.path() / "recording").string();
  const auto own = copy_of(kind.data->train);
  const training_report there =
      trained_elsewhere(kind, 0, "float32", [&](std::uint32_t r) { return r == 1 ? nullptr : own; });
  ASSERT_EQ(there.ended, "completed") << there.why;
  training_options again = kind.options;
  again.record.clear();
  again.replay = std::make_shared<const recording>(read_recording(kind.options.record));
  const training_report here = train(kind.model, kind.data, again);
  EXPECT_EQ(here.ended, "completed") << here.why;
  EXPECT_EQ(here.parameters_sha256, there.parameters_sha256);
}

/// What a lost worker had not trained is dealt again, to whoever has the samples or has not.
TEST(OwnDataOfWorkers, GoesWithAWorkerThatIsLostAndComesAgain) {
  open_run run(endless("sync", 2), 2);
  const auto own = copy_of(mailgrad::testing::small_data(480)->train);
  membership stays(run.address(), {});
  {
    membership dies(run.address(), {.samples = own});
    ASSERT_TRUE(dies.wait_for_begin(std::chrono::seconds{20}));
    dies.cut();
    run.wait_for_event("lost worker");
  }
  membership comes(run.address(), {.samples = own});
  ASSERT_TRUE(comes.wait_for_begin(std::chrono::seconds{20}));
  comes.leave();
  EXPECT_EQ(comes.wait().reason, net::end_reason::left);
  watcher(run.address()).ask("stop");
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

} // namespace
} // namespace mailgrad::remote
