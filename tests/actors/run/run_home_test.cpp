#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

/// Ends itself when both have met, each on a thread of its own.
class meeting_actor {
public:
  static constexpr const char* name = "mailgrad.meeting-actor";
  meeting_actor(caf::event_based_actor* self, std::shared_ptr<std::promise<std::thread::id>> mine,
                std::shared_future<std::thread::id> other)
      : self_(self), mine_(std::move(mine)), other_(std::move(other)) {}
  caf::behavior make_behavior() {
    return {[this](const std::string&) {
      mine_->set_value(std::this_thread::get_id());
      other_.wait();
      self_->quit();
    }};
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<std::promise<std::thread::id>> mine_;
  std::shared_future<std::thread::id> other_;
};

/// With one thread the first actor would wait for the second for ever.
TEST(RunHome, HasAThreadForEachCore) {
  run_home home({{device_kind::cpu, 0}, {device_kind::cpu, 1}, {device_kind::cpu, 0}});
  const auto a = std::make_shared<std::promise<std::thread::id>>(),
             b = std::make_shared<std::promise<std::thread::id>>();
  const std::shared_future<std::thread::id> of_a = a->get_future(), of_b = b->get_future();
  {
    const caf::actor first = messaging::spawn<meeting_actor>(home.system(), a, of_b);
    const caf::actor second = messaging::spawn<meeting_actor>(home.system(), b, of_a);
    for (const caf::actor& x : {first, second}) messaging::send_anonymously(x, std::string("meet"));
  }
  home.wait();
  EXPECT_NE(of_a.get(), of_b.get());
  EXPECT_NE(of_a.get(), std::this_thread::get_id());
}

TEST(RunHome, WaitsForNobodyIfNoActorLives) {
  run_home home({});
  home.wait();
}

TEST(RunHome, EndsAlthoughTheThreadThatMadeItLives) {
  std::promise<std::unique_ptr<run_home>> made;
  std::promise<void> ended;
  std::thread maker([&] {
    made.set_value(std::make_unique<run_home>(std::vector<device>{}));
    ended.get_future().wait();
  });
  made.get_future().get().reset();
  ended.set_value();
  maker.join();
}

TEST(RunHome, EndsAlthoughAThreadLivesThatSpawnedAnActorInIt) {
  auto home = std::make_unique<run_home>(std::vector<device>{});
  std::promise<void> spawned, ended;
  std::thread spawner([&] {
    messaging::kill(messaging::spawn<meeting_actor>(home->system(),
                                                    std::make_shared<std::promise<std::thread::id>>(),
                                                    std::shared_future<std::thread::id>()));
    spawned.set_value();
    ended.get_future().wait();
  });
  spawned.get_future().wait();
  home.reset();
  ended.set_value();
  spawner.join();
}

#if CAF_MAJOR_VERSION < 1
TEST(RunHome, KnowsTheMessagesOfMailgrad) {
  run_home home({});
  EXPECT_TRUE(home.system().types().make_value("mailgrad::give_up"));
  EXPECT_TRUE(home.system().types().make_value("mailgrad::push_gradient"));
  EXPECT_FALSE(home.system().types().make_value("mailgrad::no_message"));
}
#endif

#ifdef MAILGRAD_WAKEFUL_SHARING
TEST(RunHome, LetsItsThreadsStayAwake) {
  run_home home({});
  EXPECT_TRUE(dynamic_cast<caf::scheduler::coordinator<wakeful_sharing>*>(&home.system().scheduler()));
}
#endif

} // namespace
} // namespace mailgrad
