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
  letter_rules rules;
  for (int i = 0; i < 100; ++i) {
    rules.ask(push, first);
    rules.ask(push, second);
    rules.answer(weights, first);
    rules.answer(weights, second);
  }
  for (int i = 0; i < 2; ++i) rules.ask(push, first);
  rules.answer(weights, second);
  EXPECT_THAT([&] { rules.ask(push, first); },
              ThrowsMessage<net::protocol_error>(HasSubstr(
                  "expected at most 2 push_gradient that shard 0 has not answered, found one more")));
}

TEST(LetterRules, LetOnePieceOfATimelineComeAtATime) {
  const message_kind told = kind_of(caf::make_message(trace_told{})).value();
  const message_kind taken = kind_of(caf::make_message(trace_taken{})).value();
  const actor_address coordinator{duty::coordinator};
  letter_rules rules;
  for (int i = 0; i < 100; ++i) {
    rules.ask(told, coordinator);
    rules.answer(taken, coordinator);
  }
  rules.ask(told, coordinator);
  EXPECT_THAT([&] { rules.ask(told, coordinator); },
              ThrowsMessage<net::protocol_error>(HasSubstr(
                  "expected at most 1 trace_told that the coordinator has not answered, found one more")));
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
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(rules.ask(progress, {duty::coordinator}));
}

} // namespace
} // namespace mailgrad::remote
