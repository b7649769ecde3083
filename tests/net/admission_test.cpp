#include <mailgrad/net/admission.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad::net {
namespace {

/// A semaphore: so many units, and who waits for one gets it in the order of asking.
class semaphore final : public admission {
public:
  explicit semaphore(std::size_t most) : left_(most) {}

  void ask(std::function<void(units)> take) {
    change([&] { waits_.push_back(std::move(take)); });
  }
  std::size_t left() const {
    const std::lock_guard lock(mutex_);
    return left_;
  }

private:
  void settle(calls& after) override {
    for (; left_ > 0 && !waits_.empty(); waits_.pop_front()) {
      --left_;
      after.emplace_back([take = std::move(waits_.front()), u = units_of([this] { ++left_; })] { take(u); });
    }
  }

  std::size_t left_;
  std::deque<std::function<void(units)>> waits_;
};

struct Admission : ::testing::Test {
  void ask(std::size_t times) {
    for (std::size_t i = 0; i < times; ++i)
      all->ask([this](admission::units u) { held.push_back(std::move(u)); });
  }

  /// Units that go admit the next ones, which are held as well.
  void TearDown() override {
    while (!held.empty()) {
      const admission::units last = std::move(held.back());
      held.pop_back();
    }
  }

  std::shared_ptr<semaphore> all = std::make_shared<semaphore>(2);
  std::vector<admission::units> held;
};

TEST_F(Admission, AdmitsNobodyBeyondTheBound) {
  ask(5);
  EXPECT_EQ(held.size(), 2U);
  EXPECT_EQ(all->left(), 0U);
}

TEST_F(Admission, AdmitsTheNextWhenUnitsGiveThemselvesBack) {
  ask(3);
  admission::units other = held.front();
  held.erase(held.begin());
  EXPECT_EQ(held.size(), 1U) << "another holder has them";
  other.reset();
  EXPECT_EQ(held.size(), 2U);
}

TEST_F(Admission, GivesBackOnceTheLastHolderLetsGo) {
  ask(1);
  admission::units other = held.front();
  held.clear();
  EXPECT_EQ(all->left(), 1U);
  other.reset();
  EXPECT_EQ(all->left(), 2U);
}

/// The call that admits the next one takes the lock again.
TEST_F(Admission, CallsWithoutTheLock) {
  std::size_t seen = 9;
  all->ask([&](const admission::units&) { seen = all->left(); });
  EXPECT_EQ(seen, 1U);
  EXPECT_EQ(all->left(), 2U) << "nobody has kept them";
}

TEST_F(Admission, IsKeptByItsUnits) {
  ask(1);
  const std::weak_ptr<semaphore> known = all;
  all.reset();
  EXPECT_FALSE(known.expired());
  held.clear();
  EXPECT_TRUE(known.expired());
}

TEST_F(Admission, CountsWhatManyThreadsTakeAndGiveBack) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) all->ask([](const admission::units&) {});
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(all->left(), 2U);
}

} // namespace
} // namespace mailgrad::net
