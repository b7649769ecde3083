#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/actors/runs/run_until_tested.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

// Tests of the weights and texts of whole runs on streams of a GPU, on threads: the simulated GPU, or a real
// one.

namespace mailgrad {
namespace {

using testing::gpu_options;
using ::testing::IsEmpty;
using testing::small_data;
using testing::small_model;

class GpuRunTests : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }

  static training_options with_tests(training_options o, bool weights_there) {
    if (weights_there) o.parameters = {{device_kind::cuda, 0}};
    o.evaluate_every = {.steps = 5};
    o.epochs = testing::endless_epochs;
    o.shards = 2;
    return o;
  }
  /// What the host finds of the weights of this run at its end.
  static evaluation on_host(const training& run, const model_function& model, const data_split& data,
                            std::span<const float> weights) {
    const model_request request = request_for(data, 8);
    return evaluate(model, request, run.layout(), weights, data.test);
  }
};

TEST_F(GpuRunTests, FindThereWhatTheHostFinds) {
  for (const bool weights_there : {false, true})
    for (const char* policy : {"async", "sync", "ssp:1"})
      for (const bool mixed : {false, true}) {
        SCOPED_TRACE(std::string(policy) + (weights_there ? ", weights there" : "") +
                     (mixed ? ", mixed" : ""));
        training_options o = with_tests(gpu_options(policy, 2), weights_there);
        if (mixed) o.devices[0] = {device_kind::cpu, 0};
        o.keep = mixed ? kept_weights::best : kept_weights::last;
        const auto data = small_data();
        training run(small_model(), data, o);
        const training_report r = testing::report_when_tested(run);
        EXPECT_EQ(r.ended, "stopped") << r.why;
        EXPECT_EQ(r.tested.value().device, "cuda:0");
        EXPECT_THAT(r.tested->why_on_host, IsEmpty());
        EXPECT_GE(r.evaluations.count, 3U);
        EXPECT_THAT(r.evaluations.why_on_host, IsEmpty());
        const evaluation expected = on_host(run, small_model(), *data, run.parameters());
        EXPECT_NEAR(r.test_loss.value(), expected.loss, 1e-5);
        EXPECT_EQ(r.test_accuracy, expected.accuracy);
        if (r.best) {
          EXPECT_NEAR(r.best->loss, expected.loss, 1e-5) << "its weights are those that were tested";
        }
      }
}

TEST_F(GpuRunTests, WriteTheTextThatTheHostWrites) {
  for (const bool weights_there : {false, true}) {
    training_options o = with_tests(gpu_options("async", 1), weights_there);
    o.text = {.length = 40, .seed = 7};
    const model_function model = *built_in_model("gpt:layers=1,width=16,heads=2,dropout=0.1");
    const auto data = testing::text();
    training run(model, data, o);
    const training_report r = testing::report_when_tested(run);
    EXPECT_EQ(r.ended, "stopped") << r.why;
    EXPECT_EQ(r.tested.value().device, "cuda:0");
    EXPECT_EQ(r.sample, write_text(model, request_for(*data, 8), run.layout(), run.parameters(),
                                   data->class_names, o.text));
  }
}

/// Of tables, whose rows a test gathers.
TEST_F(GpuRunTests, OfTablesFindThereWhatTheHostFinds) {
  for (const bool weights_there : {false, true}) {
    const model_function model = *built_in_model("dlrm:width=4,bottom=6,top=8");
    const auto data = testing::tastes();
    training run(model, data, with_tests(gpu_options("async", 2), weights_there));
    const training_report r = testing::report_when_tested(run);
    EXPECT_EQ(r.ended, "stopped") << r.why;
    EXPECT_EQ(r.tested.value().device, "cuda:0");
    EXPECT_GE(r.evaluations.count, 3U);
    EXPECT_THAT(r.evaluations.why_on_host, IsEmpty());
    EXPECT_NEAR(r.test_loss.value(), on_host(run, model, *data, run.parameters()).loss, 1e-5);
  }
}

#ifndef __SANITIZE_THREAD__ // whose reports of hogwild's race would be right
/// With the label of another class at each test sample.
std::shared_ptr<const data_split> mislabelled(const std::shared_ptr<const data_split>& data) {
  data_split other = *data;
  std::vector<std::int32_t> labels(data->test.labels().begin(), data->test.labels().end());
  for (std::int32_t& label : labels) label = (label + 1) % static_cast<std::int32_t>(testing::small_classes);
  other.test = dataset(data->test.features(), std::move(labels), testing::small_classes);
  return std::make_shared<const data_split>(std::move(other));
}

/// Training for the labels of the others raises the loss of the tests, so the last weights are never the
/// best.
TEST_F(GpuRunTests, OfHogwildReadTheBlockThere) {
  for (const bool weights_there : {false, true}) {
    SCOPED_TRACE(weights_there ? "weights there" : "weights on the host");
    const auto data = mislabelled(small_data(200));
    training_options o = with_tests(gpu_options("hogwild", 2), weights_there);
    o.keep = kept_weights::best;
    o.optimizer = parse_optimizer("momentum");
    o.optimizer.learning_rate = 0.05;
    o.evaluate_every = {.steps = 1};
    training run(small_model(), data, o);
    const training_report r = testing::report_when_tested(run);
    EXPECT_EQ(r.ended, "stopped") << r.why;
    EXPECT_GE(r.evaluations.count, 3U);
    EXPECT_THAT(r.evaluations.why_on_host, IsEmpty());
    EXPECT_EQ(r.tested.value().device, "cuda:0");
    const evaluation expected = on_host(run, small_model(), *data, run.parameters());
    EXPECT_NEAR(r.test_loss.value(), expected.loss, 1e-5);
    EXPECT_NEAR(r.best.value().loss, expected.loss, 1e-5) << "its weights are those that were tested";
  }
}
#endif

TEST_F(GpuRunTests, OfCoresAreMadeOnTheHost) {
  const training_report r = testing::trained(testing::options_for("async", 2));
  EXPECT_EQ(r.tested.value().device, "cpu:0");
  EXPECT_THAT(r.tested->why_on_host, IsEmpty());
}

} // namespace
} // namespace mailgrad
