#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace mailgrad {
namespace {

using testing::add_rows;
using testing::dense_gradient;
using testing::layout_of;
using testing::random_values;
using namespace ::testing;

using progress = parallel_update::progress;

constexpr std::size_t weights = 5 * parallel_update::part_size / 2 + 7; // three parts, the last one odd

std::vector<float> values_of(const shard& s) {
  const auto snapshot = s.snapshot();
  const std::span<const float> values = snapshot.on_host();
  return {values.begin(), values.end()};
}

class ParallelUpdate : public ::testing::TestWithParam<std::string_view> {
protected:
  shard make() const { return {layout_, 0, 1, parse_optimizer(std::string(GetParam()))}; }
  std::vector<contribution> two(std::uint64_t seed) const {
    std::vector<contribution> made;
    for (const float scale : {0.5F, 0.25F}) {
      auto g = dense_gradient(random_values(layout_.dense_size(), seed++));
      add_rows(*g, 1, 4, {2, 5}, {1, 2, 3, 4, 5, 6, 7, 8});
      made.push_back({g, scale});
    }
    return made;
  }

  const parameter_layout layout_ = layout_of({{"w", {weights}}, {"table", {8, 4}, true}}, 1);
};

TEST_P(ParallelUpdate, HasTheSameBitsWhoeverComputesWhichPart) {
  shard alone = make(), helped = make();
  for (std::uint64_t step = 0; step < 8; ++step) {
    const auto gradients = two(2 * step);
    alone.update(gradients, 0.5);
    parallel_update work;
    helped.begin_update(work, gradients, 0.5, 2);
    std::array<std::size_t, 2> computed{};
    std::atomic<int> completed = 0;
    const auto help = [&](std::size_t& count) {
      for (progress done; (done = work.compute_part()) != progress::nothing_left; ++count)
        if (done == progress::complete) ++completed;
    };
    {
      const std::jthread other([&] { help(computed[1]); });
      help(computed[0]);
    }
    EXPECT_EQ(computed[0] + computed[1], 3U);
    EXPECT_EQ(completed, 1) << "somebody has to tell";
    helped.end_update(work);
    ASSERT_EQ(values_of(helped), values_of(alone)) << "step " << step;
  }
  EXPECT_EQ(helped.version().value, 8U);
}

TEST_P(ParallelUpdate, LeavesNothingForWhoComesLate) {
  for (const std::size_t threads :
       {1U, 2U, 7U}) { // fewer and more than parts: one thread sees to all of them
    shard s = make();
    parallel_update work;
    s.begin_update(work, two(1), 1, threads);
    std::size_t computed = 1;
    progress last = progress::computed;
    while ((last = work.compute_part()) == progress::computed) ++computed;
    EXPECT_EQ(last, progress::complete) << threads << " threads";
    EXPECT_EQ(computed, 3U) << threads << " threads";
    s.end_update(work);
    const std::vector<float> after = values_of(s);
    EXPECT_EQ(work.compute_part(), progress::nothing_left);
    EXPECT_EQ(values_of(s), after);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryRule, ParallelUpdate, ::testing::ValuesIn(testing::single_weight_rules()),
                         [](const auto& rule) {
                           std::string name(rule.param);
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

TEST(ParallelUpdateOfOnePart, IsNotWorthHelp) {
  EXPECT_FALSE(shard(layout_of({{"w", {parallel_update::part_size}}}, 1), 0, 1, testing::sgd(1)).divides());
  EXPECT_TRUE(
      shard(layout_of({{"w", {parallel_update::part_size + 1}}}, 1), 0, 1, testing::sgd(1)).divides());
}

TEST(ParallelUpdateOfOnePart, LetsGoOfGradientsAndOwnerAtItsEnd) {
  shard s(layout_of({{"w", {16}}}, 1), 0, 1, testing::sgd(1));
  parallel_update work;
  const auto g = dense_gradient(std::vector<float>(16, 1.0F));
  const auto owner = std::make_shared<int>();
  const contribution one{g};
  s.begin_update(work, {&one, 1}, 1, 2, owner);
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(work.compute_part(), progress::complete);
  s.end_update(work);
  EXPECT_EQ(g.use_count(), 2) << "the test's and its contribution";
  EXPECT_EQ(owner.use_count(), 1);
}

/// A gradient of which a further device computed a part of the dense values.
class Addends : public ::testing::Test {
protected:
  std::vector<float> updated(const std::vector<contribution>& gradients) const {
    shard s(layout_, 0, 1, parse_optimizer("momentum"));
    for (int i = 0; i < 3; ++i) s.update(gradients);
    return values_of(s);
  }
  dense_addend addend(std::span<const float> values, std::vector<std::size_t> variables) const {
    dense_addend made{block(values.size_bytes()), coverage_of(layout_, variables)};
    std::ranges::copy(values, made.values.as<float>().begin());
    return made;
  }

  const parameter_layout layout_ = layout_of({{"a", {48}}, {"b", {32}}, {"c", {16}}}, 1);
  const std::vector<float> first_ = random_values(layout_.dense_size(), 1);
  const std::vector<float> second_ = random_values(layout_.dense_size(), 2);
};

TEST_F(Addends, CountAsIfTheyHadBeenAddedBefore) {
  std::vector<float> sum = first_;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second_[i];
  const auto apart = dense_gradient(first_);
  apart->addends.push_back(addend(first_, {})); // the first device's own: nothing
  apart->addends.push_back(addend(second_, {0, 1, 2}));
  EXPECT_EQ(updated({{apart}}), updated({{dense_gradient(sum)}}));
  const auto other = dense_gradient(second_);
  EXPECT_THAT(updated({{apart, 0.5F}, {other, 0.25F}}),
              Pointwise(FloatNear(1e-5F), updated({{dense_gradient(sum), 0.5F}, {other, 0.25F}})))
      << "with the scale of their gradient";
}

TEST_F(Addends, CountOnlyForWhatTheyCover) {
  std::vector<float> sum = first_;
  const placed_variable& b = layout_.variables()[1];
  for (std::size_t i = b.offset; i < b.offset + 32; ++i) sum[i] += second_[i];
  const auto apart = dense_gradient(first_);
  apart->addends.push_back(addend(second_, {1}));
  EXPECT_EQ(updated({{apart}}), updated({{dense_gradient(sum)}}));
}

} // namespace
} // namespace mailgrad
