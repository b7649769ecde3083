#include <mailgrad/actors/remote/letter_rules.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(LetterRules, LetNoGradientComeBeforeTheAnswersToTheLastOnes) {
  const message_kind push = kind_of<push_gradient>(), weights = kind_of<shard_weights>();
  const actor_address first{duty::shard, 0}, second{duty::shard, 1};
  const actor_address worker{duty::worker, 3};
  letter_rules rules;
  for (int i = 0; i < 100; ++i) {
    rules.ask(push, worker, first);
    rules.ask(push, worker, second);
    rules.answer(weights, first, worker);
    rules.answer(weights, second, worker);
  }
  for (int i = 0; i < 2; ++i) rules.ask(push, worker, first);
  rules.answer(weights, second, worker);
  EXPECT_THAT([&] { rules.ask(push, worker, first); },
              ThrowsMessage<net::protocol_error>(HasSubstr(
                  "expected at most 2 push_gradient that shard 0 has not answered, found one more")));
}

TEST(LetterRules, LetOnePieceOfATimelineComeAtATime) {
  const message_kind told = kind_of(caf::make_message(trace_told{})).value();
  const message_kind taken = kind_of(caf::make_message(trace_taken{})).value();
  const actor_address coordinator{duty::coordinator}, worker{duty::worker, 3};
  letter_rules rules;
  for (int i = 0; i < 100; ++i) {
    rules.ask(told, worker, coordinator);
    rules.answer(taken, coordinator, worker);
  }
  rules.ask(told, worker, coordinator);
  EXPECT_THAT([&] { rules.ask(told, worker, coordinator); },
              ThrowsMessage<net::protocol_error>(HasSubstr(
                  "expected at most 1 trace_told that the coordinator has not answered, found one more")));
}

/// A watcher and the desk that answers it are the hosts of their processes.
TEST(LetterRules, LetAWatcherAskForEverAndNotWithoutEnd) {
  const message_kind asked = kind_of<run_asked>(), answered = kind_of<run_answered>();
  const actor_address nobody{duty::nobody}, host{duty::host};
  letter_rules rules;
  for (int i = 0; i < 100; ++i) {
    rules.ask(asked, nobody, host);
    rules.answer(answered, nobody, host);
  }
  for (int i = 0; i < 16; ++i) rules.ask(asked, nobody, host);
  rules.answer(answered, nobody, host);
  rules.ask(asked, nobody, host);
  EXPECT_THAT([&] { rules.ask(asked, nobody, host); },
              ThrowsMessage<net::protocol_error>(HasSubstr("expected at most 16 run_asked that")));
}

TEST(LetterRules, LetEachShardOfAProcessTellAPieceOfItsTimeline) {
  const message_kind told = kind_of(caf::make_message(shard_trace_told{})).value();
  const message_kind taken = kind_of(caf::make_message(trace_taken{})).value();
  const actor_address coordinator{duty::coordinator}, first{duty::shard, 0}, second{duty::shard, 1};
  letter_rules rules;
  rules.ask(told, first, coordinator);
  rules.ask(told, second, coordinator);
  rules.answer(taken, coordinator, first);
  rules.ask(told, first, coordinator);
  EXPECT_THAT([&] { rules.ask(told, second, coordinator); },
              ThrowsMessage<net::protocol_error>(HasSubstr("expected at most 1 shard_trace_told that")));
}

TEST(LetterRules, NameAKindThatThereIsNotByItsNumber) {
  EXPECT_THAT(
      [] {
        letter_rules().require_sender(999, {duty::worker, 1});
      },
      ThrowsMessage<net::protocol_error>(
          HasSubstr("expected no message of kind 999 from worker 1, found one")));
}

TEST(LetterRules, CountOnlyWhatIsAnswered) {
  letter_rules rules;
  const message_kind progress = kind_of(caf::make_message(worker_progress{})).value();
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(rules.ask(progress, {duty::worker, 3}, {duty::coordinator}));
}

} // namespace
} // namespace mailgrad::remote
