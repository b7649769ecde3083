#include <mailgrad/tests/actors/runs/recorded_runs.hpp>
#include <mailgrad/tests/actors/runs/treated_runs.hpp>

#include <gtest/gtest.h>

#include <algorithm>

// What a run leaves behind that is killed: of each shard, and of the feeder, some of what it had done, each
// at its own pace. It is repeated as far as it goes.

namespace mailgrad {
namespace {

using testing::assembly;
using testing::drawn_order;
using testing::drawn_orders;
using testing::finished_run;
using testing::RecordedRun;
using testing::terms_of;
using kind = order_entry::kind;

/// A recording as it is when its shards and feeder have told so much, in parts of a whole.
recording killed(const recording& whole, drawn_order& order, std::size_t out_of = 8) {
  recording r = whole;
  r.killed = true;
  r.end = {"", "", {}, whole.end.switches, ""};
  const auto part_of = [&](std::size_t all) {
    return all * std::min(out_of, order.below(2 * out_of)) / out_of;
  };
  for (auto& entries : r.entries) entries.resize(part_of(entries.size()));
  for (auto& batches : r.batches) batches.resize(part_of(batches.size()));
  return r;
}

std::size_t gradients_in(const recording& r) {
  return static_cast<std::size_t>(std::ranges::count(r.entries[0], kind::gradient, &order_entry::what));
}

class KilledRecording : public RecordedRun, public ::testing::WithParamInterface<testing::treated_run> {
protected:
  /// Each shard begins with what it had told, and whatever follows is as if somebody had stopped the run.
  static void expect_begins_like(const recording& cut, const recording& was) {
    for (std::size_t s = 0; s < cut.entries.size(); ++s) {
      std::size_t same = 0;
      while (same < cut.entries[s].size() && same < was.entries[s].size() &&
             cut.entries[s][same].what == was.entries[s][same].what &&
             cut.entries[s][same].worker == was.entries[s][same].worker &&
             cut.entries[s][same].step == was.entries[s][same].step)
        ++same;
      const auto added = std::ranges::count(cut.entries[s].begin() + static_cast<std::ptrdiff_t>(same),
                                            cut.entries[s].end(), kind::gradient, &order_entry::what);
      EXPECT_LE(added, std::ssize(cut.batches)) << "at most one of each worker was under way";
    }
  }
};

TEST_P(KilledRecording, IsRepeatedAsFarAsItGoes) {
  const assembly a = testing::treated(GetParam());
  const drawn_orders tried(40);
  std::size_t repeated = 0;
  for (drawn_order& order : tried) {
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    const recording left = killed(was->order, order);
    recording cut = repeatable_part(left, terms_of(a));
    EXPECT_TRUE(cut.killed);
    expect_begins_like(cut, was->order);
    repeated += gradients_in(cut);

    assembly again = a;
    again.replayed = std::make_shared<const recording>(cut);
    const auto first = finish(again, order.seed() + 100);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->report.ended, "completed");
    EXPECT_TRUE(first->report.ledger.balances()) << to_string(first->report.ledger);
    const auto second = finish(again, order.seed() + 200);
    ASSERT_TRUE(second);
    expect_same(*first, *second);
    expect_same_order(cut, first->order);
  }
  EXPECT_GT(repeated, 0U) << "no recording was killed late enough for a gradient to be in it";
}

TEST_P(KilledRecording, IsRepeatedToTheEndIfAllOfItIsThere) {
  const assembly a = testing::treated(GetParam());
  for (drawn_order& order : drawn_orders(20)) {
    const auto was = finish(a, order.seed());
    ASSERT_TRUE(was);
    recording left = was->order;
    left.killed = true;
    left.end = {"", "", {}, was->order.end.switches, ""};
    assembly again = a;
    again.replayed = std::make_shared<const recording>(repeatable_part(left, terms_of(a)));
    const auto is = finish(again, order.seed() + 100);
    ASSERT_TRUE(is);
    if (a.local_steps == 0) {
      EXPECT_EQ(was->weights, is->weights);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTreatment, KilledRecording, ::testing::ValuesIn(testing::treated_runs),
                         testing::name_of_treated);

INSTANTIATE_TEST_SUITE_P(
    EveryPolicy, KilledRecording,
    ::testing::Values(testing::treated_run{"none"}, testing::treated_run{"none", "sgd", 0, "sync"},
                      testing::treated_run{"none", "sgd", 0, "ssp:1"},
                      testing::treated_run{"none", "sgd", 0, "dssp:0,2"},
                      testing::treated_run{"none", "sgd", 0, "backup:1"},
                      testing::treated_run{"none", "sgd", 0, "k-async:2"},
                      testing::treated_run{"none", "sgd", 0, "k-batch-async:2"},
                      testing::treated_run{"none", "sgd", 0, "k-batch-sync:2"},
                      testing::treated_run{"none", "sgd", 0, "rennala:3"},
                      testing::treated_run{"none", "sgd", 0, "ringmaster:2"},
                      testing::treated_run{"none", "sgd", 0, "malenia:4"},
                      testing::treated_run{"none", "sgd", 0, "ringleader"},
                      testing::treated_run{"none", "sgd", 0, "async, sync@4, ssp:1@8"},
                      testing::treated_run{"none", "sgd", 0, "sync, backup:1@3, k-async:2@7, async@10"}),
    testing::name_of_treated);

} // namespace
} // namespace mailgrad
