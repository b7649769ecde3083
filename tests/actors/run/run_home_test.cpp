#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/scheduler/wakeful_sharing.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

namespace mailgrad {
namespace {

using ::testing::ThrowsMessage;

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

/// A shard of which only this is known: what its constructor does, and that it tells its books.
class made_shard {
public:
  static constexpr const char* name = "mailgrad.made-shard";
  made_shard(caf::event_based_actor* self, const std::function<void()>& make) : self_(self) { make(); }
  caf::behavior make_behavior() {
    return {
        messaging::on(self_, [](const copy_books&) { return shard_books{}; }),
        messaging::on(self_, [this](const give_up&) { self_->quit(); }),
    };
  }

private:
  caf::event_based_actor* self_;
};

class PreparedShards : public ::testing::Test {
protected:
  ~PreparedShards() override {
    for (const caf::actor& a : shards_) messaging::send_anonymously(a, give_up{});
    shards_ = {};
    home_.wait();
  }
  void wait_for(const std::function<void()>& first, const std::function<void()>& second) {
    shards_ = {messaging::spawn<made_shard>(home_.system(), first),
               messaging::spawn<made_shard>(home_.system(), second)};
    wait_until_prepared(home_.system(), shards_);
  }

  run_home home_{{{device_kind::cpu, 0}, {device_kind::cpu, 0}, {device_kind::cpu, 0}}}; // three threads
  std::array<caf::actor, 2> shards_;
};

TEST_F(PreparedShards, AreWaitedForUntilAllAreMade) {
  std::atomic<int> made = 0;
  wait_for([&] { ++made; }, [&] { ++made; });
  EXPECT_EQ(made, 2);
}

/// Often, since whoever asks may still be at it, or wait.
TEST_F(PreparedShards, ThatLackMemoryRefuseTheRunInTheirWords) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    EXPECT_THAT(
        [this] {
          wait_for([] {}, [] { throw out_of_memory("cuda:0: out of memory: 4 B asked for, for the test"); });
        },
        ThrowsMessage<out_of_memory>("cuda:0: out of memory: 4 B asked for, for the test"));
    messaging::send_anonymously(shards_[0], give_up{});
  }
}

TEST_F(PreparedShards, ThatEndOtherwiseRefuseItToo) {
  EXPECT_THAT([this] { wait_for([] {}, [] { throw std::runtime_error("the test wants it"); }); },
              ThrowsMessage<std::runtime_error>("shard 1: the test wants it"));
}

} // namespace
} // namespace mailgrad
