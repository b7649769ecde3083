#include <mailgrad/actors/protocol/messaging.hpp>

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

namespace mailgrad {
namespace {

using ::testing::ThrowsMessage;

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
