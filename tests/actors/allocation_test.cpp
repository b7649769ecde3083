#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/tests/actors/runs/assembled_run.hpp>
#include <mailgrad/tests/support/allocation_count.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/single_weight_rules.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

namespace mailgrad {
using messaging::kill, messaging::on, messaging::send_anonymously, messaging::spawn;

namespace {

using testing::add_rows, testing::allocations_of, testing::dense_gradient, testing::layout_of,
    testing::random_values;

class Allocation : public ::testing::Test {
protected:
  void SetUp() override {
    if (!testing::can_count_allocations()) GTEST_SKIP() << "this build cannot count allocations";
  }
};

TEST_F(Allocation, IsCountedWhoeverAsks) {
  void* volatile kept = nullptr; // or the compiler leaves out what nobody sees
  const auto by_new = [&] {
    kept = ::operator new(8);
    ::operator delete(kept);
  };
  const auto by_the_c_library = [&] {
    kept = std::aligned_alloc(64, 128);
    std::free(kept);
  };
  EXPECT_EQ(allocations_of(by_new), 1U);
  EXPECT_EQ(allocations_of(by_the_c_library), 1U);
  EXPECT_GE(allocations_of([] { const block b(256); }), 1U);
  EXPECT_EQ(allocations_of([] {}), 0U);
}

/// Runs a model often enough to be warm, then counts.
std::uint64_t allocations_of_a_run(const model_function& model, const dataset& samples) {
  constexpr std::size_t batch_size = 8;
  model_request request;
  request.sample_dims = samples.sample_dims();
  request.classes = samples.classes();
  request.nonzeros = samples.is_sparse() ? max_nonzeros(samples, batch_size) : 0;
  const auto layout = std::make_shared<parameter_layout>(lay_out(model, request, 2));
  const std::vector<float> weights = testing::first_values(*layout, 1);
  replica r(model, request, layout);
  for (std::uint32_t s = 0; s < 2; ++s) r.use_weights(s, weights.data() + layout->shard(s).begin);
  const auto inputs = std::make_shared<batch>();
  shape_batch(samples, batch_size, request.nonzeros, *inputs);
  std::vector<std::uint32_t> which(batch_size);
  std::iota(which.begin(), which.end(), 0U);
  fill_batch(samples, which, *inputs);
  const auto g = r.make_gradient();
  const auto step = [&] {
    fill_batch(samples, which, *inputs);
    r.use_weights(0, weights.data());
    r.begin_step(inputs, g);
  };
  for (int i = 0; i < 3; ++i) step();
  return allocations_of([&] {
    for (int i = 0; i < 10; ++i) step();
  });
}

TEST_F(Allocation, IsNotNeededToFillABatchAndRunAModel) {
  EXPECT_EQ(allocations_of_a_run(testing::small_model(), testing::small_samples(16, 1)), 0U);
  EXPECT_EQ(allocations_of_a_run(testing::small_model(), testing::sparse_samples(16, 1)), 0U) << "sparse";
  const dataset pictures(byte_features{{12, 12, 1}, std::vector<std::uint8_t>(144 * 8, 100)},
                         std::vector<std::int32_t>(8), 10);
  for (const char* name : {"softmax", "mlp", "lenet"})
    EXPECT_EQ(allocations_of_a_run(find_model(name), pictures), 0U) << name;
}

/// Updates weights that somebody holds, and weights that nobody does.
std::uint64_t allocations_of_updates(shard& s, const std::shared_ptr<const gradient>& g) {
  const contribution two[] = {{g, 0.5F}, {g, 0.5F}};
  return allocations_of([&] {
    snapshot held = s.snapshot();
    s.update(two);
    held.reset();
    s.update(two);
  });
}

TEST_F(Allocation, IsNotNeededToUpdateAShard) {
  const parameter_layout layout = layout_of({{"w", {9, 17}}, {"table", {20, 3}, true}}, 1);
  for (const std::string_view name : testing::single_weight_rules()) {
    shard s(layout, 0, 1, parse_optimizer(name));
    const auto g = dense_gradient(random_values(layout.dense_size(), 1));
    add_rows(*g, 1, 3, {4, 19, 4, 0}, random_values(12, 2));
    constexpr int longer_than_the_log_of_rows = 70;
    for (int i = 0; i < longer_than_the_log_of_rows; ++i) allocations_of_updates(s, g);
    EXPECT_EQ(allocations_of_updates(s, g), 0U) << name;
  }
}

TEST_F(Allocation, IsNotNeededToUpdateAShardOfWholeVariables) {
  const parameter_layout layout = layout_of({{"w", {9, 17}}, {"b", {5}}, {"v", {12, 4}}}, 1);
  for (const std::string_view name : testing::whole_variable_rules()) {
    shard s(layout, 0, 1, parse_optimizer(name));
    const auto g = dense_gradient(random_values(layout.dense_size(), 1));
    allocations_of_updates(s, g);
    for (int i = 0; i < 6; ++i) // the roots of shampoo are computed at some of these updates
      EXPECT_EQ(allocations_of_updates(s, g), 0U) << name << ", " << i;
  }
}

TEST_F(Allocation, IsNotNeededToWriteIntoTheSharedBlock) {
  const parameter_layout layout = layout_of({{"w", {50, 17}}, {"table", {20, 3}, true}}, 1);
  const auto store = std::make_shared<hogwild_store>(testing::first_values(layout, 1));
  const auto g = dense_gradient(random_values(layout.dense_size(), 1));
  add_rows(*g, 1, 3, {4, 19, 4, 0}, random_values(12, 2));
  for (const std::string_view name : testing::single_weight_rules()) {
    hogwild_writer writer(layout, store, parse_optimizer(name));
    const auto step = [&] {
      writer.begin_step();
      writer.write(*g, 1);
    };
    step();
    EXPECT_EQ(allocations_of(step), 0U) << name;
  }
}

/// Takes messages of one kind and does nothing with them.
template <class Message>
class silent {
public:
  static constexpr const char* name = "mailgrad.silent";
  explicit silent(caf::event_based_actor* self) : self_(self) {}
  caf::behavior make_behavior() {
    return {on(self_, [](const Message&) {})};
  }

private:
  caf::event_based_actor* self_;
};

/// Allocations that one message of this kind costs, sent to an actor that does nothing with it, and
/// delivered.
template <class Message>
double allocations_of_a_message(const Message& message) {
  constexpr int messages = 1024;
  testing::deterministic_system system;
  const caf::actor listener = spawn<silent<Message>>(system.actors());
  system.run();
  const std::uint64_t count = allocations_of([&] {
    for (int i = 0; i < messages; ++i) {
      send_anonymously(listener, message);
      system.step();
    }
  });
  kill(listener);
  return static_cast<double>(count) / messages;
}

class SteadyStep : public Allocation,
                   public ::testing::WithParamInterface<std::tuple<const char*, std::size_t>> {};

TEST_P(SteadyStep, AllocatesNothingBeyondItsMessages) {
  constexpr std::size_t warm_up = 20;
  constexpr std::size_t steps = 100;
  testing::assembly a;
  a.policy = std::get<0>(GetParam());
  a.trace_events = std::get<1>(GetParam());
  a.workers = 1;
  a.shards = 2;
  a.batches = warm_up + steps + 20;
  const std::size_t messages_a_step =
      2 + 2 * a.shards; // a batch and each shard's weights, asked and answered
  const double messages_cost =
      allocations_of_a_message(next_batch{}) + allocations_of_a_message(dealt_batch{}) +
      a.shards * (allocations_of_a_message(push_gradient{}) + allocations_of_a_message(shard_weights{}));

  testing::deterministic_system system;
  const testing::assembled_run run(system.actors(), a, testing::small_data(),
                                   std::make_shared<testing::manual_time>());
  for (std::size_t i = 0; i < warm_up * messages_a_step; ++i) ASSERT_TRUE(system.step());
  const std::uint64_t count = allocations_of([&] {
    for (std::size_t i = 0; i < steps * messages_a_step; ++i) system.step();
  });
  EXPECT_LT(static_cast<double>(count) / steps, messages_cost + 0.5) << "allocations a step";
  system.run();
  EXPECT_EQ(run.times_ended(), 1U);
}

INSTANTIATE_TEST_SUITE_P(EveryPolicyWithShards, SteadyStep,
                         ::testing::Combine(::testing::Values("async", "sync"),
                                            ::testing::Values(0, 100'000)),
                         [](const auto& how) {
                           return std::get<0>(how.param) +
                                  std::string(std::get<1>(how.param) > 0 ? "_traced" : "");
                         });

} // namespace
} // namespace mailgrad
