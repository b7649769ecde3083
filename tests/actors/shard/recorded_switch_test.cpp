#include <mailgrad/tests/actors/shard/parameter_actor_fixture.hpp>

#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

// What a shard notes, and repeats, of workers that come or go while the policy switches.

namespace mailgrad {
namespace {

using ::testing::SizeIs;
using kind = order_entry::kind;

/// A shard whose turns are recorded.
class RecordedSwitch : public testing::ParameterActor {
protected:
  RecordedSwitch() { recorder_ = noted_.actor(); }

  /// The run of two workers that were dealt no batch; the second was lost.
  static recording run_with(std::vector<order_entry> turns,
                            const std::vector<std::uint8_t>& present = {1, 1}) {
    recording r;
    r.name = "x.rec";
    r.header.workers = 2;
    r.batches = {{}, {}};
    r.turns = {std::move(turns)};
    r.end.ended = "completed";
    r.end.switches = {{"sync", "by hand", {0, 0}, present}};
    r.end.lost = {1};
    return r;
  }
  /// All that the shard has noted.
  std::vector<order_entry> turns() {
    report();
    std::vector<order_entry> all;
    for (const order_noted& n : noted_.heard<order_noted>())
      all.insert(all.end(), n.turns.begin(), n.turns.end());
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
  EXPECT_THAT(weights_of(1), SizeIs(1)) << "there is no turn for it to wait for";
  switch_to_sync({1, 1});
  ASSERT_THAT(weights_of(1), SizeIs(2)) << "nor is there after the switch";
  EXPECT_EQ(weights_of(1)[1].header.epoch.value, 1U);
}

/// This shard hears of a loss before the coordinator does.
TEST_F(RecordedSwitch, CanBeRepeatedThoughTheCoordinatorTakesALostWorkerForPresent) {
  serve("async", 2);
  tell(shard_, worker_left{{1}});
  switch_to_sync({1, 1});
  tell(shard_, worker_left{{0}});
  EXPECT_NO_THROW(require_repeatable(run_with(turns())));
}

} // namespace
} // namespace mailgrad
