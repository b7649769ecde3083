#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/late_workers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LateWorkers : public testing::DeterministicTest {};

/// The coordinator asks as soon as it runs, when whoever spawned it may not have its handle yet.
TEST_F(LateWorkers, BelongToTheCoordinatorThatAsksForThem) {
  std::vector<caf::actor> coordinators;
  std::vector<rank> brought;
  const caf::actor late = start<late_workers>([&](rank worker, incarnation, const caf::actor& coordinator) {
    coordinators.push_back(coordinator);
    brought.push_back(worker);
    return std::vector<caf::actor>{};
  });
  const auto coordinator = ask<worker_lost>(late, bring_worker{{2}});
  EXPECT_THAT(brought, ElementsAre(rank{2}));
  EXPECT_THAT(coordinators, ElementsAre(coordinator.actor()));
}

TEST_F(LateWorkers, TellWhoAsksWhyAWorkerDoesNotCome) {
  const caf::actor late =
      start<late_workers>([](rank, incarnation, const caf::actor&) -> std::vector<caf::actor> {
        throw std::runtime_error("no memory");
      });
  auto coordinator = ask<worker_lost>(late, bring_worker{{1}, {2}});
  ASSERT_THAT(coordinator.heard<worker_lost>(), SizeIs(1));
  const worker_lost& lost = coordinator.heard<worker_lost>()[0];
  EXPECT_EQ(lost.worker, rank{1});
  EXPECT_EQ(lost.life, incarnation{2});
  EXPECT_THAT(lost.why, HasSubstr("no memory"));
}

TEST_F(LateWorkers, GiveUpTogether) {
  auto worker = listen<give_up>();
  const caf::actor late = start<late_workers>(
      [&](rank, incarnation, const caf::actor&) { return std::vector<caf::actor>{worker.actor()}; });
  ask<worker_lost>(late, bring_worker{{0}});
  EXPECT_THAT(worker.heard<give_up>(), IsEmpty());
  tell(late, give_up{});
  EXPECT_THAT(worker.heard<give_up>(), SizeIs(1));
}

} // namespace
} // namespace mailgrad
