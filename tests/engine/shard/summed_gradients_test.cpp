#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/shard/waiting_gradients.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

gradient_header header(std::uint32_t worker, std::uint64_t step, std::optional<sum_tag> sum) {
  gradient_header x = testing::push_of(worker, step, 0, nullptr).header;
  x.sum = sum;
  return x;
}

std::function<void()> checking(std::vector<gradient_header> all) {
  return [all] { require_one_sum(all); };
}

constexpr sum_tag two_of_0{{0}, 2};
constexpr sum_tag three_of_0{{0}, 3};

TEST(SummedGradients, PassIfTheyAreOneSumOrNone) {
  require_one_sum({});
  require_one_sum(std::vector{header(0, 4, {}), header(1, 9, {})});
  require_one_sum(std::vector{header(0, 4, two_of_0), header(2, 4, two_of_0)});
  require_one_sum(std::vector{header(5, 1, sum_tag{{5}, 1})});
}

TEST(SummedGradients, AreRefusedByWorkerAndStepIfTheyAreNotOneSum) {
  const auto expect_words = [](std::vector<gradient_header> all, const char* words) {
    EXPECT_THAT(checking(std::move(all)), ThrowsMessage<std::runtime_error>(HasSubstr(words)));
  };
  expect_words(
      {header(0, 4, two_of_0), header(1, 5, two_of_0)},
      "worker 1: expected its gradient in the sum of 2 gradients of step 4 that worker 0 carries, as "
      "that of worker 0, found the sum of 2 gradients of step 5 that worker 0 carries");
  expect_words({header(0, 4, two_of_0), header(1, 4, sum_tag{{1}, 2})}, "that worker 1 carries");
  expect_words({header(0, 4, two_of_0), header(1, 4, three_of_0)}, "found the sum of 3 gradients");
  expect_words({header(0, 4, two_of_0), header(1, 4, {})}, "found no sum at step 4");
  expect_words({header(0, 4, {}), header(1, 4, two_of_0)},
               "worker 0: expected its gradient in no sum at step 4");
  expect_words({header(1, 4, two_of_0), header(2, 4, two_of_0)},
               "worker 0: expected the sum of 2 gradients of step 4 that worker 0 carries, found no gradient "
               "of that worker");
  expect_words({header(0, 4, three_of_0), header(1, 4, three_of_0)}, "found 2 gradients for this update");
}

TEST(SummedGradients, AreHandedOverAsOneContributionAndAllOfTheirHeaders) {
  const parameter_layout layout = testing::layout_of({{"w", {8}}}, 1);
  gradient_batch batch(std::make_shared<shard>(layout, 0, 1, testing::sgd(1)), 3);
  std::uint32_t counted = 0;
  const auto count = [&](const waiting_gradient& g) {
    ++counted;
    return contribution{g.what.payload.values, 0.5F};
  };
  const auto sum = testing::constant_gradient(layout, 6);
  for (const std::uint32_t r : {2U, 0U, 1U}) {
    push_gradient x = testing::push_of(r, 1, 0, r == 0 ? sum : nullptr);
    x.header.sum = three_of_0;
    batch.add({x, {}}, count);
  }
  std::vector<std::uint32_t> workers;
  std::vector<contribution> contributions;
  batch.hand_over([](rank) { return 1.0F; }, count,
                  [&](const gradient_header& x, const contribution* what) {
                    workers.push_back(x.id.worker.value);
                    if (what) contributions.push_back(*what);
                  });
  EXPECT_THAT(workers, ElementsAre(0, 1, 2));
  EXPECT_EQ(counted, 3U);
  ASSERT_EQ(contributions.size(), 1U);
  EXPECT_EQ(contributions[0].values, sum);
  EXPECT_EQ(contributions[0].scale, 0.5F);
}

TEST(SummedGradients, AreCheckedBeforeABatchHandsAnyOver) {
  const parameter_layout layout = testing::layout_of({{"w", {8}}}, 1);
  gradient_batch batch(std::make_shared<shard>(layout, 0, 1, testing::sgd(1)), 3);
  const auto count = [](const waiting_gradient&) { return contribution{}; };
  push_gradient x = testing::push_of(1, 1, 0, nullptr);
  x.header.sum = two_of_0;
  batch.add({x, {}}, count);
  EXPECT_THROW(batch.hand_over([](rank) { return 1.0F; }, count, [](const auto&, const auto*) { FAIL(); }),
               std::runtime_error);
}

} // namespace
} // namespace mailgrad
