#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/engine/plan/run_plan.hpp>

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> remarks_of(const std::string& policy, std::uint64_t local_steps = 0,
                                    std::uint64_t steps = 300) {
  training_options o;
  o.devices.assign(2, {device_kind::cpu, 0});
  o.batch = 8;
  o.steps = steps;
  o.policy = policy;
  o.local_steps = local_steps;
  return update_remarks(plan_run(testing::small_model(), testing::small_data(), o));
}

TEST(UpdateRemarks, NameAPolicyWhoseFirstUpdateIsNeverFull) {
  for (const std::string policy : {"malenia:", "rennala:", "k-batch-async:", "k-batch-sync:"}) {
    EXPECT_THAT(remarks_of(policy + "300"), IsEmpty());
    EXPECT_THAT(remarks_of(policy + "301"),
                ElementsAre("policy " + policy +
                            "301: an update is made of 301 gradients or more, and all under it, 300 at most, "
                            "are less, so they make one update, at its end"));
  }
}

TEST(UpdateRemarks, CountTheGradientsOfAPolicyAlone) {
  EXPECT_THAT(remarks_of("rennala:120, malenia:180@120"), IsEmpty());
  EXPECT_EQ(remarks_of("rennala:121, malenia:180@120").size(), 1U);
  EXPECT_EQ(remarks_of("async, malenia:181@120").size(), 1U);
}

/// The two workers push what is left over at the end, too.
TEST(UpdateRemarks, CountAGradientOfLocalStepsAndTheRestOfEachWorker) {
  EXPECT_THAT(remarks_of("rennala:62", 5), IsEmpty());
  EXPECT_EQ(remarks_of("rennala:63", 5).size(), 1U);
  EXPECT_THAT(remarks_of("rennala:63", 5, 301), IsEmpty()) << "the last one is of one step";
  EXPECT_THAT(remarks_of("async", 100, 50), IsEmpty()) << "there is an update for each worker";
  EXPECT_THAT(remarks_of("async, sync@3", 5), IsEmpty());
}

TEST(UpdateRemarks, AreNoneOfPoliciesThatGatherWorkers) {
  for (const char* policy :
       {"async", "sync", "backup:1", "k-async:2", "ringleader", "ringmaster:1000", "hogwild"})
    EXPECT_THAT(remarks_of(policy), IsEmpty()) << policy;
}

} // namespace
} // namespace mailgrad
