#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <span>
#include <stdexcept>

namespace mailgrad {
namespace {

using mailgrad::testing::only;
using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs;

class JoiningWorkers : public testing::DeterministicTest {
protected:
  /// Notes what it is asked, and brings nobody.
  joining_workers::spawner noting() {
    return [this](rank worker, incarnation_number, const caf::actor& coordinator) {
      brought_.push_back(worker);
      coordinators_.push_back(coordinator);
      return std::vector<caf::actor>{};
    };
  }
  caf::actor start_going(joining_workers::spawner spawn) {
    const caf::actor late = start<joining_workers>(std::move(spawn));
    tell(late, go_on{});
    return late;
  }

  std::vector<rank> brought_;
  std::vector<caf::actor> coordinators_;
};

/// Its spawner may be refused until then, and must be there when somebody is brought.
TEST_F(JoiningWorkers, BringNobodyBeforeTheyAreToldToGoOn) {
  const caf::actor late = start<joining_workers>(noting());
  const auto early = ask<worker_lost>(late, bring_worker{{2}});
  const auto second = ask<worker_lost>(late, bring_worker{{1}});
  EXPECT_THAT(brought_, IsEmpty());
  tell(late, go_on{});
  EXPECT_THAT(brought_, ElementsAre(rank{2}, rank{1})) << "those who were asked for before";
  const auto later = ask<worker_lost>(late, bring_worker{{3}});
  EXPECT_THAT(brought_, SizeIs(3));
}

TEST_F(JoiningWorkers, BringNobodyOfARunThatIsRefused) {
  const caf::actor late = start<joining_workers>(noting());
  const auto coordinator = ask<worker_lost>(late, bring_worker{{2}});
  tell(late, give_up{});
  tell(late, go_on{});
  EXPECT_THAT(brought_, IsEmpty());
}

/// The coordinator asks as soon as it runs, when whoever spawned it may not have its handle yet.
TEST_F(JoiningWorkers, BelongToTheCoordinatorThatAsksForThem) {
  const auto coordinator = ask<worker_lost>(start_going(noting()), bring_worker{{2}});
  EXPECT_THAT(brought_, ElementsAre(rank{2}));
  EXPECT_THAT(coordinators_, ElementsAre(coordinator.actor()));
}

TEST_F(JoiningWorkers, TellWhoAsksWhyAWorkerDoesNotCome) {
  const caf::actor late =
      start_going([](rank, incarnation_number, const caf::actor&) -> std::vector<caf::actor> {
        throw std::runtime_error("no memory");
      });
  auto coordinator = ask<worker_lost>(late, bring_worker{{1}, {2}});
  const worker_lost& lost = only(coordinator.heard<worker_lost>());
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
  /// The recorded run is one that a fourth worker joined.
  void SetUp() override {
    again_.slots = 4;
    testing::drawn_order order(1);
    const auto was = finish(again_, order, [](testing::assembled_run& run) { run.add_worker(3, 0); });
    again_.replayed = std::make_shared<const recording>(was.order);
  }
  run_crew_options crew_options() {
    run_crew_options o{time_};
    o.coordinator_has_thread = false;
    o.runner = [this](rank worker, std::shared_ptr<step_runner> own) {
      prepared_.push_back(worker.value);
      return own;
    };
    return o;
  }

  testing::assembly again_;
  std::vector<std::uint32_t> prepared_;
};

/// The coordinator asks for it while the others are prepared. The crew is gone when the refusal is known.
TEST_F(RefusedReplays, NeverPrepareAJoiningWorker) {
  run_crew_options o = crew_options();
  o.on_prepared = [this](std::span<const caf::actor>) {
    system_.run();
    throw std::runtime_error("the disk is full");
  };
  EXPECT_THROW(run_crew(system_.actors(), testing::plan_of(again_, data_), std::move(o)), std::runtime_error);
  system_.run();
  EXPECT_THAT(prepared_, ElementsAre(0, 1, 2));
}

TEST_F(RefusedReplays, ThatAreNotRefusedPrepareItWhenTheyHaveBegun) {
  run_crew_options o = crew_options();
  bool ended = false;
  o.on_end = [&](const run_outcome& outcome) {
    ended = true;
    EXPECT_EQ(outcome.how, run_outcome::ending::completed) << outcome.why;
  };
  o.on_prepared = [this](std::span<const caf::actor>) { system_.run(); };
  run_crew crew(system_.actors(), testing::plan_of(again_, data_), std::move(o));
  system_.run();
  EXPECT_THAT(prepared_, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(ended);
  crew.give_up();
  system_.run();
}

} // namespace
} // namespace mailgrad
