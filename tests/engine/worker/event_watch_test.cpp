#include <mailgrad/engine/worker/event_watch.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <stdexcept>

namespace mailgrad {
namespace {

using std::chrono::milliseconds;

using clock = std::chrono::steady_clock;

/// Passes some time after it was made, and counts how often it is asked.
class later_event final : public device_event::driver_event {
public:
  explicit later_event(std::chrono::milliseconds span, bool tells = false)
      : until_(clock::now() + span), tells_(tells) {}

  bool passed() const override {
    ++asked_;
    return clock::now() >= until_;
  }
  bool told() const override { return tells_ ? clock::now() >= until_ : passed(); }
  bool tells() const noexcept override { return tells_; }
  long asked() const { return asked_; }

private:
  clock::time_point until_;
  bool tells_;
  mutable std::atomic<long> asked_ = 0;
};

void wait_for(const std::shared_ptr<const device_event::driver_event>& event) {
  std::promise<std::exception_ptr> told;
  watch_of_process()->when_passed(device_event(event),
                                  [&](const std::exception_ptr& why) { told.set_value(why); });
  if (const std::exception_ptr why = told.get_future().get()) std::rethrow_exception(why);
}

/// However fast or slow the machine is: asks lie an eighth of the time apart, and 50 microseconds later.
TEST(EventWatch, AsksTheDriverLessAndLessOften) {
  for (const int span : {1, 40}) {
    const auto event = std::make_shared<later_event>(std::chrono::milliseconds{span});
    const auto begun = clock::now();
    wait_for(event);
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - begun);
    EXPECT_GT(event->asked(), 0);
    EXPECT_LT(event->asked(), 50 + took.count() / 50) << "in " << took.count() << " microseconds";
  }
}

TEST(EventWatch, AsksTheDriverSeldomForWhatTheDeviceTells) {
  const auto event = std::make_shared<later_event>(std::chrono::milliseconds{20}, true);
  const auto begun = clock::now();
  wait_for(event);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - begun);
  EXPECT_LE(event->asked(), took.count() / 250);
}

TEST(EventWatch, TellsWhyAnEventNeverPasses) {
  class failing final : public device_event::driver_event {
    bool passed() const override { throw std::runtime_error("the GPU is lost"); }
  };
  EXPECT_THROW(wait_for(std::make_shared<failing>()), std::runtime_error);
}

/// By the clock of this machine, so only the order and the least time are compared.
TEST(StepTimer, CallsEachNoticeAtItsMoment) {
  const std::shared_ptr<step_timer> timer = timer_of_process();
  const machine_time time;
  const instant begun = time.now();
  std::promise<instant> first;
  std::promise<instant> second;
  std::promise<instant> past;
  timer->at(begun + milliseconds{30}, [&] { second.set_value(time.now()); });
  timer->at(begun + milliseconds{10}, [&] {
    first.set_value(time.now());
    timer->at(begun, [&] { past.set_value(time.now()); });
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
