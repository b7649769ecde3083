#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>

// Workers whose model spans several devices: in every order of messages, and on real threads.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::send_anonymously;
using ::testing::AllOf, ::testing::FloatNear, ::testing::HasSubstr, ::testing::Pointwise,
    ::testing::ThrowsMessage;

constexpr std::uint64_t orders = 500; // scripts/endurance tries 700

class Spanning : public DrawnRuns {
protected:
  /// With micro-batches of 2, 1 and 1 of the 4 samples of a batch.
  static assembly of_stages(const std::string& policy, std::uint32_t workers, std::uint32_t devices_each) {
    return {.policy = policy, .workers = workers, .devices_each = devices_each, .micro_batches = 3};
  }
};

TEST_F(Spanning, GivesTheSameWeightsInEveryOrderOfMessages) {
  for (const std::uint32_t devices : {2U, 3U}) {
    const std::vector<float> first = drawn_weights(of_stages("sync", 2, devices));
    for (const drawn_order& order : drawn_orders(orders))
      ASSERT_EQ(drawn_weights(of_stages("sync", 2, devices), order), first);
    assembly in_one = of_stages("sync", 2, 1);
    in_one.micro_batches = 1;
    EXPECT_THAT(first, Pointwise(FloatNear(1e-5F), drawn_weights(in_one))) << devices << " devices a worker";
  }
}

TEST_F(Spanning, BalancesTheLedgerUnderEveryPolicyAndSwitch) {
  for (const char* policy : {"async", "ssp:1", "backup:1", "k-async:2", "rennala:2", "malenia:4",
                             "ringleader", "hogwild", "async, sync@5", "sync, hogwild@4, async@8"}) {
    SCOPED_TRACE(policy);
    in_orders(drawn_orders(orders / 5), of_stages(policy, 3, 2), [](const assembled_run& run) {
      expect_completed(run);
      EXPECT_EQ(report_of(run.outcome(), run.written()).ledger.produced, 12U);
    });
  }
}

TEST_F(Spanning, LearnsTheSameWhetherShardsOrStagesAddUp) {
  for (const std::size_t micro_batches : {1U, 2U}) {
    SCOPED_TRACE(std::to_string(micro_batches) + " micro-batches");
    assembly a = of_stages("async", 1, 2);
    a.replicated = true;
    a.micro_batches = micro_batches;
    const std::vector<float> whole = drawn_weights(a);
    a.sums_apart = true;
    const std::vector<float> first = drawn_weights(a);
    for (const drawn_order& order : drawn_orders(orders / 10)) ASSERT_EQ(drawn_weights(a, order), first);
    // Several micro-batches are added up before devices are, not after.
    EXPECT_THAT(first, Pointwise(FloatNear(micro_batches == 1 ? 0 : 1e-5F), whole));
  }
}

TEST_F(Spanning, EndsARunOfWhichAStageDies) {
  const drawn_orders tried(orders);
  std::uint64_t lost = 0;
  bool running = false;
  const auto kill_one = [&](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(250));
    running = run.times_ended() == 0;
    kill(run.stages[order.below(run.stages.size())]);
  };
  in_orders(tried, of_stages("sync", 2, 2), kill_one, [&](const assembled_run& run) {
    expect_balanced(run);
    if (!running || run.outcome().how == run_outcome::ending::completed) return;
    ++lost;
    EXPECT_EQ(run.outcome().how, run_outcome::ending::failed);
    EXPECT_THAT(run.outcome().why, AllOf(HasSubstr("its stage on cpu:"), HasSubstr("is gone")));
  });
  EXPECT_GT(lost, tried.count() / 4);
}

TEST_F(Spanning, EndsAWorkerThatDiesInMidStep) {
  const auto kill_one = [&](const assembled_run& run, drawn_order& order) {
    deliver(order, order.below(250));
    kill(run.devices[order.below(2)]);
  };
  in_orders(drawn_orders(orders), of_stages("async", 2, 2), kill_one, expect_completed);
}

TEST_F(Spanning, LeavesHogwildInMidStepWhenItIsAskedTo) {
  assembly a = of_stages("hogwild, async@190", 2, 2);
  a.batches = 200;
  const auto ask = [&](const assembled_run& run, drawn_order& order) {
    deliver(order, 200 + order.below(200));
    send_anonymously(run.coordinator_actor, request_switch{"async", "the test wants it"});
  };
  in_orders(drawn_orders(orders / 5), a, ask, [](const assembled_run& run) {
    ASSERT_GE(run.outcome().switches.size(), 1U);
    EXPECT_LT(run.outcome().switches.front().step, 100U) << "no worker begins another step";
    expect_balanced(run);
  });
}

class SpanningThreads : public ::testing::Test {
protected:
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  /// A run of so many workers of two devices each.
  static training_options options_for(const std::string& policy, std::uint32_t workers,
                                      small_options s = {.batch = 12}) {
    s.seed = 1;
    s.workers = workers;
    return testing::options_for(policy, 2 * workers, s);
  }
  static training_options one_device(const std::string& policy = "async") {
    training_options o = options_for(policy, 1);
    o.devices.resize(1);
    return o;
  }
  static void expect_close(const std::vector<float>& found, const std::vector<float>& expected) {
    EXPECT_THAT(found, Pointwise(FloatNear(1e-5F), expected));
  }
};

TEST_F(SpanningThreads, TrainsAPipelineAsOneDeviceDoes) {
  const std::vector<float> expected = weights_of(one_device());
  training_options o = options_for("async", 1);
  EXPECT_EQ(weights_of(o, small_data(), pipelined(small_model())), expected)
      << "without micro-batches to the bit";
  expect_close(weights_of(o, small_data(), replicated(small_model())), expected);
  o.micro_batches = 5;
  expect_close(weights_of(o, small_data(), pipelined(small_model())), expected);
}

TEST_F(SpanningThreads, DropsInAPipelineWhatOneDeviceDrops) {
  const model_function dropping = [](graph& g, const model_request& r) {
    return build_classifier(g,
                            {dense_layer{16, activation::tanh}, dropout_layer{0.5F}, dense_layer{8},
                             dropout_layer{0.25F}, dense_layer{}},
                            r);
  };
  training_options o = options_for("async", 1);
  EXPECT_EQ(weights_of(o, small_data(), pipelined(dropping)),
            weights_of(one_device(), small_data(), dropping));
  o.micro_batches = 3;
  o.epochs = 30;
  EXPECT_GT(completed(o, small_data(240), pipelined(dropping)).test_accuracy.value_or(0), 0.8)
      << "each micro-batch drops forward and backward alike";
}

TEST_F(SpanningThreads, SumsMicroBatchesOfTwoSizesWhateverTheirBestCutsAre) {
  const auto data = small_data(54);
  const model_function narrow = [](graph& g, const model_request& r) {
    return build_classifier(
        g, {dense_layer{8, activation::relu}, dense_layer{10, activation::relu}, dense_layer{}}, r);
  };
  training_options one = one_device();
  one.batch = 9;
  const training_options o = options_for("async", 1, {.micro_batches = 2, .batch = 9});
  expect_close(weights_of(o, data, pipelined(narrow)), weights_of(one, data, narrow));
}

TEST_F(SpanningThreads, RefusesMicroBatchesThatAreDealtOutDifferently) {
  const model_function by_size = [](graph& g, const model_request& r) {
    const value x = g.input("features", {r.batch, r.sample_dims[0]});
    const value labels = g.input("labels", {r.batch}, dtype::int32);
    const device_scope scope(g, r.devices[r.batch % 2]);
    const value y = dense(x, 3, "layer");
    return model_outputs{y, cross_entropy(y, labels)};
  };
  expect_ended("failed", HasSubstr("placed differently"),
               train(by_size, small_data(), options_for("async", 1, {.micro_batches = 2, .batch = 5})));
}

TEST_F(SpanningThreads, TrainsSparseRowsInAPipeline) {
  const auto data = sparse_data();
  expect_close(weights_of(options_for("async", 1, {.micro_batches = 4, .batch = 12, .shards = 2}), data,
                          pipelined(small_model())),
               weights_of(one_device(), data));
}

TEST_F(SpanningThreads, TrainsReplicasOfAPipelineUnderEveryPolicy) {
  for (const char* policy : {"sync", "async", "ssp:1", "hogwild"}) {
    SCOPED_TRACE(policy);
    const training_report r =
        completed(options_for(policy, 2, {.micro_batches = 3, .batch = 12, .epochs = 20}), small_data(240),
                  pipelined(small_model()));
    EXPECT_EQ(r.samples, 4800U);
    EXPECT_GT(r.test_accuracy.value_or(0), 0.7);
  }
}

TEST_F(SpanningThreads, AveragesOverReplicasOfAPipelineAsOverOneBatch) {
  expect_close(weights_of(options_for("sync", 2, {.micro_batches = 2, .batch = 6}), small_data(),
                          pipelined(small_model())),
               weights_of(one_device("sync")));
}

TEST_F(SpanningThreads, TakesLocalStepsClippingAndSamplesLikeAnyWorker) {
  for (const auto& [local_steps, sample_gap] : {std::pair(0U, 3U), {3U, 0U}})
    completed(options_for("async", 2,
                          {.clip_norm = 0.5,
                           .local_steps = local_steps,
                           .micro_batches = 2,
                           .batch = 12,
                           .sample_gap = sample_gap}),
              small_data(), pipelined(small_model()));
}

TEST_F(SpanningThreads, RefusesWhatItsDevicesCannotDo) {
  const auto refused = [](const training_options& o, const model_function& model, auto what) {
    EXPECT_THAT([&] { training(model, small_data(), o); }, what);
  };
  training_options o = options_for("async", 1, {.micro_batches = 2, .batch = 12});
  o.devices[1] = o.devices[0];
  refused(o, small_model(), ThrowsMessage<std::invalid_argument>(HasSubstr("would have cpu:0 twice")));
  refused(options_for("hogwild", 1), replicated(small_model()),
          ThrowsMessage<graph_error>(
              AllOf(HasSubstr("variable 'dense1/weights' is read by"), HasSubstr("hogwild"))));
  const model_function elsewhere = [](graph& g, const model_request& r) {
    const device_scope scope(g, "cpu:1");
    return small_model()(g, r);
  };
  refused(one_device(), elsewhere,
          ThrowsMessage<graph_error>(AllOf(HasSubstr("is placed on cpu:1"), HasSubstr("it has cpu:0"))));
  o = options_for("async", 1, {.micro_batches = 2, .batch = 12});
  const model_function there_and_back = [](graph& g, const model_request& r) {
    const value x = g.input("features", {r.batch, r.sample_dims[0]});
    const value labels = g.input("labels", {r.batch}, dtype::int32);
    value h = x;
    for (int i = 0; i < 3; ++i) {
      const device_scope scope(g, r.devices[static_cast<std::size_t>(i) % 2]);
      h = dense(h, 3, "layer" + std::to_string(i));
    }
    return model_outputs{h, cross_entropy(h, labels)};
  };
  refused(
      o, there_and_back,
      ThrowsMessage<graph_error>(AllOf(HasSubstr("spanning_test.cpp:"), HasSubstr("place it on cpu:1 too"))));
  o.micro_batches = 1; // one after the other, it may come and go
  EXPECT_EQ(train(there_and_back, small_data(), o).ended, "completed");
}

} // namespace
} // namespace mailgrad::testing
