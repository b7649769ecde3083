#include <mailgrad/engine/worker/step_timer.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace mailgrad {
namespace {

using std::chrono::milliseconds;

/// By the clock of this machine, so only the order and the least time are compared.
TEST(StepTimer, CallsEachNoticeAtItsMoment) {
  const std::shared_ptr<step_timer> timer = timer_of_process();
  const machine_time clock;
  const instant begun = clock.now();
  std::promise<instant> first;
  std::promise<instant> second;
  std::promise<instant> past;
  timer->at(begun + milliseconds{30}, [&] { second.set_value(clock.now()); });
  timer->at(begun + milliseconds{10}, [&] {
    first.set_value(clock.now());
    timer->at(begun, [&] { past.set_value(clock.now()); });
  });
  const instant first_at = first.get_future().get();
  const instant past_at = past.get_future().get();
  const instant second_at = second.get_future().get();
  EXPECT_GE(first_at, begun + milliseconds{10});
  EXPECT_GE(second_at, begun + milliseconds{30});
  EXPECT_GE(past_at, first_at);
  EXPECT_LE(past_at, second_at);
}

} // namespace
} // namespace mailgrad
