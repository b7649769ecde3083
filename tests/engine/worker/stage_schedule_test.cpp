#include <mailgrad/engine/worker/stage_program.hpp>

#include <gmock/gmock.h>

#include <random>

namespace mailgrad {
namespace {

using part = stage_schedule::part;
using turn = stage_schedule::turn;

/// First stage of two: forward is segment 0, which stage 1 reads; backward is segment 2, which reads segment
/// 1.
std::vector<std::vector<part>> first_of_two(std::size_t micro_batches) {
  return std::vector<std::vector<part>>(micro_batches, {{0, {}, {1}}, {2, {0, 1}, {}}});
}

/// Runs what is next, and notes that its own later parts can read it.
turn run_next(stage_schedule& s) {
  const auto t = s.next();
  EXPECT_TRUE(t);
  s.ran(*t);
  if (t->part == 0) s.arrive(t->micro_batch, 0);
  return *t;
}

TEST(StageSchedule, RunsAheadAsFarAsItsCreditGoes) {
  stage_schedule s(first_of_two(4), 2);
  EXPECT_EQ(run_next(s), (turn{0, 0}));
  EXPECT_EQ(run_next(s), (turn{1, 0}));
  EXPECT_FALSE(s.next()) << "two micro-batches are under way";
  EXPECT_TRUE(s.waits_for_credit());
  s.credit(0, 1);
  EXPECT_EQ(run_next(s), (turn{2, 0}));
  EXPECT_FALSE(s.next());
}

TEST(StageSchedule, PutsTheBackwardPassFirst) {
  stage_schedule s(first_of_two(3), 2);
  run_next(s);
  run_next(s);
  s.credit(0, 1);
  s.arrive(0, 1);
  EXPECT_EQ(run_next(s), (turn{0, 1}));
  EXPECT_EQ(run_next(s), (turn{2, 0}));
  EXPECT_FALSE(s.finished());
}

TEST(StageSchedule, KeepsTheOrderOfMicroBatchesWhateverArrivesFirst) {
  stage_schedule s(first_of_two(2), 2);
  run_next(s);
  run_next(s);
  s.arrive(1, 1); // the second before the first
  EXPECT_FALSE(s.next());
  EXPECT_FALSE(s.waits_for_credit()) << "it waits for values";
  s.arrive(0, 1);
  EXPECT_EQ(run_next(s), (turn{0, 1}));
  EXPECT_EQ(run_next(s), (turn{1, 1}));
  EXPECT_TRUE(s.finished());
}

/// Busy share of each stage where a part takes `span` and messages take none: all stages are simulated
/// together.
double least_busy_share(std::size_t stages, std::size_t micro_batches, std::size_t credits) {
  // A chain: stage p has forward segment p and backward segment 2 * stages - 2 - p; the last has one for
  // both.
  const auto backward_of = [&](std::size_t p) { return 2 * stages - 2 - p; };
  std::vector<stage_schedule> all;
  for (std::size_t p = 0; p < stages; ++p) {
    std::vector<part> parts;
    const std::vector<std::size_t> before = p == 0 ? std::vector<std::size_t>{} : std::vector{p - 1};
    const std::vector<std::size_t> up = p == 0 ? std::vector<std::size_t>{} : std::vector{p - 1};
    if (p + 1 == stages) {
      parts.push_back({p, before, up});
    } else {
      parts.push_back({p, before, {p + 1}});
      parts.push_back({backward_of(p), {p, backward_of(p + 1)}, up});
    }
    all.emplace_back(std::vector<std::vector<part>>(micro_batches, parts), credits);
  }
  constexpr std::size_t forward = 1, back = 2; // a backward pass costs twice a forward pass
  std::vector<std::size_t> free_at(stages, 0), busy(stages, 0);
  std::vector<std::optional<turn>> running(stages);
  std::size_t now = 0;
  while (!std::ranges::all_of(all, [](const auto& s) { return s.finished(); })) {
    for (std::size_t p = 0; p < stages; ++p) {
      if (!running[p] || free_at[p] > now) continue;
      const turn t = *std::exchange(running[p], std::nullopt);
      all[p].ran(t);
      const std::size_t segment = t.part == 1 ? backward_of(p) : p;
      if (segment < stages - 1) { // forward: the next stage has it, and so has this one
        all[p].arrive(t.micro_batch, segment);
        all[p + 1].arrive(t.micro_batch, segment);
      } else {
        if (p > 0) all[p - 1].arrive(t.micro_batch, segment); // values of the backward pass
        if (p > 0) all[p - 1].credit(p - 1, p);               // those of the forward pass are used up
        if (p + 1 < stages) all[p + 1].credit(backward_of(p + 1), p);
      }
    }
    for (std::size_t p = 0; p < stages; ++p) {
      if (running[p]) continue;
      running[p] = all[p].next();
      if (!running[p]) continue;
      const std::size_t span = p + 1 == stages ? forward + back : running[p]->part == 0 ? forward : back;
      busy[p] += span;
      free_at[p] = now + span;
    }
    ++now;
    EXPECT_LT(now, 10'000U) << "a wait that never ends";
    if (now >= 10'000) break;
  }
  const std::size_t length = *std::ranges::max_element(free_at);
  return static_cast<double>(*std::ranges::min_element(busy)) / static_cast<double>(length);
}

TEST(StageSchedule, KeepsTwoEqualStagesBusyForEightNinthsOfAStep) {
  EXPECT_NEAR(least_busy_share(2, 8, 3), 8.0 / 9, 1e-9) << "GPipe's bound m / (m + p - 1)";
  EXPECT_NEAR(least_busy_share(4, 16, 5), 16.0 / 19, 0.02);
}

TEST(StageSchedule, EndsWithASingleCreditToo) {
  EXPECT_GT(least_busy_share(2, 8, 1), 0.0);
  EXPECT_GT(least_busy_share(4, 8, 1), 0.0);
}

} // namespace
} // namespace mailgrad
