#include <mailgrad/actors/remote/channel.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(PeerChecks, LetNoGradientComeBeforeTheAnswersToTheLastOnes) {
  const message_kind push = kind_of<push_gradient>(), weights = kind_of<shard_weights>();
  const actor_address first{duty::shard, 0}, second{duty::shard, 1};
  const actor_address worker{duty::worker, 3};
  peer_checks rules;
  for (int i = 0; i < 100; ++i) {
    rules.take(push, worker, first);
    rules.take(push, worker, second);
    rules.answer(weights, first, worker);
    rules.answer(weights, second, worker);
  }
  for (int i = 0; i < 2; ++i) rules.take(push, worker, first);
  rules.answer(weights, second, worker);
  EXPECT_THAT([&] { rules.take(push, worker, first); },
              ThrowsMessage<net::protocol_error>(HasSubstr(
                  "expected at most 2 push_gradient that shard 0 has not answered, found one more")));
}

TEST(PeerChecks, LetOnePieceOfATimelineComeAtATime) {
  const message_kind told = kind_of(caf::make_message(trace_reported{})).value();
  const message_kind taken = kind_of(caf::make_message(trace_taken{})).value();
  const actor_address coordinator{duty::coordinator}, worker{duty::worker, 3};
  peer_checks rules;
  for (int i = 0; i < 100; ++i) {
    rules.take(told, worker, coordinator);
    rules.answer(taken, coordinator, worker);
  }
  rules.take(told, worker, coordinator);
  EXPECT_THAT(
      [&] { rules.take(told, worker, coordinator); },
      ThrowsMessage<net::protocol_error>(HasSubstr(
          "expected at most 1 trace_reported that the coordinator has not answered, found one more")));
}

/// A watcher and the handler that answers it are the hosts of their processes.
TEST(PeerChecks, LetAWatcherAskForEverAndNotWithoutEnd) {
  const message_kind asked = kind_of<run_asked>(), answered = kind_of<run_answered>();
  const actor_address nobody{duty::nobody}, host{duty::host};
  peer_checks rules;
  for (int i = 0; i < 100; ++i) {
    rules.take(asked, nobody, host);
    rules.answer(answered, nobody, host);
  }
  for (int i = 0; i < 16; ++i) rules.take(asked, nobody, host);
  rules.answer(answered, nobody, host);
  rules.take(asked, nobody, host);
  EXPECT_THAT([&] { rules.take(asked, nobody, host); },
              ThrowsMessage<net::protocol_error>(HasSubstr("expected at most 16 run_asked that")));
}

TEST(PeerChecks, LetEachShardOfAProcessTellAPieceOfItsTimeline) {
  const message_kind told = kind_of(caf::make_message(shard_trace_reported{})).value();
  const message_kind taken = kind_of(caf::make_message(trace_taken{})).value();
  const actor_address coordinator{duty::coordinator}, first{duty::shard, 0}, second{duty::shard, 1};
  peer_checks rules;
  rules.take(told, first, coordinator);
  rules.take(told, second, coordinator);
  rules.answer(taken, coordinator, first);
  rules.take(told, first, coordinator);
  EXPECT_THAT([&] { rules.take(told, second, coordinator); },
              ThrowsMessage<net::protocol_error>(HasSubstr("expected at most 1 shard_trace_reported that")));
}

TEST(PeerChecks, NameAKindThatThereIsNotByItsNumber) {
  EXPECT_THAT(
      [] {
        peer_checks().require_ends(999, {duty::worker, 1}, {duty::coordinator});
      },
      ThrowsMessage<net::protocol_error>(
          HasSubstr("expected no message of kind 999 from worker 1, found one")));
}

TEST(PeerChecks, SendNoActorWhatItDoesNotTake) {
  const message_kind joins = kind_of(caf::make_message(join_shard{})).value();
  peer_checks rules;
  rules.add({duty::worker, 1});
  EXPECT_NO_THROW(rules.require_ends(joins, {duty::worker, 1}, {duty::shard, 0}));
  EXPECT_THAT(
      [&] {
        rules.require_ends(joins, {duty::worker, 1}, {duty::tracker});
      },
      ThrowsMessage<net::protocol_error>(
          HasSubstr("expected no join_shard for the staleness tracker, found one")));
}

TEST(PeerChecks, LetAWorkerJoinEachShardOnce) {
  const message_kind joins = kind_of(caf::make_message(join_shard{})).value();
  peer_checks rules;
  for (std::uint32_t s = 0; s < 3; ++s) rules.take(joins, {duty::worker, 1}, {duty::shard, s});
  EXPECT_THAT(
      [&] {
        rules.take(joins, {duty::worker, 1}, {duty::shard, 2});
      },
      ThrowsMessage<net::protocol_error>(
          HasSubstr("expected at most 1 join_shard from worker 1, found one more")));
}

TEST(PeerChecks, CountOnlyWhatIsBounded) {
  peer_checks rules;
  const message_kind progress = kind_of(caf::make_message(worker_progress{})).value();
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(rules.take(progress, {duty::worker, 3}, {duty::coordinator}));
}

} // namespace
} // namespace mailgrad::remote
