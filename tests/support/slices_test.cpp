#include <mailgrad/tests/support/drawn_orders.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad::testing {
namespace {

using ::testing::ElementsAre;

TEST(Slices, AreTheWholeInTenDaysAndNothingElse) {
  for (const std::uint64_t count : {0U, 1U, 9U, 10U, 11U, 19U, 20U, 25U, 99U, 100U, 101U, 149U, 500U, 503U})
    for (const std::uint64_t day : {0U, 7U, 20'419U}) {
      std::set<std::uint64_t> tried;
      for (std::uint64_t number = day; number < day + 10; ++number) {
        const slice part = numbered_slice(number, count, 10);
        EXPECT_EQ(part.size(), count < 10 ? count : std::max<std::uint64_t>(10, (count + 9) / 10));
        tried.insert(part.begin(), part.end());
      }
      EXPECT_EQ(tried.size(), count) << "from day " << day;
      EXPECT_TRUE(tried.empty() || *tried.rbegin() == count - 1) << count << " from day " << day;
    }
}

TEST(Slices, BeginAnewAfterTheLast) {
  EXPECT_EQ(numbered_slice(0, 30, 10).front(), 0U);
  EXPECT_EQ(numbered_slice(2, 30, 10).front(), 20U);
  EXPECT_EQ(numbered_slice(3, 30, 10).front(), 0U);
  EXPECT_EQ(numbered_slice(2, 25, 10).front(), 15U) << "the last has no fewer than the others";
  EXPECT_EQ(numbered_slice(19, 500, 10).front(), 450U);
}

/// The environment of a test, which it gets back as it was.
class DrawnOrders : public ::testing::Test {
protected:
  void SetUp() override {
    for (const char* name : {"MAILGRAD_SLICE", "MAILGRAD_ORDERS", "MAILGRAD_FIRST_ORDER"}) {
      const char* const text = std::getenv(name); // NOLINT(concurrency-mt-unsafe)
      before_[name] = text ? std::optional<std::string>(text) : std::nullopt;
      unsetenv(name); // NOLINT(concurrency-mt-unsafe)
    }
  }
  void TearDown() override {
    for (const auto& [name, text] : before_)
      text ? set(name, text->c_str()) : (void)unsetenv(name); // NOLINT(concurrency-mt-unsafe)
  }
  static void set(const char* name, const char* value) {
    setenv(name, value, 1); // NOLINT(concurrency-mt-unsafe)
  }
  static std::vector<std::uint64_t> seeds(std::uint64_t count) {
    const drawn_orders tried(count);
    std::vector<std::uint64_t> all;
    for (const drawn_order& order : tried) all.push_back(order.seed());
    EXPECT_EQ(tried.count(), all.size());
    return all;
  }

private:
  std::map<const char*, std::optional<std::string>> before_;
};

TEST_F(DrawnOrders, AreAllUnlessASliceIsAskedFor) {
  EXPECT_EQ(seeds(10).size(), 10U);
  set("MAILGRAD_SLICE", "2");
  EXPECT_THAT(seeds(25), ElementsAre(15, 16, 17, 18, 19, 20, 21, 22, 23, 24));
}

TEST_F(DrawnOrders, AreThoseThatSomebodyNamesWhateverTheSlice) {
  set("MAILGRAD_SLICE", "1");
  set("MAILGRAD_ORDERS", "3");
  EXPECT_THAT(seeds(100), ElementsAre(0, 1, 2));
  set("MAILGRAD_FIRST_ORDER", "70");
  EXPECT_THAT(seeds(100), ElementsAre(70, 71, 72));
}

} // namespace
} // namespace mailgrad::testing
