#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/refusal.hpp>

namespace mailgrad {
namespace {

using testing::ElementsAre, testing::FloatEq, testing::ThrowsMessage, testing::expect_refused;

using numbers = std::vector<float>;

TEST(Distance, IsExactWhereFloat64IsAtEverySize) {
  numbers a, b;
  double product = 0, squares = 0;
  for (int n = 0; n < 70; ++n) {
    EXPECT_EQ(inner_product(host_stream{}, a, b), product) << n << " values";
    EXPECT_EQ(squared_distance(host_stream{}, a, b), squares) << n << " values";
    a.push_back(static_cast<float>(n) - 20.5F);
    b.push_back(3 - 2 * static_cast<float>(n));
    product += static_cast<double>(a.back()) * static_cast<double>(b.back());
    const double d = static_cast<double>(a.back()) - static_cast<double>(b.back());
    squares += d * d;
  }
}

TEST(Distance, SeesWhatFloat32WouldRoundAway) {
  const numbers a{1e30F, 1.0F}, b{1e30F, 1.0000001F};
  EXPECT_GT(squared_distance(host_stream{}, a, b), 0);
  EXPECT_EQ(squared_distance(host_stream{}, a, a), 0);
}

/// Three weights: gradients, those now and those read.
const numbers g{1, -2, 4}, now{2, 2, 1}, read{1, 2, 3};

void map(const weight_function& f, const std::vector<const numbers*>& reads,
         const std::vector<numbers*>& writes) {
  std::vector<const float*> in;
  std::vector<float*> out;
  for (const numbers* n : reads) in.push_back(n->data());
  for (numbers* n : writes) out.push_back(n->data());
  map_weights(host_stream{}, f, in, out, 3);
}

TEST(MapWeights, ScalesAndSubtracts) {
  numbers out(3);
  map(scaled_copy{0.5F}, {&g}, {&out});
  EXPECT_THAT(out, ElementsAre(0.5F, -1, 2));
  map(subtraction{}, {&now, &read}, {&out});
  EXPECT_THAT(out, ElementsAre(1, 0, -2));
}

TEST(MapWeights, CompensatesDelay) {
  numbers out(3);
  map(delay_compensation_step{0.5F, 2}, {&g, &now, &read}, {&out});
  EXPECT_THAT(out, ElementsAre(1, -1, -14)); // s + 2 s^2 (now - read), s = g / 2
}

TEST(MapWeights, CompensatesDelayByTheMeanSquare) {
  numbers squares{1, 0, 0}, out(3);
  map(adaptive_delay_compensation_step{1, 2}, {&g, &now, &read}, {&squares, &out});
  const float first = 0.95F + 0.05F;
  const float third = 0.05F * 16;
  EXPECT_THAT(squares, ElementsAre(FloatEq(first), FloatEq(0.05F * 4), FloatEq(third)));
  EXPECT_THAT(out, ElementsAre(FloatEq(1 + 2 / std::sqrt(first + 1e-7F)), -2,
                               FloatEq(4 - 2 / std::sqrt(third + 1e-7F) * 16 * 2)));
}

TEST(MapWeights, FeedsBackTheChange) {
  numbers before{1, 0, 4}, out(3);
  map(feedback_step{0.5F, 2}, {&g}, {&before, &out});
  EXPECT_THAT(out, ElementsAre(0.5F + 2 * (0.5F - 1), -1 + 2 * -1.0F, 2 + 2 * (2.0F - 4))); // g = 1, -2, 4
  EXPECT_THAT(before, ElementsAre(0.5F, -1, 2));
  map(feedback_step{1, 0}, {&g}, {&before, &out});
  EXPECT_THAT(out, ElementsAre(1, -2, 4));
}

TEST(MapWeights, DividesByTheGap) {
  numbers squares(3), out{3, 3, 3};
  map(gap_aware_step{0.5F, 1000}, {&g, &now, &read}, {&squares, &out});
  EXPECT_THAT(squares, ElementsAre(FloatEq(0.001F), FloatEq(0.004F), FloatEq(0.016F)));
  EXPECT_THAT(out, ElementsAre(FloatEq(3 / (1 + 1 / 0.5F)), 3, FloatEq(3 / (1 + 2 / (0.5F * 4)))));
}

TEST(MapWeights, KeepsAVelocityForEachWorkerAndTheirSum) {
  numbers v{2, 0, 0}, sum{3, 1, 1}, out = g;
  map(worker_velocity_step{0.5F}, {}, {&v, &sum, &out});
  EXPECT_THAT(out, ElementsAre(2, -2, 4));
  EXPECT_THAT(v, ElementsAre(2, -2, 4));
  EXPECT_THAT(sum, ElementsAre(3, -1, 5));
  map(forgotten_velocity{}, {}, {&v, &sum});
  EXPECT_THAT(v, ElementsAre(0, 0, 0));
  EXPECT_THAT(sum, ElementsAre(1, 1, 1));
}

TEST(MapWeights, LooksAhead) {
  numbers v{2, 0, 0}, out(3);
  map(ahead_velocity_step{1, 0.5F}, {&g}, {&v, &out});
  EXPECT_THAT(v, ElementsAre(2, -2, 4));
  EXPECT_THAT(out, ElementsAre(2, -3, 6));
  map(look_ahead{0.25F}, {&now, &v}, {&out});
  EXPECT_THAT(out, ElementsAre(1.5F, 2.5F, 0));
}

TEST(MapWeights, DrawsWorkersAndShardsTogether) {
  numbers out(3);
  map(elastic_step{0.5F, 0.5F}, {&g, &now, &read}, {&out});
  EXPECT_THAT(out, ElementsAre(0.75F, -0.5F, 0)); // half of now - read + g / 2
  numbers own{3, 2, 1};
  map(elastic_pull{0.5F}, {&now}, {&own});
  EXPECT_THAT(own, ElementsAre(2.5F, 2, 1));
}

TEST(MapWeights, RefusesAnotherNumberOfArrays) {
  numbers out(3);
  const std::vector<const numbers*> given{&now};
  EXPECT_THAT([&] { map(subtraction{}, given, {&out}); },
              ThrowsMessage<shape_error>("map_weights: 1 arrays to read, where the function takes 2"));
  EXPECT_THROW(map(subtraction{}, {&now, &read}, {}), shape_error);
}

TEST(Refusals, OfSumsOfOtherLengths) {
  numbers two(2), three(3);
  expect_refused("begin_sum", "accumulate: 2 against 3", [&] { begin_sum(host_stream{}, 1, two, three); });
  expect_refused("add_to_sum", "accumulate: 3 against 2", [&] { add_to_sum(host_stream{}, 1, three, two); });
}

} // namespace
} // namespace mailgrad
