#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/cures/custom_cure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

// What a shard notes, and repeats, of workers that come or go while the policy switches.

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;
using kind = order_entry::kind;

/// A cure that counts the workers that send no more.
class leave_count final : public cure {
public:
  static constexpr std::string_view cure_name = "leave-count";
  leave_count(std::span<const double>, const cure_site&) { left = applied_before = 0; }
  std::string_view name() const noexcept override { return cure_name; }
  bool compensates() const noexcept override { return true; }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    for (std::size_t i = 0; i < applied.size(); ++i) applied[i] = g.scale * g.values[i];
    applied_before += left == 0 ? 1 : 0;
  }
  void leave(rank) override { ++left; }

  static inline int left = 0;
  static inline int applied_before = 0; ///< gradients, before any worker left
};

/// A shard whose order is recorded.
class RecordedSwitch : public testing::ParameterActor {
protected:
  RecordedSwitch() { recorder_ = noted_.actor(); }

  /// The run of two workers that were dealt no batch; the second was lost.
  static recording run_with(std::vector<order_entry> entries,
                            const std::vector<std::uint8_t>& present = {1, 1}) {
    recording r;
    r.name = "x.rec";
    r.header.workers = 2;
    r.batches = {{}, {}};
    r.entries = {std::move(entries)};
    r.end.ended = "completed";
    r.end.switches = {{"sync", "by hand", {0, 0}, present}};
    r.end.lost = {1};
    return r;
  }
  /// All that the shard has noted.
  std::vector<order_entry> entries() {
    report();
    std::vector<order_entry> all;
    for (const order_noted& n : noted_.heard<order_noted>())
      all.insert(all.end(), n.entries.begin(), n.entries.end());
    return all;
  }
  void switch_to_sync(std::vector<std::uint8_t> present) {
    tell(shard_, switch_policy{{1}, "sync", {{0}, {0}}, std::move(present)});
  }

  testing::listener<order_noted> noted_ = listen<order_noted>();
};

/// In the recorded run worker 1 was paused before its joining came to this shard, and lost during the switch.
TEST_F(RecordedSwitch, SendsHomeAtItsTurnWhoNeverJoinedBefore) {
  replayed_ = std::make_shared<const recording>(
      run_with({{kind::joined, {0}}, {kind::switched, {}}, {kind::left, {1}}}));
  serve("async", 2);
  EXPECT_THAT(weights_of(1), SizeIs(1)) << "there is no entry for it to wait for";
  switch_to_sync({1, 1});
  ASSERT_THAT(weights_of(1), SizeIs(2)) << "nor is there after the switch";
  EXPECT_EQ(weights_of(1)[1].header.epoch.value, 1U);
}

/// In the recorded run this shard never had the gradient. Here it comes, and its worker leaves before the
/// entry.
TEST_F(RecordedSwitch, SendsNobodyHomeWhoHasComeBackAsAnotherSince) {
  recording r = run_with(
      {{kind::joined, {0}}, {kind::joined, {1}}, {kind::gradient, {0}, {1}}, {kind::missed, {1}, {1}}});
  r.end.switches.clear();
  replayed_ = std::make_shared<const recording>(std::move(r));
  serve("async", 2);
  push(1, 1, 0);
  auto next = listen<shard_weights>();
  tell(shard_, join_shard{{1}, {1}, next.actor()});
  push(0, 1, 0);
  EXPECT_EQ(report().version.value, 2U) << "also of the place of the gradient that was missed";
  EXPECT_THAT(weights_of(1), SizeIs(1));
  EXPECT_THAT(next.heard<shard_weights>(), SizeIs(0)) << "its turn to join has not come";
}

/// This shard hears of a loss before the coordinator does.
TEST_F(RecordedSwitch, CanBeRepeatedThoughTheCoordinatorTakesALostWorkerForPresent) {
  serve("async", 2);
  tell(shard_, worker_left{{1}});
  switch_to_sync({1, 1});
  tell(shard_, worker_left{{0}});
  EXPECT_NO_THROW(require_repeatable(run_with(entries())));
}

/// The gradients of a batch may be its own.
TEST_F(RecordedSwitch, ForgetsNobodyBeforeTheBatchIsAppliedThatItsEndCompletes) {
  serve("sync", 3, custom_cure<leave_count>());
  push(0, 1, 0);
  push(1, 1, 0);
  EXPECT_EQ(leave_count::applied_before, 0) << "the batch waits for worker 2";
  tell(shard_, worker_left{{2}});
  EXPECT_THAT(weights_of(0), SizeIs(2));
  EXPECT_EQ(leave_count::left, 1);
  EXPECT_EQ(leave_count::applied_before, 2);
}

/// The coordinator knows that it has ended, and its own word is still on its way to this shard.
TEST_F(RecordedSwitch, LetsGoBeforeItWhoTakesNoPartAndHasNotSaidThatItLeaves) {
  serve("async", 2, custom_cure<leave_count>());
  switch_to_sync({1, 0});
  EXPECT_EQ(leave_count::left, 1);
  tell(shard_, worker_left{{1}});
  EXPECT_EQ(leave_count::left, 1) << "it leaves once";
  tell(shard_, worker_left{{0}});
  const std::vector<order_entry> noted = entries();
  EXPECT_THAT(noted,
              ElementsAre(Field(&order_entry::what, kind::joined), Field(&order_entry::what, kind::joined),
                          Field(&order_entry::what, kind::left), Field(&order_entry::what, kind::switched),
                          Field(&order_entry::what, kind::left)));
  recording r = run_with(noted, {1, 0});
  r.end.lost.clear();
  EXPECT_NO_THROW(require_repeatable(r));
}

} // namespace
} // namespace mailgrad
