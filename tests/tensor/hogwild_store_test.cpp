#include <mailgrad/tensor/hogwild_store.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <array>
#include <span>
#include <thread>

namespace mailgrad {
namespace {

TEST(HogwildStore, BeginsWithTheWeightsItIsGiven) {
  const std::array initial{1.0F, -2.0F, 3.0F};
  const hogwild_store store(initial);
  ASSERT_EQ(store.size(), 3U);
  for (std::size_t i = 0; i < initial.size(); ++i) {
    EXPECT_EQ(store.load(i), initial[i]);
    EXPECT_EQ(store.racing_view()[i], initial[i]);
  }
  EXPECT_EQ(store.version(), 0U);
}

TEST(HogwildStore, LiesOnACacheLine) {
  const hogwild_store store(std::vector<float>(5));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(store.racing_view()) % block::alignment, 0U);
}

TEST(HogwildStore, AddsToOneCoordinate) {
  hogwild_store store(std::vector<float>(3, 1.0F));
  store.add(1, 0.5F);
  EXPECT_EQ(store.load(0), 1.0F);
  EXPECT_EQ(store.load(1), 1.5F);
  EXPECT_EQ(store.load(2), 1.0F);
}

TEST(HogwildStore, MovesACoordinateToItsNewValueUnlessOthersMovedIt) {
  hogwild_store store(std::array{0.3F, 2.5F, 7.0F});
  store.move(0, 0.3F, 1e-8F);
  EXPECT_EQ(store.load(0), 1e-8F) << "exactly, where a difference would round";
  store.move(1, 2.0F, 3.0F);
  EXPECT_EQ(store.load(1), 3.5F) << "somebody else has added a half";
  store.move(2, 6.0F, 6.0F);
  EXPECT_EQ(store.load(2), 7.0F);
}

TEST(HogwildStore, CountsTheUpdatesOfTheShardThatMadeTheMost) {
  hogwild_store store(std::vector<float>(1));
  store.advance();
  EXPECT_EQ(store.updates(), 1U);
  store.count_elsewhere(40);
  store.count_elsewhere(39);
  EXPECT_EQ(store.updates(), 41U);
  EXPECT_EQ(store.version(), 1U) << "staleness is counted in updates of the block";
}

TEST(HogwildStore, CopiesARangeInAndOut) {
  hogwild_store store(std::vector<float>(5));
  store.store(1, std::array{7.0F, 8.0F, 9.0F});
  std::array<float, 4> out{};
  store.load(1, out);
  EXPECT_EQ(out, (std::array{7.0F, 8.0F, 9.0F, 0.0F}));
  EXPECT_EQ(store.load(0), 0.0F);
}

TEST(HogwildStore, ReturnsTheVersionBeforeAnUpdate) {
  hogwild_store store(std::vector<float>(1));
  EXPECT_EQ(store.advance(), 0U);
  EXPECT_EQ(store.advance(), 1U);
  EXPECT_EQ(store.version(), 2U);
}

TEST(HogwildStore, LosesNoVersionAndTearsNoCoordinateAmongThreads) {
  constexpr std::uint64_t updates = 20'000;
  hogwild_store store(std::vector<float>(1));
  const auto work = [&store] {
    for (std::uint64_t i = 0; i < updates; ++i) {
      store.add(0, 1.0F);
      store.advance();
    }
  };
  { const std::jthread first(work), second(work); }
  EXPECT_EQ(store.version(), 2 * updates);
  const float sum = store.load(0); // additions may be lost, but what is there is a whole number of them
  EXPECT_EQ(sum, static_cast<float>(static_cast<std::uint64_t>(sum)));
  EXPECT_GE(sum, 1.0F);
  EXPECT_LE(sum, static_cast<float>(2 * updates));
}

TEST(Refusals, OfWeightsThatAHogwildStoreDoesNotHold) {
  constexpr std::size_t wraps = ~std::size_t{0};
  std::vector<float> some(8);
  const auto none = std::span(some).first(0);
  hogwild_store store(std::vector<float>(20)), nothing({});
  const std::string words = "8 weights from 13 on, where it holds 20";
  testing::expect_refused(words, [&] { store.load(13, some); });
  testing::expect_refused("load from behind the end", "holds 20", [&] { store.load(21, none); });
  testing::expect_refused("load from where counting wraps", "holds 20", [&] { store.load(wraps, some); });
  testing::expect_refused(words, [&] { store.store(13, some); });
  testing::expect_refused("holds 20", [&] { store.store(wraps - 3, some); });
  testing::expect_refused("holds 0", [&] { nothing.load(0, some); });
  store.store(12, some);
  store.load(20, none);
}

} // namespace
} // namespace mailgrad
