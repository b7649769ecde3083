#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/optim/virtual_trainer.hpp>

#include <mailgrad/engine/shard/update_maker.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

#include <gtest/gtest.h>

#include <bit>

// A cure at its shard against the same cure on plain vectors: three workers one after the other, on x^2 / 2.

namespace mailgrad {
namespace {

using testing::virtual_trainer;

constexpr std::uint32_t cured_workers = 3;
constexpr std::size_t updates = 30;

struct treated_optimizer {
  const char* cure;
  const char* optimizer;
};

void PrintTo(const treated_optimizer& t, std::ostream* out) { *out << t.cure << " with " << t.optimizer; }

class ShardCure : public ::testing::TestWithParam<treated_optimizer> {};

void half_square(std::span<const float> x, std::mt19937_64&, std::span<float> g) {
  std::ranges::copy(x, g.begin());
}

TEST_P(ShardCure, AppliesAtItsShardWhatTheCureAloneWould) {
  optimizer_options rule = parse_optimizer(GetParam().optimizer);
  rule.learning_rate = 0.2;
  const parameter_layout layout = testing::layout_of({{"w", {8, 4}}}, 1);
  const auto weights = std::make_shared<shard>(layout, 0, 1, rule);
  const std::span<const float> first = weights->snapshot().on_host();
  virtual_trainer expected({GetParam().cure, GetParam().optimizer, 0.2, cured_workers, true},
                           {first.begin(), first.end()}, half_square);
  shard_cure t(make_cure(GetParam().cure, {cured_workers, weights->dense_size(), 0.2}), weights,
               cured_workers);

  std::vector<snapshot> sent;
  std::vector<std::uint64_t> versions(cured_workers);
  for (std::uint32_t r = 0; r < cured_workers; ++r) sent.push_back(t.weights_for({r}));
  for (std::size_t i = 0; i < updates; ++i) {
    const auto r = static_cast<std::uint32_t>(i % cured_workers);
    push_gradient x;
    x.header.id.worker = {r};
    x.header.version_read.value = versions[r];
    x.header.scale_bits = std::bit_cast<std::uint32_t>(1.0F);
    x.payload.values = testing::dense_gradient({sent[r].on_host().begin(), sent[r].on_host().end()});
    const std::uint64_t gap = weights->version().value - versions[r];
    const contribution one = t.applied(x, t.read_by({r}));
    weights->update({&one, 1}, t.factor(gap));
    sent[r] = t.weights_for({r});
    versions[r] = weights->version().value;
  }
  expected.run(updates);
  const std::span<const float> found = weights->snapshot().on_host();
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_FLOAT_EQ(found[k], expected.weights()[k]) << k;
}

INSTANTIATE_TEST_SUITE_P(
    Cures, ShardCure,
    ::testing::Values(treated_optimizer{"none", "momentum"}, treated_optimizer{"inverse", "momentum"},
                      treated_optimizer{"dc-asgd:1", "sgd"}, treated_optimizer{"dc-asgd-a:0.5", "adam"},
                      treated_optimizer{"gap-aware", "sgd"}, treated_optimizer{"gap-aware", "momentum"},
                      treated_optimizer{"dana-zero", "sgd"}, treated_optimizer{"dana-slim", "sgd"},
                      treated_optimizer{"dana-dc:0.9,0.5", "sgd"}));

TEST(ShardCureOfNothing, WouldShowInThatTest) {
  for (const char* cure : {"dc-asgd:1", "gap-aware", "dana-zero", "dana-slim"}) {
    virtual_trainer with({cure, "sgd", 0.2, cured_workers, true}, std::vector<float>(4, 1.0F), half_square);
    virtual_trainer without({"none", "sgd", 0.2, cured_workers, true}, std::vector<float>(4, 1.0F),
                            half_square);
    with.run(updates);
    without.run(updates);
    EXPECT_NE(with.weights(), without.weights()) << cure;
  }
}

TEST(ShardCureMemory, KeepsNothingForACureThatDoesNotAskForIt) {
  const parameter_layout layout = testing::layout_of({{"w", {8, 4}}}, 1);
  const auto weights = std::make_shared<shard>(layout, 0, 1, parse_optimizer("sgd"));
  for (const char* cure : {"dana-slim", "dana-zero", "inverse"}) {
    shard_cure t(make_cure(cure, {cured_workers, weights->dense_size()}), weights, cured_workers);
    t.weights_for({0});
    EXPECT_FALSE(t.read_by({0})) << cure;
  }
}

} // namespace
} // namespace mailgrad
