#include <mailgrad/engine/record/rehearsal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

// What a rehearsal knows of workers that were lost, came late or came back.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using kind = order_entry::kind;

order_entry joins(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::joined, {worker}, {incarnation});
}
order_entry leaves(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return order_entry::of(kind::left, {worker}, {incarnation});
}
order_entry takes(std::uint32_t worker, std::uint64_t step) { return {kind::gradient, {worker}, {step}}; }

/// Two workers on two shards. Worker 1 is lost after its first step, comes back, and makes one more.
recording one_that_returned() {
  recording r;
  r.name = "x.rec";
  r.header.workers = 2;
  r.header.shards = 2;
  r.batches = {{0, 2}, {1, 3}};
  r.incarnations = {{}, {{{0}, 0, true}, {{1}, 1, false}}};
  r.entries = std::vector(2, std::vector<order_entry>{joins(0), joins(1), takes(0, 1), takes(1, 1), leaves(1),
                                                      joins(1, 1), takes(0, 2), takes(1, 1), leaves(0),
                                                      leaves(1, 1)});
  r.end.ended = "completed";
  return r;
}

/// Why it is refused under `policy`, after `change`; empty if it is not.
std::string refused_losses(const std::string& policy, const std::function<void(recording&)>& change = {}) {
  recording r = one_that_returned();
  if (change) change(r);
  try {
    require_repeatable(r);
    require_replay_ends(r, {policy});
  } catch (const recording_error& e) {
    return e.what();
  }
  return "";
}

TEST(RehearsedLosses, ComeToTheirEnd) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-async:2"})
    EXPECT_EQ(refused_losses(policy), "") << policy;
}

TEST(RehearsedLosses, EndAWorkerWhoseLastGradientOneShardNeverHad) {
  EXPECT_EQ(refused_losses("async", [](recording& r) { r.entries[1].erase(r.entries[1].begin() + 3); }), "");
}

TEST(RehearsedLosses, EndAWorkerThatOneShardNeverHeardOf) {
  EXPECT_EQ(refused_losses("async",
                           [](recording& r) {
                             r.entries[1].erase(r.entries[1].begin() + 3);
                             r.entries[1].erase(r.entries[1].begin() + 1);
                           }),
            "");
}

/// A batch that this shard shares with the others goes on without the gradient.
TEST(RehearsedLosses, LeaveAPlaceInTheBatchEmpty) {
  EXPECT_EQ(refused_losses("sync", [](recording& r) { r.entries[1][3].what = kind::missed; }), "");
}

TEST(RehearsedLosses, GiveASlotToALateWorker) {
  const auto late = [](recording& r) {
    r.header.slots = 3;
    r.batches.push_back({4});
    r.incarnations.push_back({{{0}, 0, false}});
    for (auto& entries : r.entries) {
      entries.insert(entries.begin() + 6, {joins(2), takes(2, 1)});
      entries.push_back(leaves(2));
    }
  };
  EXPECT_EQ(refused_losses("async", late), "");
}

/// The earlier incarnation had trained as much as the switch counts, and must not wait for it.
TEST(RehearsedLosses, LetOnlyTheLastIncarnationWaitForASwitch) {
  const auto switched = [](recording& r) {
    for (auto& entries : r.entries) entries.insert(entries.begin() + 7, {kind::switched, {}});
    r.end.switches = {{"async", "by hand", {2, 1}, {1, 1}}};
  };
  EXPECT_EQ(refused_losses("async", switched), "");
  EXPECT_EQ(refused_losses("sync", switched), "");
}

/// Worker 1 had trained a batch more before the switch and was lost with it.
TEST(RehearsedLosses, GoThroughASwitchWithWhatSomebodyKnewOf) {
  EXPECT_EQ(refused_losses("async",
                           [](recording& r) {
                             for (auto& entries : r.entries)
                               entries.insert(entries.begin() + 4, {kind::switched, {}});
                             r.end.switches = {{"async", "by hand", {1, 2}, {1, 1}}};
                           }),
            "");
}

TEST(RehearsedLosses, LetAWorkerComeBackAfterASwitch) {
  EXPECT_EQ(refused_losses("async",
                           [](recording& r) {
                             for (auto& entries : r.entries)
                               entries.insert(entries.begin() + 5, {kind::switched, {}});
                             r.end.switches = {{"async", "by hand", {1, 1}, {1, 0}}};
                           }),
            "");
}

/// Worker 2 comes late. It is paused, and lost before its joining has come to this shard.
TEST(RehearsedLosses, LetAWorkerLeaveASwitchThatNeverJoined) {
  const auto lost = [](std::size_t shards) {
    return [shards](recording& r) {
      r.header.slots = 3;
      r.batches.emplace_back();
      r.incarnations.emplace_back();
      r.end.lost = {2};
      r.end.switches = {{"async", "by hand", {1, 1, 0}, {1, 0, 1}}};
      for (std::size_t s = 0; s < 2; ++s) {
        auto& entries = r.entries[s];
        entries.insert(entries.begin() + 5, {{kind::switched, {}}, leaves(2)});
        if (s >= shards) entries.insert(entries.begin() + 5, joins(2));
      }
    };
  };
  EXPECT_EQ(refused_losses("async", lost(1)), "") << "one shard lacks it";
  EXPECT_EQ(refused_losses("async", lost(2)), "") << "all lack it";
}

/// Its shard had heard of the loss before the switch that counts it as present.
TEST(RehearsedLosses, LetAWorkerLeaveOnceMoreAtASwitch) {
  const auto twice = [](recording& r) {
    for (auto& entries : r.entries) entries.insert(entries.begin() + 5, {{kind::switched, {}}, leaves(1)});
    r.end.switches = {{"sync", "by hand", {1, 1}, {1, 1}}};
  };
  EXPECT_EQ(refused_losses("async", twice), "");
  EXPECT_THAT(refused_losses("async",
                             [&](recording& r) {
                               twice(r);
                               for (auto& entries : r.entries) entries.insert(entries.begin() + 7, leaves(1));
                             }),
              HasSubstr("comes after it has left"));
}

/// Shard 1 takes worker 1 after worker 0's step 3, which shard 0 leads to by way of worker 1's return.
TEST(RehearsedLosses, NameTheIncarnationThatDoesNotCome) {
  const auto crossed = [](recording& r) {
    r.batches[0] = {0, 2, 4};
    r.entries[0].insert(r.entries[0].begin() + 7, takes(0, 3));
    r.entries[1] = {joins(0),  joins(1),    takes(0, 1), takes(0, 2), takes(0, 3), takes(1, 1),
                    leaves(1), joins(1, 1), takes(1, 1), leaves(0),   leaves(1, 1)};
  };
  EXPECT_THAT(refused_losses("async", crossed),
              HasSubstr("shard 0 waits at its turn 6 of 11 for worker 1 as incarnation 1: worker 1 waits for "
                        "the weights of shard 1 after its step 1"));
}

} // namespace
} // namespace mailgrad
