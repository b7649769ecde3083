#include <mailgrad/tests/actors/run/coordinator_fixture.hpp>

#include <mailgrad/actors/run/feeder_cut.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

namespace mailgrad {
namespace {

using testing::Coordinator;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(Coordinator, KeepsInACheckpointWhatALostWorkerCutOfItsOwnSamples) {
  auto devices = std::array{listen<take_checkpoint, give_up>(), listen<take_checkpoint, give_up>()};
  auto shards = std::array{listen<take_checkpoint, report_shard, worker_left, tell_trained>(),
                           listen<take_checkpoint, report_shard, worker_left, tell_trained>()};
  auto feeder = listen<take_checkpoint, watch_checkpoints, share_lost, deal_again>();
  auto writer = listen<write_checkpoint>();
  coordinator_options options;
  options.workers = 2;
  options.elastic = true;
  options.shards = {shards[0].actor(), shards[1].actor()};
  options.feeder = feeder.actor();
  options.checkpoints.writer = writer.actor();
  const caf::actor keeping = start<coordinator>(std::move(options));
  for (std::uint32_t r = 0; r < 2; ++r) tell(keeping, worker_joined{{r}, devices[r].actor()});
  kill(devices[0].actor());
  for (std::uint32_t s = 0; s < 2; ++s) tell(keeping, trained_reported{{s}, {0}, {}, 3, 3, 24});
  tell(keeping, share_ended{{0}, {}, 3, 0});
  tell(keeping, request_checkpoint{});
  feeder_position position;
  position.trained = {3, 4};
  std::vector<std::uint64_t> samples{24, 32};
  const auto of_feeder = std::make_shared<saved_fields>();
  of_feeder->field("feeder", position);
  of_feeder->field(samples_at_markers, samples);
  for (const char* name : {"worker 1", "shard 0", "shard 1"})
    tell(keeping, checkpoint_part{1, name, std::make_shared<saved_fields>()});
  tell(keeping, checkpoint_part{1, "feeder", of_feeder});
  ASSERT_THAT(writer.heard<write_checkpoint>(), SizeIs(1));
  const auto kept = writer.heard<write_checkpoint>()[0].parts.at("worker 0");
  saved_fields part(kept->text(), kept->arrays());
  bool ended = false;
  worker_report report;
  part.version(1);
  part.field("ended", ended);
  part.field("report", report);
  EXPECT_EQ(report.steps, 3U);
  EXPECT_EQ(report.local_batches, 3U);
}

TEST_F(Coordinator, BeginsNoCheckpointOfTheEndForAWorkerThatIsLostAtItsEnd) {
  auto devices = std::array{listen<take_checkpoint, give_up, mark_at_end>(),
                            listen<take_checkpoint, give_up, mark_at_end>()};
  auto shard = listen<take_checkpoint, report_shard, worker_left, tell_trained>();
  auto feeder = listen<take_checkpoint, watch_checkpoints, share_lost, deal_again>();
  auto writer = listen<write_checkpoint>();
  coordinator_options options;
  options.workers = 2;
  options.elastic = true;
  options.shards = {shard.actor()};
  options.feeder = feeder.actor();
  options.checkpoints.writer = writer.actor();
  const caf::actor keeping = start<coordinator>(std::move(options));
  for (std::uint32_t r = 0; r < 2; ++r) tell(keeping, worker_joined{{r}, devices[r].actor()});
  tell(keeping, request_checkpoint{});
  tell(keeping, worker_at_end{{0}});
  kill(devices[0].actor());
  tell(keeping, trained_reported{{0}, {0}, {}, 3, 3, 24});
  tell(keeping, share_ended{{0}, {}, 3, 0});
  feeder_position position;
  position.trained = {3, 4};
  std::vector<std::uint64_t> samples{24, 32};
  const auto of_feeder = std::make_shared<saved_fields>();
  of_feeder->field("feeder", position);
  of_feeder->field(samples_at_markers, samples);
  for (const char* name : {"worker 1", "shard 0"})
    tell(keeping, checkpoint_part{1, name, std::make_shared<saved_fields>()});
  tell(keeping, checkpoint_part{1, "feeder", of_feeder});
  ASSERT_THAT(writer.heard<write_checkpoint>(), SizeIs(1));
  tell(keeping, checkpoint_written{1, 10, "last", ""});
  EXPECT_THAT(devices[1].heard<mark_at_end>(), IsEmpty());
  tell(keeping, request_checkpoint{});
  EXPECT_THAT(devices[1].heard<take_checkpoint>(), SizeIs(2)) << "the next one is not held up";
}

TEST_F(Coordinator, TakesNoCheckpointForAStopThatComesBehindTheLast) {
  auto devices = std::array{listen<take_checkpoint, give_up>(), listen<take_checkpoint, give_up>()};
  auto shards = std::array{listen<take_checkpoint, report_shard, worker_left>(),
                           listen<take_checkpoint, report_shard, worker_left>()};
  auto feeder = listen<take_checkpoint, watch_checkpoints, stop_dealing, worker_left>();
  auto writer = listen<write_checkpoint>();
  coordinator_options options;
  options.workers = 2;
  options.elastic = true;
  options.waits_for_workers = std::chrono::seconds(60);
  options.shards = {shards[0].actor(), shards[1].actor()};
  options.feeder = feeder.actor();
  options.checkpoints.writer = writer.actor();
  options.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
  const caf::actor keeping = start<coordinator>(std::move(options));
  for (std::uint32_t r = 0; r < 2; ++r) tell(keeping, worker_joined{{r}, devices[r].actor()});
  for (std::uint32_t r = 0; r < 2; ++r) {
    worker_report report = report_of(r);
    report.steps = 5;
    tell(keeping, worker_finished{report});
  }
  for (const char* name : {"shard 0", "shard 1", "feeder"})
    tell(keeping, checkpoint_part{1, name, std::make_shared<saved_fields>()});
  ASSERT_THAT(writer.heard<write_checkpoint>(), SizeIs(1));
  tell(keeping, checkpoint_written{1, 10, "last", ""});
  ASSERT_THAT(shards[0].heard<report_shard>(), SizeIs(1));
  tell(keeping, stop_training{"enough"});
  for (auto& s : shards) EXPECT_THAT(s.heard<take_checkpoint>(), SizeIs(1)) << "that of the end";
  for (std::uint32_t s = 0; s < 2; ++s) tell(keeping, shard_report{s, 10, {}, {}});
  EXPECT_THAT(outcomes_, SizeIs(1));
}

} // namespace
} // namespace mailgrad
