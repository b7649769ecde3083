#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/run_state.hpp>

#include <gmock/gmock.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A coordinator that answers only if the test does.
class StatusCache : public testing::DeterministicTest {
protected:
  static run_outcome books_of_two_shards() {
    run_outcome o;
    o.how = run_outcome::ending::running;
    o.shards.resize(2);
    o.shards[1].shard = {1};
    return o;
  }

  testing::listener<gather_books, tell_books> coordinator_ = listen<gather_books, tell_books>();
  status_cache cache_;
};

TEST_F(StatusCache, KnowsNothingBeforeTheFirstAnswer) {
  EXPECT_FALSE(cache_.ask(coordinator_.actor(), 2ms));
  run();
  EXPECT_THAT(coordinator_.heard<gather_books>(), SizeIs(1));
  EXPECT_THAT(coordinator_.heard<tell_books>(), SizeIs(1)) << "as far as it knows them";
}

TEST_F(StatusCache, SaysHowOldTheBooksOfAnEarlierQuestionAre) {
  run_outcome books = books_of_two_shards();
  books.late = {{1, 60.0}};
  cache_.take(1, books);
  const auto answered = cache_.ask(coordinator_.actor(), 2ms);
  ASSERT_THAT(answered->late, SizeIs(1)) << "that was its question";
  EXPECT_EQ(answered->late[0].seconds_old, 60.0);
  const auto earlier = cache_.ask(coordinator_.actor(), 2ms);
  ASSERT_THAT(earlier->late, SizeIs(2)) << "nobody answers the second one";
  EXPECT_EQ(earlier->late[0].shard, 0U);
  EXPECT_TRUE(earlier->late[0].seconds_old);
  EXPECT_GT(earlier->late[1].seconds_old, 60.0);
}

TEST_F(StatusCache, AgesNoBooksOfARunThatHasEnded) {
  cache_.take(1, books_of_two_shards());
  cache_.close();
  cache_.ask(coordinator_.actor(), 2ms);
  EXPECT_THAT(cache_.ask(coordinator_.actor(), 2ms)->late, IsEmpty());
}

} // namespace
} // namespace mailgrad
