#include <mailgrad/engine/shard/shard_cure.hpp>
#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/oracle_server.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

// Every cure at work in a shard, against the same server written from the papers: with clipping, a schedule,
// both penalties and a worker that leaves.

namespace mailgrad {
namespace {

using testing::oracle::event;

constexpr std::uint32_t oracle_workers = 3;

TEST(ShardCureMemory, KeepsNothingForACureThatDoesNotAskForIt) {
  const parameter_layout layout = testing::layout_of({{"w", {8, 4}}}, 1);
  const auto weights = std::make_shared<shard>(layout, 0, 1, parse_optimizer("sgd"));
  for (const char* cure : {"dana-slim", "dana-zero", "inverse"}) {
    shard_cure t(make_cure(cure, {oracle_workers, weights->dense_size()}), weights, oracle_workers);
    t.weights_for({0});
    EXPECT_FALSE(t.read_by({0})) << cure;
  }
}

/// A shard and its shard_cure, asked as a parameter actor asks them under async.
class treated_shard {
public:
  treated_shard(const char* cure, const char* rule, const testing::oracle::around& a)
      : clip_(a.clip), shard_(std::make_shared<shard>(layout_, 0, 1, options_of(rule, a))),
        cure_(make_cure(cure, {oracle_workers, shard_->dense_size(), a.rate, shard_->at(),
                               shard_->rule_options(), shard_->whole_variables()}),
              shard_, oracle_workers),
        sent_(oracle_workers), versions_(oracle_workers) {
    for (std::uint32_t r = 0; r < oracle_workers; ++r) sent_[r] = cure_.weights_for({r});
  }

  void play(const event& e) {
    const std::uint32_t r = e.worker;
    if (e.leaves) return cure_.leave({r});
    const push_gradient x = gradient_of(r);
    const std::uint64_t gap = shard_->version().value - versions_[r];
    const contribution one = cure_.applied(x, cure_.read_by({r}));
    shard_->update({&one, 1}, cure_.factor(gap));
    sent_[r] = cure_.weights_for({r});
    versions_[r] = shard_->version().value;
  }

  std::span<const float> values() const { return shard_->snapshot().on_host(); }
  std::span<const float> sent(std::uint32_t worker) const { return sent_[worker].on_host(); }

private:
  static optimizer_options options_of(const char* rule, const testing::oracle::around& a) {
    optimizer_options o = parse_optimizer(rule);
    o.learning_rate = a.rate;
    o.schedule = parse_schedule(a.schedule);
    o.l2 = a.l2;
    o.weight_decay = a.decay;
    return o;
  }

  push_gradient gradient_of(std::uint32_t r) {
    ++gradients_;
    std::vector<float> g;
    for (const float w : sent(r))
      g.push_back(static_cast<float>(testing::oracle::slope(g.size(), static_cast<double>(w), gradients_)));
    push_gradient x;
    x.header.id.worker = {r};
    x.header.version_read.value = versions_[r];
    x.header.scale_bits =
        std::bit_cast<std::uint32_t>(clip_factor(std::sqrt(sum_of_squares(host_stream{}, g)), clip_));
    x.payload.values = testing::dense_gradient(g);
    return x;
  }

  const parameter_layout layout_ = testing::layout_of({{"w", {8, 4}}}, 1);
  double clip_;
  std::shared_ptr<shard> shard_;
  shard_cure cure_;
  std::vector<snapshot> sent_;
  std::vector<std::uint64_t> versions_;
  std::uint64_t gradients_ = 0;
};

struct known_rule {
  const char* text;
  testing::oracle::rule made;
  bool has_velocity = false;
};

void expect_close(std::span<const float> found, const std::vector<double>& expected,
                  const std::string& what) {
  for (std::size_t k = 0; k < expected.size(); ++k)
    ASSERT_NEAR(static_cast<double>(found[k]), expected[k], 1e-5) << what << ", weight " << k;
}

void expect_as_its_paper(const testing::oracle::cure_pair& pair, const known_rule& rule) {
  const testing::oracle::around a;
  treated_shard found(pair.text, rule.text, a);
  testing::oracle::server expected({found.values().begin(), found.values().end()},
                                   pair.made(oracle_workers, a.rate), rule.made, rule.has_velocity, a, {},
                                   oracle_workers);
  for (std::size_t i = 0; i < testing::oracle::script.size(); ++i) {
    const event& e = testing::oracle::script[i];
    found.play(e);
    expected.play(e);
    const std::string where =
        std::string(pair.text) + " with " + rule.text + ", event " + std::to_string(i + 1);
    expect_close(found.values(), expected.values(), where);
    for (std::uint32_t r = 0; r < oracle_workers; ++r)
      expect_close(found.sent(r), expected.sent(r), where + ", sent to " + std::to_string(r));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(ShardCureOracles, AShardTreatsGradientsAsThePapersSay) {
  for (const auto& pair : testing::oracle::every_cure())
    for (const known_rule& rule :
         {known_rule{"sgd", testing::oracle::sgd()},
          known_rule{"momentum:momentum=0.6", testing::oracle::momentum(0.6), true},
          known_rule{"nesterov:momentum=0.6", testing::oracle::nesterov(0.6), true},
          known_rule{testing::oracle::outer_rule, testing::oracle::nesterov(0.5), true},
          known_rule{"adam:epsilon=0.03", testing::oracle::adam(0.9, 0.999, 0.03)}})
      if (!pair.momentum_rule || !rule.has_velocity || std::string(rule.text) == pair.momentum_rule)
        expect_as_its_paper(pair, rule);
}

} // namespace
} // namespace mailgrad
