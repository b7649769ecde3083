#include <mailgrad/tests/engine/worker/card_replica_fixture.hpp>

#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/simulated_card/card_control.hpp>

#include <gmock/gmock.h>

// What only the simulated card can be asked for.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CardReplicaFaults : public testing::card_replica_test {
protected:
  void set_up(const simulated_card::faults& fail, bool may_wait = true) {
    simulated_card::settings s = simulated_card::default_settings();
    s.fail = fail;
    s.may_wait = may_wait;
    simulated_card::set_up(s);
  }
  void TearDown() override {
    on_card_.reset();
    simulated_card::set_up(simulated_card::default_settings());
  }
};

TEST_F(CardReplicaFaults, NeverWaitInAStep) {
  build();
  set_up({}, false); // a call that waits throws
  for (int i = 0; i < 3; ++i) {
    const auto g = on_card_->make_gradient();
    on_card_->begin_step(samples(0, 8), g);
    await_end();
    on_card_->end_step();
  }
  set_up({});
}

TEST_F(CardReplicaFaults, ReadNothingOfAStepBeforeItHasRun) {
  simulated_card::settings late = simulated_card::default_settings();
  late.when = simulated_card::timing::late;
  simulated_card::set_up(late);
  build();
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto g = on_card_->make_gradient();
    on_card_->begin_step(samples(8 * i, 8), g);
    EXPECT_EQ(watch_->ask(), 0U) << "it is late";
    await_end();
    expect_close(result_of(on_card_->end_step(), *g), host_step(samples(8 * i, 8)));
  }
}

TEST_F(CardReplicaFaults, EndAStepOnALostCard) {
  build();
  card_step(samples(0, 8));
  simulated_card::settings s = simulated_card::default_settings();
  s.when = simulated_card::timing::late;
  s.fail.launch_error_at = 3;
  simulated_card::set_up(s);
  on_card_->begin_step(samples(0, 8), on_card_->make_gradient());
  await_end();
  EXPECT_THROW(on_card_->end_step(), device_error);
  EXPECT_EQ(on_card_->give_up(), step_state::finished);
}

TEST_F(CardReplicaFaults, AreThrownAtEveryCall) {
  build();
  card_step(samples(0, 8));
  std::size_t refused = 0;
  for (std::uint64_t n = 1; n < 60; ++n) {
    set_up({.lost_card_at = n});
    try {
      card_step(samples(0, 8));
    } catch (const device_error&) {
      ++refused;
    }
    on_card_.reset();
    set_up({});
    build();
  }
  EXPECT_GT(refused, 10U);
}

TEST_F(CardReplicaFaults, SayWhatMemoryWasAskedForWhenACardIsFull) {
  std::size_t full = 0;
  for (std::uint64_t n = 1; n < 9; ++n) {
    set_up({.out_of_memory_at = n});
    try {
      build();
      card_step(samples(0, 8));
    } catch (const device_error& e) {
      ++full;
      EXPECT_THAT(e.what(), HasSubstr("out of memory")) << n;
    }
    on_card_.reset();
  }
  EXPECT_GE(full, 5U) << "words, scratch memory, weights, gradient and loss";
}

TEST_F(CardReplicaFaults, LeaveNothingUnderWayOfAStepThatCannotBeQueued) {
  build();
  card_step(samples(0, 8));
  set_up({.launch_error_at = 1});
  EXPECT_THROW(on_card_->begin_step(samples(0, 8), on_card_->make_gradient()), device_error);
  EXPECT_EQ(on_card_->give_up(), step_state::finished) << "nobody will tell of its end";
  EXPECT_EQ(watch_->watched(), 0U);
}

TEST_F(CardReplicaFaults, LetACardThatDoesNotAnswerBeRefused) {
  set_up({});
  require_here({device_kind::cuda, 0});
  set_up({.silent_card = 0});
  EXPECT_THAT(
      [] {
        require_here({device_kind::cuda, 0});
      },
      ThrowsMessage<device_error>(HasSubstr("device cuda:0 does not answer")));
}

} // namespace
} // namespace mailgrad
