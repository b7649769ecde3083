#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/optim/clip.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/oracle_server.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace mailgrad {
namespace {

using testing::oracle::around, testing::oracle::cure_pair, testing::oracle::event, testing::oracle::plan,
    testing::oracle::script;

// A parameter actor under each cure and several policies, against the same server written from the papers.

constexpr std::uint32_t workers = 3;

class ShardOracles : public testing::DeterministicTest {
protected:
  using device_probe = testing::listener<shard_weights>;

  void serve(const char* cure, const char* policy, const char* rule, const around& a) {
    optimizer_options o = parse_optimizer(rule);
    o.learning_rate = a.rate;
    o.schedule = parse_schedule(a.schedule);
    o.l2 = a.l2;
    o.weight_decay = a.decay;
    shard_ = start<parameter_actor>(parameter_actor_options{
        {std::make_shared<shard>(layout_, 0, 1, o), {policy, workers}, workers, time_, {cure, workers}},
        tracker_.actor()});
    devices_.clear();
    steps_.assign(workers, 0);
    gradients_ = 0;
    for (std::uint32_t r = 0; r < workers; ++r) {
      devices_.push_back(listen<shard_weights>());
      tell(shard_, join_shard{{r}, {}, devices_[r].actor()});
    }
  }

  const shard_weights& last_sent(std::uint32_t worker) {
    return devices_[worker].heard<shard_weights>().back();
  }

  void play(const event& e, double clip) {
    if (e.leaves) return tell(shard_, worker_left{{e.worker}});
    const shard_weights& read = last_sent(e.worker);
    ++gradients_;
    std::vector<float> g;
    for (const float w : read.payload.values.on_host())
      g.push_back(static_cast<float>(testing::oracle::slope(g.size(), static_cast<double>(w), gradients_)));
    const float scale = clip_factor(std::sqrt(sum_of_squares(host_stream{}, g)), clip);
    tell(shard_, testing::push_of(e.worker, ++steps_[e.worker], read.header.version.value,
                                  testing::dense_gradient(g), scale));
  }

  void expect_as_its_paper(const cure_pair& pair, const char* rule_text, const testing::oracle::rule& rule,
                           bool has_velocity, const around& a, const plan& p) {
    serve(pair.text, p.policy, rule_text, a);
    const std::span<const float> first = last_sent(0).payload.values.on_host();
    testing::oracle::server expected({first.begin(), first.end()}, pair.made(workers, a.rate), rule,
                                     has_velocity, a, p, workers);
    for (std::size_t i = 0; i < p.events.size(); ++i) {
      play(p.events[i], a.clip);
      expected.play(p.events[i]);
      for (std::uint32_t r = 0; r < workers; ++r) {
        const std::span<const float> sent = last_sent(r).payload.values.on_host();
        for (std::size_t k = 0; k < sent.size(); ++k)
          ASSERT_NEAR(static_cast<double>(sent[k]), expected.sent(r)[k], 1e-5)
              << pair.text << " under " << p.policy << ", event " << i + 1 << ", sent to " << r << ", weight "
              << k;
      }
    }
  }

  static cure_pair cure_of(const std::string& text) {
    for (const cure_pair& pair : testing::oracle::every_cure())
      if (text == pair.text) return pair;
    return {"none", [](std::size_t, double) { return std::make_unique<testing::oracle::cure>(); }};
  }

  const parameter_layout layout_ = testing::layout_of({{"w", {16}}}, 1);
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  caf::actor shard_;
  std::vector<device_probe> devices_;
  std::vector<std::uint64_t> steps_;
  std::uint64_t gradients_ = 0;
};

TEST_F(ShardOracles, TreatEveryGradientAsItsCureSays) {
  for (const cure_pair& pair : testing::oracle::every_cure())
    expect_as_its_paper(pair, "sgd", testing::oracle::sgd(), false, {}, {});
  expect_as_its_paper(cure_of("gap-aware"), "momentum:momentum=0.6", testing::oracle::momentum(0.6), true, {},
                      {});
  expect_as_its_paper(cure_of("none"), "adam", testing::oracle::adam(0.9, 0.999, 1e-8), false, {}, {});
}

// Each gradient of a batch counts with the factor of the gap that it has when the batch is applied.
TEST_F(ShardOracles, TakeTheMeanOfTreatedGradients) {
  const std::vector<event> pairs{{0}, {2}, {1}, {0},       {2}, {0}, {2}, {0}, {0},
                                 {2}, {0}, {1}, {1, true}, {0}, {2}, {2}, {0}};
  for (const char* cure : {"none", "fedbuff", "hinge:3,1.5", "dc-asgd:0.7", "dc-asgd-a"}) {
    expect_as_its_paper(cure_of(cure), "momentum:momentum=0.6", testing::oracle::momentum(0.6), true, {},
                        {"k-batch-async:3", 3, false, false, script});
    expect_as_its_paper(cure_of(cure), "sgd", testing::oracle::sgd(), false, {},
                        {"k-async:2", 2, true, false, pairs});
  }
}

TEST_F(ShardOracles, SumWhatElasticWorkersDifferFromTheCentre) {
  const std::vector<event> rounds{{2}, {0},       {1}, {0}, {1}, {2}, {1}, {2},
                                  {0}, {1, true}, {2}, {0}, {0}, {2}, {2}, {0}};
  around of_elastic; // its pull is the whole step
  of_elastic.rate = 1;
  of_elastic.schedule = "constant";
  of_elastic.l2 = of_elastic.decay = 0;
  for (const char* cure : {"easgd", "easgd:0.2"}) {
    expect_as_its_paper(cure_of(cure), "sgd", testing::oracle::sgd(), false, of_elastic,
                        {"sync", 3, true, true, rounds});
    expect_as_its_paper(cure_of(cure), "sgd", testing::oracle::sgd(), false, of_elastic, {});
  }
}

// FedBuff and asynchronous DiLoCo: differences as gradients, and an outer optimiser.
TEST_F(ShardOracles, StepByAnOuterOptimizer) {
  around outer;
  outer.rate = 0.7;
  outer.schedule = "constant";
  outer.l2 = outer.decay = 0;
  outer.clip = 0.3;
  expect_as_its_paper(cure_of("fedbuff"), "nesterov:momentum=0.5", testing::oracle::nesterov(0.5), true,
                      outer, {"k-batch-async:2", 2, false, false, script});
  for (const char* cure : {"mla", "mla:4", "heloco", "heloco:0.9"})
    expect_as_its_paper(cure_of(cure), testing::oracle::outer_rule, testing::oracle::nesterov(0.5), true,
                        outer, {});
  expect_as_its_paper(cure_of("heloco"), testing::oracle::outer_rule, testing::oracle::nesterov(0.5), true,
                      outer, {"k-batch-async:3", 3, false, false, script});
  outer.rate = 0.05;
  for (const char* cure : {"cgad", "cgad:0.3,5"})
    expect_as_its_paper(cure_of(cure), "adam", testing::oracle::adam(0.9, 0.999, 1e-8), false, outer, {});
  outer.rate = 0.7;
  expect_as_its_paper(cure_of("none"), "delayed-nesterov:momentum=0.5,period=3,early=0.2",
                      testing::oracle::delayed_nesterov(0.5, 3, 0.2), false, outer, {});
}

} // namespace
} // namespace mailgrad
