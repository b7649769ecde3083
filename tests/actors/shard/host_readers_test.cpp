#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/played_actor.hpp>
#include <mailgrad/tests/tensor/late_queue.hpp>

#include <gtest/gtest.h>

#include <span>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using testing::late_queue;

/// A device queue whose events pass late, and which may lack memory for one.
class lacking_queue final : public device_queue {
public:
  const stream& where() const noexcept override { return at_.where(); }
  memory allocate(std::size_t bytes) override { return at_.allocate(bytes); }
  void write(std::span<const float> from, memory& to) override { at_.write(from, to); }
  memory lend_on_host(std::size_t bytes) override { return at_.lend_on_host(bytes); }
  void copy_to_host(const memory& from, std::size_t first, memory& to) override {
    at_.copy_to_host(from, first, to);
  }
  void wait_for(const device_event& m) override { at_.wait_for(m); }
  device_event record() override {
    if (lacks_memory) throw out_of_memory("cuda:0: out of memory: the test wants it");
    return at_.record();
  }
  void finish() override { at_.finish(); }
  void run() { at_.run(); }

  bool lacks_memory = false;

private:
  late_queue at_;
};

/// Nobody tells: the test serves who waits.
struct silent_watch final : event_watch {
  void when_passed(device_event, notice) override {}
};

class HostReaders : public testing::PlayedActorTest {
protected:
  /// Calls `what` with readers of a shard on this device queue, in an actor.
  void with_readers(const std::function<void(host_readers&)>& what) {
    act([&] {
      host_readers readers(self_, weights_, std::make_shared<silent_watch>(), time_);
      what(readers);
      done_ = true;
    });
    EXPECT_TRUE(done_) << "the actor has ended before";
  }

  const std::shared_ptr<lacking_queue> queue_ = std::make_shared<lacking_queue>();
  const std::shared_ptr<shard> weights_ =
      std::make_shared<shard>(testing::layout_of({{"w", {8}}}, 1), 0, 3, parse_optimizer("sgd"),
                              std::static_pointer_cast<device_queue>(queue_));
  bool done_ = false;
};

TEST_F(HostReaders, ServeThoseWhoAskInTheirOrder) {
  with_readers([&](host_readers& readers) {
    std::vector<int> served;
    readers.when_copied([&] { served.push_back(1); });
    readers.when_copied([&] { served.push_back(2); });
    readers.serve();
    EXPECT_TRUE(served.empty()) << "no copy has come";
    queue_->run();
    readers.serve();
    EXPECT_EQ(served, (std::vector{1, 2}));
    EXPECT_FALSE(readers.blocked_on());
  });
}

/// The one that lacks memory for an event fails at once. The first one has waited since it asked.
TEST_F(HostReaders, NameTheLongestWaitThoughALaterOneHasFailed) {
  with_readers([&](host_readers& readers) {
    int served = 0;
    readers.when_copied([&] { ++served; });
    time_->advance(3s);
    queue_->lacks_memory = true;
    EXPECT_THROW(readers.when_copied([&] { served = 100; }), out_of_memory);
    queue_->lacks_memory = false;
    time_->advance(4s);
    const auto wait = readers.blocked_on();
    ASSERT_TRUE(wait);
    EXPECT_EQ(wait->what, "shard 0 waits for its weights to come from the GPU, for 1 of those who asked");
    EXPECT_EQ(wait->span, std::chrono::nanoseconds(7s).count());
    queue_->run();
    readers.serve();
    EXPECT_EQ(served, 1);
    EXPECT_FALSE(readers.blocked_on());
  });
}

} // namespace
} // namespace mailgrad
