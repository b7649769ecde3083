#include <mailgrad/demos/custom_cure.hpp>
#include <mailgrad/demos/custom_policy.hpp>
#include <mailgrad/tests/actors/runs/gpu_cases.hpp>
#include <mailgrad/tests/support/words_of_forms.hpp>

#include <mailgrad/optim/cures/cure_spec.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Recordings of whole runs, on processors and on the simulated GPU, that are repeated on the GPU.

namespace mailgrad {
namespace {

using testing::assembly;
using testing::assembly_of;
using testing::drawn_order;
using testing::gpu_case;
using testing::GpuSteps;
using testing::name_of;
using testing::orders_on_gpu;
using testing::placed;
using testing::with_every_policy;

constexpr std::uint64_t replay_orders = 4; // scripts/endurance tries 140

/// How far a weight may be from that of the processors. Where a rule divides by the root of its squares, a
/// gradient that is almost 0 moves a weight as far as a large one, and so does what it was rounded by.
double bound_of(const gpu_case& c) { return std::string_view(c.cure) == "cgad" ? 1e-3 : 1e-5; }

/// A run on processors is recorded, and repeated on the GPU.
class RecordedOnProcessors : public GpuSteps {};

TEST_P(RecordedOnProcessors, HasTheSameStalenessOnTheGpu) {
  for (const drawn_order& order : orders_on_gpu(replay_orders)) {
    assembly a = assembly_of(GetParam());
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    a.replayed = std::make_shared<const recording>(was->order);
    const auto is = finish_on_gpu(order.seed() + 1,
                                  [&](const auto& watch) { return placed(GetParam(), a, data_, watch); });
    ASSERT_TRUE(is);
    EXPECT_EQ(was->report.ledger, is->report.ledger);
    EXPECT_EQ(was->report.samples, is->report.samples);
    EXPECT_EQ(was->report.weight_gap.count(), is->report.weight_gap.count());
    EXPECT_NEAR(was->report.weight_gap.mean(), is->report.weight_gap.mean(), 1e-6);
    EXPECT_EQ(was->report.gradient_cosine.count(), is->report.gradient_cosine.count());
    EXPECT_NEAR(was->report.gradient_cosine.mean(), is->report.gradient_cosine.mean(), 1e-4);
    for (std::size_t s = 0; s < was->outcome.shards.size(); ++s)
      for (std::size_t w = 0; w < was->outcome.shards[s].workers.size(); ++w)
        EXPECT_EQ(was->outcome.shards[s].workers[w].gaps.buckets(),
                  is->outcome.shards[s].workers[w].gaps.buckets());
    ASSERT_EQ(was->weights.size(), is->weights.size());
    for (std::size_t i = 0; i < was->weights.size(); ++i)
      EXPECT_NEAR(was->weights[i], is->weights[i], bound_of(GetParam())) << i;
  }
}

TEST_P(RecordedOnProcessors, OrOnTheGpuIsRepeatedThereBitForBit) {
  for (const drawn_order& order : orders_on_gpu(replay_orders)) {
    expect_repeated(order.seed(), assembly_of(GetParam()), [&](const assembly& a, const auto& watch) {
      return placed(GetParam(), a, data_, watch);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(EveryWayOfAGradient, RecordedOnProcessors,
                         ::testing::Values(gpu_case{"async", 2}, gpu_case{"async", 0, 0, "none", true, 0.5},
                                           gpu_case{"async", 0, 0, "none", true, 0, 0},
                                           gpu_case{"async", 2, 0, "none", true},
                                           gpu_case{"async", 2, 0, "none", true, 0.5},
                                           gpu_case{"async", 2, 0, "easgd", true, 0, 0},
                                           gpu_case{"async", 0, 2, "none", true},
                                           gpu_case{"async", 0, 0, "none", true, 0, 1, true},
                                           gpu_case{"ssp:1", 0, 0, "dc-asgd-a", true, 0, 1, true}),
                         name_of);

/// A cure and policies as users write them. Such a cure keeps the weights on the host.
std::vector<gpu_case> with_custom_parts() {
  static const std::string cure = custom_cure<fading>("0.5"), policy = custom_policy<fair_turns>("1");
  return {{"async", 0, 0, cure.c_str()}, {policy.c_str()}, {policy.c_str(), 0, 0, "none", true}};
}

INSTANTIATE_TEST_SUITE_P(CustomParts, RecordedOnProcessors, ::testing::ValuesIn(with_custom_parts()),
                         name_of);

INSTANTIATE_TEST_SUITE_P(EveryPolicy, RecordedOnProcessors, ::testing::ValuesIn(with_every_policy()),
                         name_of);

std::vector<gpu_case> with_every_cure() {
  static const std::vector<std::string> cures = testing::words_of_forms(cure_forms());
  std::vector<gpu_case> all;
  for (const std::string& cure : cures)
    for (const bool there : {false, true}) {
      if (there && cure == "heloco") continue; // it looks at whole variables on the host
      const bool local = cure == "easgd" || cure == "cgad" || cure == "mla" || cure == "heloco";
      all.push_back({"async", local ? 2U : 0U, 0, cure.c_str(), there});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryCure, RecordedOnProcessors, ::testing::ValuesIn(with_every_cure()), name_of);

} // namespace
} // namespace mailgrad
