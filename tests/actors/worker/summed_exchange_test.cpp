#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <mailgrad/actors/worker/exchange.hpp>

#include <gmock/gmock.h>

#include <memory>
#include <span>
#include <utility>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

/// The sums as worker 1 has them. The test adds to what it gave, and says who gave something.
class noting_sums final : public net::all_reduce {
public:
  struct notes {
    std::span<float> values{};
    std::shared_ptr<const void> keeps{};
    bool left = false;
  };

  explicit noting_sums(notes& to) : to_(to) {}
  ~noting_sums() override { to_.left = true; }
  noting_sums(const noting_sums&) = delete;
  noting_sums& operator=(const noting_sums&) = delete;
  void add(std::span<float> values, std::shared_ptr<const void> keeps, on_sum) override {
    to_ = {values, std::move(keeps)};
  }

private:
  notes& to_;
};

class SummedExchange : public testing::PlayedWorker {
protected:
  void deliver(float a, float b) {
    act([&] { over_.deliver({testing::dense_gradient(std::vector<float>{a, b}), 1, time_->now(), 5ns}); });
  }
  /// As the device actor does when the sums have told it.
  void take_sum(std::uint64_t step, std::uint32_t carrier, std::uint32_t gradients) {
    given_.keeps.reset();
    act([&] { over_.take_sum({{step}, {{carrier}, gradients}}); });
  }

  noting_sums::notes given_;
  shard_lines lines_{context(), shards()};
  summed_exchange over_{context(), lines_, std::make_shared<noting_sums>(given_)};
};

TEST_F(SummedExchange, PushesWithoutValuesWhatAWorkerOfLowerRankCarries) {
  deliver(1, 2);
  EXPECT_TRUE(over_.is_summing());
  EXPECT_THAT(pushed(0), IsEmpty());
  take_sum(1, 0, 3);
  EXPECT_FALSE(over_.is_summing());
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(pushed(s), SizeIs(1));
    EXPECT_EQ(pushed(s)[0].payload.values, nullptr);
    EXPECT_TRUE(pushed(s)[0].header.is_carried());
    EXPECT_EQ(pushed(s)[0].header.sum->carrier, rank{0});
    EXPECT_EQ(pushed(s)[0].header.sum->gradients, 3U);
    EXPECT_EQ(pushed(s)[0].header.id.step.value, 1U);
    EXPECT_EQ(pushed(s)[0].header.times.compute, 5ns);
  }
}

TEST_F(SummedExchange, PushesTheSumIfItIsTheFirstThatHasOne) {
  deliver(1, 2);
  EXPECT_THAT(given_.values, ElementsAre(1, 2));
  given_.values[0] += 10;
  given_.values[1] += 20;
  take_sum(1, 1, 2);
  ASSERT_THAT(pushed(1), SizeIs(1));
  const push_gradient& x = pushed(1)[0];
  EXPECT_FALSE(x.header.is_carried());
  EXPECT_THAT(x.payload.values->dense.on_host<float>(), ElementsAre(11, 22));
}

TEST_F(SummedExchange, CountsItsWaitForTheOthersAsOneAtABarrier) {
  deliver(1, 2);
  time_->advance(7ns);
  take_sum(1, 0, 3);
  EXPECT_EQ(report_.barrier_wait, 7);
}

TEST_F(SummedExchange, IgnoresASumThatIsNotOfItsStep) {
  deliver(1, 2);
  take_sum(2, 0, 3);
  EXPECT_TRUE(over_.is_summing());
  take_sum(1, 0, 3);
  take_sum(1, 0, 3);
  EXPECT_THAT(pushed(0), SizeIs(1));
}

TEST_F(SummedExchange, LeavesTheSumsSoThatOthersDoNotWaitForIt) {
  EXPECT_FALSE(given_.left);
  over_.leave();
  EXPECT_TRUE(given_.left);
}

TEST_F(SummedExchange, RefusesAGradientThatLacksWeights) {
  const auto partial = testing::dense_gradient(std::vector<float>{1, 2});
  partial->covered = std::make_shared<const coverage>(coverage{{0, 1}});
  EXPECT_THAT(
      [&] {
        over_.deliver({partial, 1, {}, {}});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("needs one dense gradient of every weight")));
}

} // namespace
} // namespace mailgrad
