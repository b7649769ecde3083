#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/plan/run_tester.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/noting_operation.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <source_location>

// Tests of the weights of a run, and its last test, on a simulated GPU that fails.

namespace mailgrad {
namespace {

using namespace ::testing;

/// Of a program that has no kernel for a GPU.
class hosts_own final : public test::noting_operation {
public:
  hosts_own() : noting_operation(std::make_shared<std::vector<next_use>>()) {}
  bool runs_on(device_kind kind) const noexcept override { return kind == device_kind::cpu; }
};

class GpuRunTester : public ::testing::Test {
protected:
  void SetUp() override { set_up({}); }
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static void set_up(const simulated_gpu::faults& fail) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.when = simulated_gpu::timing::late;
    s.fail = fail;
    simulated_gpu::set_up(s);
  }

  run_tester on_gpu(const model_function& model = testing::small_model()) const {
    return {model, request_, layout_, device{device_kind::cuda, 0}};
  }
  /// The loss, and how often it was tried.
  std::pair<double, int> loss_by(run_tester& tester, const dataset& samples) const {
    double loss = 0;
    int tried = 1;
    while (!tester.try_with_model([&](tested_model& model) {
      model.use("test", weights_);
      loss = evaluate(model, samples).loss;
    }))
      ++tried;
    return {loss, tried};
  }
  std::pair<double, int> loss_by(run_tester& tester) const { return loss_by(tester, data_->train); }
  double on_host(const dataset& samples) const {
    return evaluate(testing::small_model(), request_, *layout_, weights_, samples).loss;
  }

  std::uint64_t allocations_of_one_pass() const {
    set_up({});
    run_tester tester = on_gpu();
    loss_by(tester, data_->test);
    return simulated_gpu::count().allocations;
  }

  std::shared_ptr<const data_split> data_ = testing::small_data(300);
  model_request request_ = request_for(*data_, 8);
  std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<const parameter_layout>(lay_out(testing::small_model(), request_, 2));
  std::vector<float> weights_ = testing::first_values(*layout_, 5);
  double expected_ = evaluate(testing::small_model(), request_, *layout_, weights_, data_->train).loss;
};

TEST_F(GpuRunTester, TestsOnTheHostFromEachFailureOn) {
  run_tester whole = on_gpu();
  const auto [loss, tried] = loss_by(whole);
  const simulated_gpu::counters all = simulated_gpu::count();
  EXPECT_NEAR(loss, expected_, 1e-5);
  EXPECT_EQ(tried, 1);
  EXPECT_GT(all.kernels, 0U);
  EXPECT_TRUE(whole.gpu());
  EXPECT_THAT(whole.why_on_host(), IsEmpty());
  const auto expect_host = [&](const simulated_gpu::faults& fail, const char* why) {
    set_up(fail);
    run_tester tester = on_gpu();
    EXPECT_EQ(loss_by(tester), std::pair(expected_, 2));
    EXPECT_FALSE(tester.gpu());
    EXPECT_THAT(tester.why_on_host(), AllOf(HasSubstr(why), Not(HasSubstr("\n"))));
    EXPECT_EQ(loss_by(tester), std::pair(expected_, 1)) << "it stays there";
  };
  for (std::uint64_t n = 1; n <= all.calls; ++n) expect_host({.lost_gpu_at = n}, "the GPU is lost");
  for (std::uint64_t n = 1; n <= allocations_of_one_pass(); ++n)
    expect_host({.out_of_memory_at = n}, ", for ");
  for (std::uint64_t n = 1; n <= 2; ++n) expect_host({.pinned_out_of_memory_at = n}, ", for ");
  for (std::uint64_t n = 1; n <= all.kernels; ++n)
    expect_host({.launch_error_at = n}, "illegal memory access");
}

/// Memory that lacks for a pass over fewer samples is that of the pass over more.
TEST_F(GpuRunTester, StaysOnTheGpuIfItLacksMemoryForOneMorePass) {
  const std::uint64_t one = allocations_of_one_pass();
  set_up({});
  run_tester whole = on_gpu();
  loss_by(whole);
  const std::uint64_t all = simulated_gpu::count().allocations;
  ASSERT_LT(one, all);
  for (std::uint64_t n = one + 1; n <= all; ++n) {
    set_up({.out_of_memory_at = n});
    run_tester tester = on_gpu();
    for (const dataset* samples : {&data_->train, &data_->test, &data_->train}) {
      const auto [loss, tried] = loss_by(tester, *samples);
      EXPECT_NEAR(loss, on_host(*samples), 1e-5) << n;
      EXPECT_EQ(tried, 1) << n;
    }
    EXPECT_TRUE(tester.gpu()) << n;
  }
}

TEST_F(GpuRunTester, WritesOnTheGpuIfPassesHaveTheMemory) {
  const model_function gpt = *built_in_model("gpt:layers=1,width=16,heads=2");
  const auto data = testing::text();
  const model_request request = request_for(*data, 8);
  const parameter_layout layout = lay_out(gpt, request, 1);
  const std::vector<float> weights = testing::first_values(layout, 5);
  const text_sample_options o{.length = 8};
  const std::string expected = write_text(gpt, request, layout, weights, data->class_names, o);
  for (const bool keeps_passes : {false, true}) {
    set_up({});
    tested_model model(gpt, request, layout, device{device_kind::cuda, 0});
    model.use("test", weights);
    if (keeps_passes) evaluate(model, data->test);
    set_up({.out_of_memory_at = 1});
    if (keeps_passes)
      EXPECT_EQ(write_text(model, data->class_names, o), expected);
    else
      EXPECT_THAT([&] { write_text(model, data->class_names, o); },
                  ThrowsMessage<out_of_memory>(HasSubstr(", for the values of a text")));
  }
}

TEST_F(GpuRunTester, GivesTheMemoryOfTheGpuBack) {
  const std::size_t before = simulated_gpu::count().bytes_now;
  for (std::uint64_t n = 1; n < 6; ++n) {
    set_up({.out_of_memory_at = n});
    const std::size_t begun = simulated_gpu::count().bytes_now;
    run_tester tester = on_gpu();
    loss_by(tester);
    EXPECT_EQ(simulated_gpu::count().bytes_now, begun) << n;
  }
  EXPECT_EQ(before, simulated_gpu::count().bytes_now);
}

TEST_F(GpuRunTester, NamesTheOperationThatNoGpuComputes) {
  const model_function model = [](graph& g, const model_request& r) {
    model_outputs made = testing::small_model()(g, r);
    made.logits = g.apply_one(std::make_shared<hosts_own>(), {made.logits}, std::source_location::current());
    return made;
  };
  run_tester tester = on_gpu(model);
  EXPECT_EQ(loss_by(tester), std::pair(expected_, 2));
  EXPECT_THAT(tester.why_on_host(), AllOf(HasSubstr("note"), HasSubstr("has no kernel for a GPU")));
}

TEST_F(GpuRunTester, LetsOtherErrorsThrough) {
  run_tester tester = on_gpu();
  EXPECT_THROW(tester.try_with_model([](tested_model&) { throw std::out_of_range("a label"); }),
               std::out_of_range);
  EXPECT_TRUE(tester.gpu());
  run_tester here(testing::small_model(), request_, layout_, std::nullopt);
  EXPECT_THROW(here.try_with_model([](tested_model&) { throw graph_error("no such value"); }), graph_error);
  EXPECT_THAT(here.why_on_host(), IsEmpty());
}

/// Weights that lie on the GPU are read there, and only samples and results go over the bus.
TEST_F(GpuRunTester, TakesNoWeightsOverTheBus) {
  const auto queue = std::make_shared<cuda::gpu_queue>(0);
  const auto values = std::make_shared<memory>(queue->allocate(layout_->size() * sizeof(float)));
  queue->write(weights_, *values);
  const auto shard_of = [&](std::uint32_t s) {
    const shard_range range = layout_->shard(s);
    const auto part = std::make_shared<memory>(queue->allocate(range.size() * sizeof(float)));
    queue->write(std::span(weights_).subspan(range.begin, range.size()), *part);
    return snapshot(part, queue->record());
  };
  const std::vector<snapshot> shards{shard_of(0), shard_of(1)};
  run_tester tester = on_gpu();
  double loss = 0;
  const auto test = [&](tested_model& model) {
    for (std::uint32_t s = 0; s < 2; ++s) model.use(s, shards[s]);
    loss = evaluate(model, data_->test).loss;
  };
  tester.try_with_model(test); // which brings constants
  const simulated_gpu::counters before = simulated_gpu::count();
  ASSERT_TRUE(tester.try_with_model(test));
  const simulated_gpu::counters after = simulated_gpu::count();
  EXPECT_NEAR(loss, evaluate(testing::small_model(), request_, *layout_, weights_, data_->test).loss, 1e-5);
  const std::size_t samples = data_->test.size();
  const auto lines = [](std::size_t numbers) { return aligned(numbers * 4); };
  EXPECT_EQ(after.bytes_to_gpu - before.bytes_to_gpu,
            lines(samples * testing::small_features) + lines(samples));
  EXPECT_EQ(after.bytes_to_host - before.bytes_to_host,
            samples * testing::small_classes * 4 + 4 + sizeof(cuda::stream_status));
  EXPECT_EQ(after.bytes_on_gpu - before.bytes_on_gpu, layout_->size() * sizeof(float));
  EXPECT_EQ(after.allocations, before.allocations);
}

/// A shard may write there as soon as nobody holds the snapshot.
TEST_F(GpuRunTester, HasReadWeightsWhenItHasTakenThem) {
  const parameter_layout whole = lay_out(testing::small_model(), request_, 1);
  const std::vector<float> weights = testing::first_values(whole, 5);
  cuda::gpu_queue queue(0);
  const auto values = std::make_shared<memory>(queue.allocate(weights.size() * sizeof(float)));
  queue.write(weights, *values);
  tested_model model(testing::small_model(), request_, whole, device{device_kind::cuda, 0});
  model.use(std::uint32_t{0}, snapshot(values, queue.record()));
  queue.write(std::vector<float>(weights.size()), *values);
  queue.finish();
  EXPECT_NEAR(evaluate(model, data_->train).loss,
              evaluate(testing::small_model(), request_, whole, weights, data_->train).loss, 1e-5);
}

TEST_F(GpuRunTester, TakesEachShardOfTheHostInTurn) {
  const model_function bowl = find_model("quadratic:dimension=64");
  const parameter_layout halves = lay_out(bowl, request_, 2);
  ASSERT_EQ(halves.shard(0).size(), halves.shard(1).size());
  const std::vector<float> ones(halves.shard(0).size(), 1.0F), threes(ones.size(), 3.0F);
  tested_model model(bowl, request_, halves, device{device_kind::cuda, 0});
  model.use(std::uint32_t{0}, ones);
  model.use(std::uint32_t{1}, threes);
  std::vector<float> seen(halves.size());
  model.copy_weights(seen);
  EXPECT_EQ(seen.front(), 1.0F);
  EXPECT_EQ(seen.back(), 3.0F);
}

TEST_F(GpuRunTester, IsOnTheFirstGpuOfTheWeightsOrElseOfTheDevices) {
  training_options o;
  EXPECT_FALSE(gpu_for_tests(o));
  o.devices = {{device_kind::cpu, 0}, {device_kind::cuda, 1, 2}, {device_kind::cuda, 0}};
  EXPECT_EQ(gpu_for_tests(o), (device{device_kind::cuda, 1}));
  o.parameters = {{device_kind::cpu, 0}, {device_kind::cuda, 0}};
  EXPECT_EQ(gpu_for_tests(o), (device{device_kind::cuda, 0}));
  o.devices = {{device_kind::cpu, 0}};
  EXPECT_EQ(gpu_for_tests(o), (device{device_kind::cuda, 0}));
  o.elsewhere.emplace();
  EXPECT_FALSE(gpu_for_tests(o)) << "the workers are of other processes";
}

class GpuFinalTest : public ::testing::Test {
protected:
  void TearDown() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static run_plan plan() {
    return plan_run(*built_in_model("gpt:layers=1,width=16,heads=2"), testing::text(),
                    {.devices = {{device_kind::cuda, 0}}, .batch = 8, .text = {.length = 6, .seed = 3}});
  }
  /// Of weights on a GPU of which this call is the first that fails; 0: none.
  training_report tested(std::uint64_t lost_at, const std::function<bool()>& stop) const {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    if (lost_at > 0) s.fail.lost_gpu_at = lost_at;
    simulated_gpu::set_up(s);
    training_report r;
    r.ended = "completed";
    test_trained(r, plan_, weights_, stop);
    return r;
  }

  const run_plan plan_ = plan();
  const std::vector<float> weights_ = first_weights(*plan_.layout, plan_.options.seed);
};

TEST_F(GpuFinalTest, IsRepeatedOnTheHostForItselfAlone) {
  int passes = 0;
  const auto count = [&passes] { return ++passes < 0; };
  const training_report whole = tested(0, count);
  const std::uint64_t calls = simulated_gpu::count().calls;
  const int passes_of_one = std::exchange(passes, 0);
  EXPECT_EQ(whole.tested.value().device, "cuda:0");
  EXPECT_THAT(whole.tested->text_on_host, IsEmpty());
  int tests = 0, texts = 0;
  for (const std::uint64_t call : testing::spread_slice_of(calls)) {
    const std::uint64_t n = call + 1;
    passes = 0;
    const training_report r = tested(n, count);
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_NEAR(r.test_loss.value(), whole.test_loss.value(), 1e-5) << n;
    EXPECT_EQ(r.sample, whole.sample) << n;
    if (r.tested.value().device == "cpu:0") {
      ++tests;
      EXPECT_THAT(r.tested->why_on_host, Not(IsEmpty()));
      EXPECT_THAT(r.tested->text_on_host, IsEmpty()) << "the test says why";
    } else if (!r.tested->text_on_host.empty()) {
      ++texts;
      EXPECT_THAT(r.tested->why_on_host, IsEmpty());
      EXPECT_EQ(passes, passes_of_one) << "the test was not repeated";
    }
  }
  EXPECT_GT(tests, 0);
  EXPECT_GT(texts, 0);
}

/// The first try has found the loss of the samples held out, and the second is ended before it does.
TEST_F(GpuFinalTest, LeavesNoFiguresOfATryThatFailed) {
  const auto split = std::make_shared<data_split>(*testing::small_data());
  split->validation = testing::small_samples(24, 3);
  const run_plan plan =
      plan_run(testing::small_model(), split, {.devices = {{device_kind::cuda, 0}}, .batch = 8});
  int passes = 0;
  const auto fail_then_stop = [&passes] {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.fail.lost_gpu_at = 1;
    if (++passes == 2) simulated_gpu::set_up(s);
    return passes > 2;
  };
  simulated_gpu::set_up(simulated_gpu::default_settings());
  training_report r;
  r.ended = "completed";
  test_trained(r, plan, first_weights(*plan.layout, 1), fail_then_stop);
  EXPECT_EQ(passes, 3);
  EXPECT_EQ(r.why, "the test was ended early");
  EXPECT_FALSE(r.validation_loss || r.validation_accuracy || r.test_loss);
}

} // namespace
} // namespace mailgrad
