#include <mailgrad/engine/model/object_pool.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

class ObjectPool : public ::testing::Test {
protected:
  int made_ = 0;
  object_pool<int> pool_{[this] { return std::make_shared<int>(made_++); }};
};

TEST_F(ObjectPool, LendsTheSameObjectAgainWhenItsLastHolderLetGo) {
  EXPECT_EQ(made_, 0) << "nothing is made before it is asked";
  EXPECT_EQ(pool_.size(), 0U);
  auto first = pool_.take();
  auto other_holder = first;
  const int* const address = first.get();
  first.reset();
  EXPECT_NE(pool_.take().get(), address) << "somebody still holds it";
  other_holder.reset();
  EXPECT_EQ(pool_.take().get(), address);
  EXPECT_EQ(made_, 2);
  for (int i = 0; i < 100; ++i) {
    const auto a = pool_.take(), b = pool_.take();
    EXPECT_NE(a, b);
  }
  EXPECT_EQ(made_, 2) << "in a steady state";
}

TEST_F(ObjectPool, OutlivesItsPool) {
  std::shared_ptr<int> held;
  {
    object_pool<int> pool([] { return std::make_shared<int>(7); });
    held = pool.take();
  }
  EXPECT_EQ(*held, 7);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(ObjectPool, MakesAnotherInASmallPoolOnlyWhileAllAreOut) {
  std::vector<std::shared_ptr<int>> out;
  for (int i = 0; i < 32; ++i) out.push_back(pool_.take());
  for (std::size_t i = 0; i < 32; ++i) {
    const int* const address = out[i].get();
    out[i].reset();
    out[i] = pool_.take();
    EXPECT_EQ(out[i].get(), address);
  }
  EXPECT_EQ(made_, 32);
}

/// Objects come back in the order in which they were lent, or in any other.
TEST_F(ObjectPool, StaysSmallWhenManyAreOut) {
  constexpr std::size_t many = 2000;
  for (const std::size_t stride : {std::size_t{1}, std::size_t{767}}) {
    std::vector<std::shared_ptr<int>> out(many);
    for (std::size_t i = 0; i < 20 * many; ++i) {
      auto& slot = out[i * stride % many];
      slot.reset();
      slot = pool_.take();
    }
    EXPECT_LT(pool_.size(), 2 * many);
  }
}

} // namespace
} // namespace mailgrad
