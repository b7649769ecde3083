#include <mailgrad/tests/actors/runs/stepped_training.hpp>
#include <mailgrad/tests/support/interleavings.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <vector>

// Small runs in every order in which their messages can arrive: nothing is sampled. Larger ones, and those
// that somebody disturbs, are sampled in schedules_test.cpp.

namespace mailgrad {
namespace {

using testing::experience;
using testing::history;
using testing::place;
using testing::posted;

/// Two who at their birth send two messages each to a third, which is silent.
class two_lines final : public testing::explored_actors {
public:
  enum class matters : std::uint8_t { the_order, nothing };

  explicit two_lines(matters what) : what_(what) {}

  std::size_t count() const override { return 3; }
  std::string name(place actor) const override { return std::to_string(actor); }
  std::unique_ptr<testing::stepped_run> start() const override { return std::make_unique<run>(); }
  std::optional<experience> remembered(place, const history& so_far, experience heard) const override {
    if (what_ == matters::the_order) heard.text += std::to_string(so_far.size());
    return heard;
  }
  bool goes_first(place, const history&, const std::string&) const override { return false; }
  void check_end(const std::vector<std::string>& told) const override { EXPECT_TRUE(told.empty()); }

private:
  struct run final : testing::stepped_run {
    std::vector<posted> begin() override {
      return {{{0, 2}, "a"}, {{0, 2}, "b"}, {{1, 2}, "a"}, {{1, 2}, "b"}};
    }
    std::vector<posted> deliver(testing::line) override { return {}; }
    bool has_ended(place) const override { return false; }
  };

  matters what_;
};

TEST(Explorer, TriesEveryOrderThatKeepsEachLine) {
  const two_lines actors(two_lines::matters::the_order);
  const testing::exploration found = testing::interleavings(actors).explore();
  EXPECT_EQ(found.runs, 6); // two of four places for the first line
  EXPECT_EQ(found.ends, 6U);
  EXPECT_EQ(found.states, 19U); // 1 + 2 + 4 + 6 + 6
  EXPECT_EQ(found.merged, 0U);
}

TEST(Explorer, CountsOrdersOfMergedStates) {
  const two_lines actors(two_lines::matters::nothing);
  const testing::exploration found = testing::interleavings(actors).explore();
  EXPECT_EQ(found.runs, 6);
  EXPECT_EQ(found.ends, 1U);
  EXPECT_EQ(found.states, 9U); // how far each line is, 0 to 2
  EXPECT_EQ(found.merged, 4U);
}

struct explored_run {
  std::string policy;
  std::uint64_t batches = 0;              ///< steps of both workers
  std::optional<std::uint64_t> turn = {}; ///< of one that takes seconds: a slice has one of these

  friend std::ostream& operator<<(std::ostream& out, const explored_run& r) {
    return out << r.policy << ", " << r.batches << " batches";
  }
};

constexpr std::uint64_t turns = 7;

bool is_left_to_another_slice(const explored_run& run) {
  const auto number = testing::asked_number("MAILGRAD_SLICE");
  return number && run.turn && *run.turn != *number % turns;
}

/// Two workers and two shards.
class explored_training final : public testing::explored_actors {
public:
  /// In full: nothing goes first.
  explicit explored_training(const explored_run& what, bool in_full = false)
      : in_full_(in_full), policies_(parse_policy_schedule(what.policy, roles_.workers)) {
    assembly_.policy = what.policy;
    assembly_.workers = roles_.workers;
    assembly_.shards = roles_.shards;
    assembly_.batches = what.batches;
  }

  std::size_t count() const override { return roles_.count(); }
  std::string name(place actor) const override { return roles_.name(actor); }
  std::unique_ptr<testing::stepped_run> start() const override {
    return std::make_unique<testing::stepped_training>(system_, assembly_, data_,
                                                       testing::message_texts(in_step()));
  }

  /// What an actor has heard and said is its state, whatever the order, but for four things:
  ///   - the gap of a gradient that is applied at once is in the books of the shard: which one of its epoch it was;
  ///   - the coordinator writes down how many steps were made when a switch was done: who had finished then;
  ///   - once the feeder deals by rank it deals each rank its own: who had how many of those it dealt before;
  ///   - who leaves has left: whoever says so, and a second word of it is ignored.
  /// All else fills places and ticks boxes. The feeder has dealt as many batches as it sent, and holds or
  /// goes on since it said or heard so. A device has one place for the weights of each shard and one for a
  /// batch, and begins a step when all are filled; a pause empties those of the shards. A shard holds whom it
  /// has not answered; its version is in its answers, or, before them, the number of gradients; the order in
  /// a batch is that of ranks.
  std::optional<experience> remembered(place actor, const history& so_far, experience heard) const override {
    std::string& text = heard.text;
    if (leaves_no_trace(so_far, text)) return std::nullopt;
    if (is(text, "worker_left")) heard.other = actor; // whoever says so
    if (is(text, "push_gradient") && !at_barrier(text))
      text += ", number " + std::to_string(count_of(so_far, epoch_in(text)));
    if (is(text, "go_on_dealing"))
      text += ", dealt to worker 0 " + std::to_string(std::ranges::count_if(so_far, is_batch_of_worker_0));
    if (is(text, "policy_switched")) text += ", finished" + finished_in(so_far);
    return heard;
  }

  /// What fills places and ticks boxes does so in any order, and the answer comes with the last. Not so
  ///   - at a device: a pause finds a step begun or not;
  ///   - at the coordinator: as above;
  ///   - at the feeder: the last batch is for one of two who ask, unless each has its own. Who leaves asks no more;
  ///   - at a shard: weights have a version. In `async` nobody waits, so it is nothing to others that somebody leaves.
  bool goes_first(place actor, const history& so_far, const std::string& text) const override {
    if (in_full_) return false;
    if (leaves_no_trace(so_far, text)) return true;
    if (roles_.is_worker(actor)) return !switches() || count_of(so_far, "pause_worker") > 0;
    if (actor == roles_.coordinator())
      return !switches() || (!is(text, "policy_switched") && !is(text, "worker_finished"));
    if (actor == roles_.feeder()) return in_step() || is(text, "worker_left");
    return assembly_.policy == "async" && is(text, "worker_left");
  }

  void check_end(const std::vector<std::string>& told) const override {
    EXPECT_EQ(told.size(), 1U) << "somebody waits, and no message is under way";
    outcomes_.insert(told.begin(), told.end());
  }

  /// Different ones, in words.
  const std::set<std::string>& outcomes() const { return outcomes_; }

private:
  bool switches() const { return assembly_.policy.find('@') != std::string::npos; }
  /// Then the weights are the same in every order, and are a part of what is compared.
  bool in_step() const { return assembly_.policy == "sync"; }

  static bool is(const std::string& text, const char* what) { return text.starts_with(what); }
  static std::string epoch_in(const std::string& push) { return push.substr(push.find(" of epoch")); }
  bool at_barrier(const std::string& push) const {
    return policies_[std::stoul(epoch_in(push).substr(10))].policy.text() == "sync";
  }
  static bool is_batch_of_worker_0(const experience& e) {
    return !e.heard && e.other == 0 && is(e.text, "dealt_batch");
  }
  static std::ptrdiff_t count_of(const history& so_far, const std::string& what) {
    return std::ranges::count_if(
        so_far, [&](const experience& e) { return e.heard && e.text.find(what) != std::string::npos; });
  }
  static std::string finished_in(const history& so_far) {
    std::string who;
    for (const experience& e : so_far)
      if (e.heard && is(e.text, "worker_finished")) who += ' ' + std::to_string(e.other);
    return who;
  }
  static bool leaves_no_trace(const history& so_far, const std::string& text) {
    return is(text, "worker_left") && count_of(so_far, text) > 0;
  }

  bool in_full_;
  testing::roles roles_{2, 2};
  testing::assembly assembly_;
  std::vector<scheduled_policy> policies_; ///< by epoch
  mutable testing::deterministic_system system_;
  mutable std::set<std::string> outcomes_;
  std::shared_ptr<const data_split> data_ = testing::small_data();
};

void tell(const testing::exploration& found) {
  ::testing::Test::RecordProperty("states", std::to_string(found.states));
  ::testing::Test::RecordProperty("complete_runs", std::to_string(found.runs));
  ::testing::Test::RecordProperty("merged_prefixes", std::to_string(found.merged));
  std::cout << found.states << " states, " << found.runs << " complete runs to " << found.ends << " ends, "
            << found.merged << " prefixes merged; " << found.answers << " answers of real actors in "
            << found.replays << " replays\n";
}

std::string name_of(const ::testing::TestParamInfo<explored_run>& run) {
  return testing::test_name(run.param.policy) + "_in_" + std::to_string(run.param.batches) + "_batches";
}

class Interleavings : public ::testing::TestWithParam<explored_run> {};

TEST_P(Interleavings, AllEndOnceInGoodOrder) {
  if (is_left_to_another_slice(GetParam())) GTEST_SKIP() << "another slice tries these orders";
  const explored_training training(GetParam());
  testing::interleavings all(training);
  const testing::exploration found = all.explore();
  if (HasFailure()) return;
  tell(found);
  EXPECT_GT(found.merged, 0U);
  if (std::string(GetParam().policy) == "sync") {
    EXPECT_EQ(found.ends, 1U) << "the order shows, in the weights or in the books";
  }

  std::mt19937_64 random(1);
  all.confirm(random, 500);
}

class InterleavingsInFull : public ::testing::TestWithParam<explored_run> {};

/// The states between differ, and the orders; the ends do not.
TEST_P(InterleavingsInFull, EndAsThoseInWhichSomethingGoesFirst) {
  if (is_left_to_another_slice(GetParam())) GTEST_SKIP() << "another slice tries these orders";
  const explored_training reduced(GetParam());
  const explored_training in_full(GetParam(), true);
  const testing::exploration some = testing::interleavings(reduced).explore();
  const testing::exploration all = testing::interleavings(in_full).explore();
  if (HasFailure()) return;
  tell(all);
  EXPECT_LT(some.states, all.states);
  EXPECT_EQ(some.ends, all.ends);
  EXPECT_EQ(reduced.outcomes(), in_full.outcomes());
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const auto explored_runs = ::testing::Values(explored_run{"sync", 2}, explored_run{"ssp:1", 2},
                                             explored_run{"async", 2}, explored_run{"async, sync@1", 2});
const auto runs_in_full = ::testing::Values(explored_run{"sync", 2});
#else
/// Those that take a minute only if MAILGRAD_LONG_INTERLEAVINGS is set, as scripts/endurance does.
std::vector<explored_run> all_explored_runs() {
  std::vector<explored_run> runs{
      {"sync", 4}, {"ssp:1", 4, 0}, {"async", 4, 1}, {"async, sync@2", 4, 2}, {"sync, async@2", 4, 3},
      {"sync", 5}, {"sync", 6}};
  if (std::getenv("MAILGRAD_LONG_INTERLEAVINGS")) // NOLINT(concurrency-mt-unsafe)
    runs.insert(runs.end(), {{"ssp:1, sync@3", 5}, {"ssp:1", 6}, {"async", 6}, {"async, sync@3", 6}});
  return runs;
}
const auto explored_runs = ::testing::ValuesIn(all_explored_runs());
const auto runs_in_full = ::testing::Values(explored_run{"sync", 4}, explored_run{"ssp:1", 2, 4},
                                            explored_run{"async", 2, 5}, explored_run{"sync, async@1", 2, 6});
#endif
INSTANTIATE_TEST_SUITE_P(TwoWorkersTwoShards, Interleavings, explored_runs, name_of);
INSTANTIATE_TEST_SUITE_P(TwoWorkersTwoShards, InterleavingsInFull, runs_in_full, name_of);

} // namespace
} // namespace mailgrad
