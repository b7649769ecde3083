#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/run_crew.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JoiningWorkers : public testing::DeterministicTest {
protected:
  /// One that is told at once to go on.
  caf::actor start_going(joining_workers::spawner spawn) {
    const caf::actor late = start<joining_workers>(std::move(spawn));
    tell(late, go_on{});
    return late;
  }
};

/// Its spawner may be refused until then, and must be there when somebody is brought.
TEST_F(JoiningWorkers, BringNobodyBeforeTheyAreToldToGoOn) {
  std::vector<rank> brought;
  const caf::actor late = start<joining_workers>([&](rank worker, incarnation_number, const caf::actor&) {
    brought.push_back(worker);
    return std::vector<caf::actor>{};
  });
  const auto early = ask<worker_lost>(late, bring_worker{{2}});
  const auto second = ask<worker_lost>(late, bring_worker{{1}});
  EXPECT_THAT(brought, IsEmpty());
  tell(late, go_on{});
  EXPECT_THAT(brought, ElementsAre(rank{2}, rank{1})) << "those who were asked for before";
  const auto later = ask<worker_lost>(late, bring_worker{{3}});
  EXPECT_THAT(brought, SizeIs(3));
}

TEST_F(JoiningWorkers, BringNobodyOfARunThatIsRefused) {
  std::size_t brought = 0;
  const caf::actor late = start<joining_workers>([&](rank, incarnation_number, const caf::actor&) {
    ++brought;
    return std::vector<caf::actor>{};
  });
  const auto coordinator = ask<worker_lost>(late, bring_worker{{2}});
  tell(late, give_up{});
  tell(late, go_on{});
  EXPECT_EQ(brought, 0U);
}

/// The coordinator asks as soon as it runs, when whoever spawned it may not have its handle yet.
TEST_F(JoiningWorkers, BelongToTheCoordinatorThatAsksForThem) {
  std::vector<caf::actor> coordinators;
  std::vector<rank> brought;
  const caf::actor late = start_going([&](rank worker, incarnation_number, const caf::actor& coordinator) {
    coordinators.push_back(coordinator);
    brought.push_back(worker);
    return std::vector<caf::actor>{};
  });
  const auto coordinator = ask<worker_lost>(late, bring_worker{{2}});
  EXPECT_THAT(brought, ElementsAre(rank{2}));
  EXPECT_THAT(coordinators, ElementsAre(coordinator.actor()));
}

TEST_F(JoiningWorkers, TellWhoAsksWhyAWorkerDoesNotCome) {
  const caf::actor late =
      start_going([](rank, incarnation_number, const caf::actor&) -> std::vector<caf::actor> {
        throw std::runtime_error("no memory");
      });
  auto coordinator = ask<worker_lost>(late, bring_worker{{1}, {2}});
  ASSERT_THAT(coordinator.heard<worker_lost>(), SizeIs(1));
  const worker_lost& lost = coordinator.heard<worker_lost>()[0];
  EXPECT_EQ(lost.worker, rank{1});
  EXPECT_EQ(lost.incarnation, incarnation_number{2});
  EXPECT_THAT(lost.why, HasSubstr("no memory"));
}

TEST_F(JoiningWorkers, GiveUpTogether) {
  auto worker = listen<give_up>();
  const caf::actor late = start_going(
      [&](rank, incarnation_number, const caf::actor&) { return std::vector<caf::actor>{worker.actor()}; });
  ask<worker_lost>(late, bring_worker{{0}});
  EXPECT_THAT(worker.heard<give_up>(), IsEmpty());
  tell(late, give_up{});
  EXPECT_THAT(worker.heard<give_up>(), SizeIs(1));
}

class RefusedReplays : public testing::RecordedRun {
protected:
  /// A run that a fourth worker joined.
  testing::assembly replay_with_a_joining_worker() {
    testing::assembly a;
    a.slots = 4;
    testing::drawn_order order(1);
    const auto was = finish(a, order, [](testing::assembled_run& run) { run.add_worker(3, 0); });
    a.replayed = std::make_shared<const recording>(was.order);
    return a;
  }
  run_crew_options crew_options(std::vector<std::uint32_t>& prepared) const {
    run_crew_options o{time_};
    o.coordinator_has_thread = false;
    o.runner = [&prepared](rank worker, std::shared_ptr<step_runner> own) {
      prepared.push_back(worker.value);
      return own;
    };
    return o;
  }
};

/// The coordinator asks for it while the others are prepared. The crew is gone when the refusal is known.
TEST_F(RefusedReplays, NeverPrepareAJoiningWorker) {
  const testing::assembly a = replay_with_a_joining_worker();
  ASSERT_TRUE(a.replayed);
  std::vector<std::uint32_t> prepared;
  run_crew_options o = crew_options(prepared);
  o.on_prepared = [this](std::span<const caf::actor>) {
    system_.run();
    throw std::runtime_error("the disk is full");
  };
  EXPECT_THROW(run_crew(system_.actors(), testing::plan_of(a, data_), std::move(o)), std::runtime_error);
  system_.run();
  EXPECT_THAT(prepared, ElementsAre(0, 1, 2));
}

TEST_F(RefusedReplays, ThatAreNotRefusedPrepareItWhenTheyHaveBegun) {
  const testing::assembly a = replay_with_a_joining_worker();
  ASSERT_TRUE(a.replayed);
  std::vector<std::uint32_t> prepared;
  run_crew_options o = crew_options(prepared);
  bool ended = false;
  o.on_end = [&](const run_outcome& outcome) {
    ended = true;
    EXPECT_EQ(outcome.how, run_outcome::ending::completed) << outcome.why;
  };
  o.on_prepared = [this](std::span<const caf::actor>) { system_.run(); };
  run_crew crew(system_.actors(), testing::plan_of(a, data_), std::move(o));
  system_.run();
  EXPECT_THAT(prepared, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(ended);
  crew.give_up();
  system_.run();
}

} // namespace
} // namespace mailgrad
