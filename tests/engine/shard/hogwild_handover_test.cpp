#include <mailgrad/engine/shard/hogwild_handover.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

// Weights that go from shards to the shared block and back, against a plain loop.

namespace mailgrad {
namespace {

using testing::add_rows;
using testing::dense_gradient;
using testing::first_values;
using testing::layout_of;
using testing::random_values;

parameter_layout dense_and_tables(std::size_t shards) {
  return layout_of({{"w", {40}}, {"b", {9}}, {"table", {12, 3}, true}, {"second", {16, 4}, true}}, shards);
}

/// The first table is gathered twice, with one row in both lists and another twice in one of them.
std::shared_ptr<const gradient> gradient_of_step(const parameter_layout& layout, std::uint64_t n) {
  const auto g = dense_gradient(random_values(layout.dense_size(), n));
  const auto row = static_cast<std::int32_t>(n % 12);
  add_rows(*g, 2, 3, {row, 11, row, -1, 2}, random_values(15, 100 + n));
  add_rows(*g, 3, 4, {row, 15}, random_values(8, 200 + n));
  add_rows(*g, 2, 3, {5, row}, random_values(6, 300 + n));
  return g;
}

/// One worker, whose updates are made by the shards or by itself.
class worker_on_the_move {
public:
  worker_on_the_move(const parameter_layout& layout, const optimizer_options& o)
      : store_(std::make_shared<hogwild_store>(first_values(layout, 3))), writer_(layout, store_, o) {
    for (std::uint32_t s = 0; s < layout.shard_count(); ++s) {
      shards_.push_back(std::make_shared<shard>(layout, s, 3, o));
      leases_.emplace_back(shards_.back(), store_);
    }
  }

  void go_to_the_store() {
    for (hogwild_handover& lease : leases_) lease.begin();
    direct_ = true;
  }
  void go_to_the_shards() {
    for (hogwild_handover& lease : leases_) lease.end();
    direct_ = false;
  }

  void update(const std::shared_ptr<const gradient>& g, float scale) {
    if (direct_) {
      writer_.begin_step();
      writer_.write(*g, scale);
      return;
    }
    for (const auto& s : shards_) testing::update_once(*s, g, scale);
  }

  /// Of all shards, one after the other; to be asked while the weights are there.
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const auto& s : shards_) std::ranges::copy(s->snapshot().on_host(), std::back_inserter(all));
    return all;
  }
  std::uint64_t version() const { return shards_.front()->version().value; }

private:
  std::shared_ptr<hogwild_store> store_;
  hogwild_writer writer_;
  std::vector<std::shared_ptr<shard>> shards_;
  std::vector<hogwild_handover> leases_;
  bool direct_ = false;
};

/// The same updates in a loop: two optimisers, each with a state and a count of its own, on the same weights,
/// and a schedule that counts the updates of both.
class plain_loop {
public:
  plain_loop(const parameter_layout& layout, const optimizer_options& o)
      : layout_(layout), schedule_(o.schedule), weights_(first_values(layout, 3)) {
    optimizer_options unscheduled = o;
    unscheduled.schedule = {};
    for (home& h : homes_) h.rule = make_optimizer(unscheduled, layout.size());
  }

  void update(const gradient& g, float scale, bool direct) {
    home& h = homes_[direct ? 1 : 0];
    ++h.updates;
    const double rate = learning_rate(schedule_, 1, ++updates_);
    const std::span<float> dense = std::span(weights_).first(layout_.dense_size());
    const scaled_gradient one{g.dense.on_host<float>().data(), scale};
    h.rule->update(host_stream{}, {dense, dense, {&one, 1}, h.updates, 0, rate});
    for (std::size_t v = 0; v < layout_.variables().size(); ++v) update_table(g, scale, v, h, rate);
  }

  const std::vector<float>& weights() const { return weights_; }
  std::uint64_t updates() const { return updates_; }

private:
  struct home {
    std::unique_ptr<optimizer> rule;
    std::uint64_t updates = 0;
  };

  void update_table(const gradient& g, float scale, std::size_t variable, home& h, double rate) {
    const placed_variable& table = layout_.variables()[variable];
    std::vector<std::int32_t> rows;
    std::vector<float> values;
    std::size_t width = 1;
    for (const gradient_rows& part : g.sparse) {
      if (part.variable != variable) continue;
      width = part.width;
      for (std::size_t j = 0; j < part.rows.size() && part.rows[j] >= 0; ++j) {
        rows.push_back(part.rows[j]);
        for (const float x : part.values.subspan(j * width, width)) values.push_back(scale * x);
      }
    }
    if (rows.empty()) return;
    h.rule->update_rows(host_stream{},
                        {std::span(weights_).subspan(table.offset, table.dims.size()), width, rows, values,
                         1.0F, h.updates, table.offset, 0, static_cast<std::int32_t>(table.dims[0]), rate});
  }

  const parameter_layout& layout_;
  learning_rate_schedule schedule_;
  std::vector<float> weights_;
  std::array<home, 2> homes_;
  std::uint64_t updates_ = 0;
};

using rule_and_schedule = std::tuple<std::string_view, const char*>;

class HogwildAmongPolicies : public ::testing::TestWithParam<rule_and_schedule> {
protected:
  static optimizer_options options() {
    optimizer_options o = parse_optimizer(std::get<0>(GetParam()));
    o.learning_rate = 0.1;
    o.schedule = parse_schedule(std::get<1>(GetParam()));
    return o;
  }

  /// Two times to the shared block and back, with what a clipped gradient counts with.
  static void expect_the_weights_of_a_loop(const optimizer_options& o) {
    for (const std::size_t shards : {1U, 3U}) {
      const parameter_layout layout = dense_and_tables(shards);
      worker_on_the_move worker(layout, o);
      plain_loop loop(layout, o);
      std::uint64_t n = 0;
      const auto train = [&](int steps, bool direct) {
        for (int i = 0; i < steps; ++i, ++n) {
          const auto g = gradient_of_step(layout, n);
          const float scale = n % 2 == 0 ? 1.0F : 0.7F;
          worker.update(g, scale);
          loop.update(*g, scale, direct);
        }
      };
      for (int turn = 0; turn < 2; ++turn) {
        train(4, false);
        worker.go_to_the_store();
        train(5, true);
        worker.go_to_the_shards();
        ASSERT_EQ(worker.weights(), loop.weights()) << shards << " shards, turn " << turn;
        ASSERT_EQ(worker.version(), loop.updates());
      }
      train(3, false);
      ASSERT_EQ(worker.weights(), loop.weights()) << shards << " shards, at the end";
    }
  }
};

TEST_P(HogwildAmongPolicies, MakesTheWeightsOfAPlainLoopBitForBit) {
  expect_the_weights_of_a_loop(options());
}

TEST_P(HogwildAmongPolicies, DecaysAndPenalisesAsAPlainLoopDoes) {
  optimizer_options o = options();
  o.l2 = 0.01;
  o.weight_decay = 0.05;
  expect_the_weights_of_a_loop(o);
}

/// Steps of a schedule fall into each phase, and beyond all.
INSTANTIATE_TEST_SUITE_P(
    EveryRuleAndSchedule, HogwildAmongPolicies,
    ::testing::Combine(::testing::ValuesIn(testing::single_weight_rules()),
                       ::testing::Values("constant", "constant:warmup=6", "step:every=3,factor=0.5",
                                         "step:every=6,factor=0", "cosine:total=15,final=0.1",
                                         "cosine:total=30,warmup=5")),
    [](const auto& both) {
      return testing::test_name(std::string(std::get<0>(both.param)) + " " + std::get<1>(both.param));
    });

} // namespace
} // namespace mailgrad
