#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <gmock/gmock.h>

#include <algorithm>

namespace mailgrad {
namespace {

using namespace ::testing;

/// Writes down what the machine has done.
class noted_side final : public policy_machine::side {
public:
  version_number version() const override { return version_; }
  bool nothing_waits() const override { return waiting + deferred == 0; }
  bool is_updating() const override { return updating; }
  bool update(waits_in where, std::size_t first) override {
    const std::size_t taken = where == waits_in::queue ? std::min(waiting, first) : waiting;
    done.push_back("update of " + std::to_string(taken));
    waiting -= taken;
    ++version_;
    updating = has_helpers;
    return !has_helpers;
  }
  void update_of_nothing() override {
    done.push_back("update of nothing");
    ++version_;
  }
  void add_lost(waits_in where) override {
    if (where != waits_in::batch) add(where);
  }
  void begin_round(std::uint64_t over) override {
    if (rounds_ < over) done.push_back("round " + std::to_string(over));
    for (; rounds_ < over; ++rounds_) turn_over();
  }
  void skip_to_waiting() override {
    if (waiting == 0) turn_over();
  }
  void clear_rounds() override { rounds_ = 0; }

  void add(waits_in where) { ++(where == waits_in::next_round ? deferred : waiting); }

  std::vector<std::string> done;
  std::size_t waiting = 0, deferred = 0;
  bool has_helpers = false, updating = false;

private:
  void turn_over() { waiting = std::exchange(deferred, 0); }

  version_number version_;
  std::uint64_t rounds_ = 0;
};

class PolicyMachine : public ::testing::Test {
protected:
  void begin(const std::string& policy, std::uint32_t workers) {
    machine_.begin(make_policy(policy, workers));
    for (std::uint32_t r = 0; r < workers; ++r) machine_.rule().join({r});
  }
  verdict judge(std::uint32_t worker, std::uint64_t step) {
    return machine_.judge({order_entry::kind::gradient, {worker}, {step}}, side_.version()).what;
  }
  void take(std::uint32_t worker, std::uint64_t step) {
    const verdict what = judge(worker, step);
    if (what == verdict::merge || what == verdict::defer) side_.add(machine_.place(what));
    if (what == verdict::merge) machine_.update_if_due();
  }

  noted_side side_;
  policy_machine machine_{side_, make_policy("async", 1)};
};

TEST_F(PolicyMachine, HasAnUpdateMadeOfACompleteBatch) {
  begin("sync", 2);
  EXPECT_EQ(machine_.place(), waits_in::batch);
  take(0, 1);
  EXPECT_THAT(side_.done, IsEmpty());
  EXPECT_FALSE(machine_.may_start({0}));
  take(1, 1);
  EXPECT_THAT(side_.done, ElementsAre("update of 2"));
  EXPECT_TRUE(machine_.may_start({0}));
  EXPECT_TRUE(machine_.renews({0}));
}

TEST_F(PolicyMachine, HasAsManyUpdatesMadeOfAQueueAsAreDue) {
  begin("queue:2,3", 3);
  EXPECT_EQ(machine_.place(), waits_in::queue);
  for (std::uint32_t r = 0; r < 3; ++r) take(r, 1);
  for (std::uint32_t r = 0; r < 3; ++r) {
    EXPECT_THAT(side_.done, IsEmpty()) << "a fourth may come";
    machine_.leave({r});
  }
  EXPECT_THAT(side_.done, ElementsAre("update of 2", "update of 1"));
}

TEST_F(PolicyMachine, WaitsForAnUpdateThatIsUnderWay) {
  begin("sync", 1);
  side_.has_helpers = true;
  take(0, 1);
  EXPECT_FALSE(machine_.may_start({0})) << "the version is not made yet";
  machine_.update_if_due();
  EXPECT_THAT(side_.done, ElementsAre("update of 1"));
  side_.updating = false;
  machine_.updated();
  EXPECT_TRUE(machine_.may_start({0}));
}

/// Of a batch, where it has no place, or applied alone, where it makes a version of nothing.
TEST_F(PolicyMachine, CountsALostGradientAndClosesABatchThatOthersCouldFill) {
  begin("sync", 2);
  take(0, 1);
  machine_.take_lost(judge(1, 1));
  EXPECT_THAT(side_.done, ElementsAre("update of 1"));
  begin("async", 1);
  machine_.take_lost(judge(0, 1));
  EXPECT_THAT(side_.done, ElementsAre("update of 1", "update of nothing"));
  begin("quorum:1,grace=1", 2);
  take(0, 1);
  EXPECT_THAT(side_.done, SizeIs(2));
  machine_.close();
  EXPECT_EQ(side_.done.back(), "update of 1");
  EXPECT_THAT(side_.done, SizeIs(3));
}

TEST_F(PolicyMachine, LeavesNothingBehindOfAPolicyThatEnds) {
  begin("ringleader", 2);
  EXPECT_EQ(machine_.place(), waits_in::round);
  EXPECT_EQ(machine_.place(verdict::defer), waits_in::next_round);
  take(0, 1);
  side_.add(waits_in::next_round);
  machine_.finish();
  EXPECT_TRUE(side_.nothing_waits());
}

} // namespace
} // namespace mailgrad
