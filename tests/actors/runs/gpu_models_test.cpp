#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>

#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Models of other kinds, and such as span devices, in whole runs on streams of a GPU.

namespace mailgrad {
namespace {

using testing::all_on_gpu;
using testing::gpu_options;
using testing::GpuRuns;
using testing::options_for;
using testing::small_data;
using testing::small_model;

/// Two streams of the GPU, and the first stream beside a core.
TEST_F(GpuRuns, OfAModelThatSpansDevicesComeToTheWeightsOfOneProcessor) {
  const auto weights = [](const model_function& model, const training_options& o) {
    training run(model, small_data(), o);
    const training_report r = run.report();
    EXPECT_EQ(r.ended, "completed") << r.why;
    const auto found = run.parameters();
    return std::vector<float>(found.begin(), found.end());
  };
  const std::vector<float> here = weights(small_model(), options_for("async", 1));
  for (const model_function& model : {pipelined(small_model()), replicated(small_model())})
    for (const bool beside_a_core : {false, true})
      for (const bool weights_there : {false, true}) {
        training_options o = weights_there ? all_on_gpu("async", 2) : gpu_options("async", 2);
        if (beside_a_core) o.devices[1] = {device_kind::cpu, 0};
        o.workers = 1;
        o.micro_batches = 2;
        const std::vector<float> there = weights(model, o);
        ASSERT_EQ(there.size(), here.size());
        for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 2e-5) << i;
        EXPECT_EQ(weights(model, o), there) << "other bits in the second run";
      }
}

/// A model with the data that it learns from.
struct learning {
  const char* model;
  std::shared_ptr<const data_split> data;
};

const std::vector<learning>& other_models() {
  static const std::vector<learning> all{{"gpt:layers=1,width=16,heads=2,dropout=0.1", testing::text()},
                                         {"dlrm:width=4,bottom=6,top=8", testing::tastes()},
                                         {"softmax", testing::sparse_data()}};
  return all;
}

TEST_F(GpuRuns, OfTextTablesAndSparseSamplesComeToTheWeightsOfTheProcessors) {
  for (const learning& l : other_models()) {
    SCOPED_TRACE(l.model);
    const auto weights = [&](const training_options& o) {
      training run(*built_in_model(l.model), l.data, o);
      const training_report r = run.report();
      EXPECT_EQ(r.ended, "completed") << r.why;
      EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
      const auto found = run.parameters();
      return std::vector<float>(found.begin(), found.end());
    };
    for (const char* policy : {"sync", "async"}) {
      const std::uint32_t workers = std::string_view(policy) == "sync" ? 2 : 1;
      const std::vector<float> here = weights(options_for(policy, workers));
      for (const training_options& o : {gpu_options(policy, workers), all_on_gpu(policy, workers)}) {
        const std::vector<float> there = weights(o);
        ASSERT_EQ(there.size(), here.size());
        for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 2e-5) << i;
        EXPECT_EQ(weights(o), there) << "other bits in the second run";
      }
    }
  }
}

TEST_F(GpuRuns, OfTextTablesAndSparseSamplesGoWithEveryPolicyBesideACore) {
  for (const learning& l : other_models())
    for (const char* policy : {"hogwild", "ssp:2", "async, sync@6"}) {
      SCOPED_TRACE(std::string(l.model) + ", " + policy);
      training_options o = gpu_options(policy, 3);
      o.devices[1] = {device_kind::cpu, 0};
      const training_report r = train(*built_in_model(l.model), l.data, o);
      EXPECT_EQ(r.ended, "completed") << r.why;
      EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
      EXPECT_TRUE(std::isfinite(r.test_loss.value()));
    }
}

} // namespace
} // namespace mailgrad
