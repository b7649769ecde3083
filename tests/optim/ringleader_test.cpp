#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/policies/ringleader.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace mailgrad {
namespace {

class Ringleader : public ::testing::Test {
protected:
  explicit Ringleader(std::uint32_t workers = 3) {
    for (std::uint32_t r = 0; r < workers; ++r) policy_.join({r});
  }
  verdict push(std::uint32_t worker) { return policy_.judge({{worker}, 1, 0, 0}).what; }
  /// What an update does to the policy, if one is due.
  bool updates() {
    if (!policy_.batch_complete()) return false;
    policy_.batch_applied();
    return true;
  }
  /// Brings the round to the point at which worker 2 alone is served.
  void collect() {
    for (const std::uint32_t worker : {0U, 1U, 2U}) push(worker);
    EXPECT_TRUE(updates());
  }

  ringleader_policy policy_;
};

TEST_F(Ringleader, MakesItsFirstUpdateWhenEveryWorkerHasSentAGradient) {
  for (const std::uint32_t worker : {0U, 1U, 0U}) {
    EXPECT_EQ(push(worker), verdict::merge);
    EXPECT_FALSE(updates());
    EXPECT_TRUE(policy_.may_start({worker}));
    EXPECT_FALSE(policy_.renews({worker})) << "it goes on from what it has";
  }
  EXPECT_EQ(push(2), verdict::merge);
  EXPECT_TRUE(updates());
  EXPECT_TRUE(policy_.renews({2}));
  EXPECT_EQ(policy_.rounds_over(), 0U);
}

TEST_F(Ringleader, ServesEachWorkerOnceARoundAndDefersWhatItSendsThen) {
  collect();
  EXPECT_EQ(push(2), verdict::defer);
  EXPECT_FALSE(updates());
  EXPECT_FALSE(policy_.renews({2}));
  EXPECT_EQ(push(0), verdict::merge);
  EXPECT_TRUE(updates());
  EXPECT_TRUE(policy_.renews({0}));
  EXPECT_EQ(push(0), verdict::defer);
  EXPECT_EQ(push(1), verdict::merge);
  EXPECT_TRUE(updates());
  EXPECT_EQ(policy_.rounds_over(), 1U);
  EXPECT_EQ(push(1), verdict::merge) << "0 and 2 have sent theirs before";
  EXPECT_TRUE(updates());
  EXPECT_TRUE(policy_.renews({1}));
}

TEST_F(Ringleader, AwaitsNobodyWhoHasLeft) {
  push(0);
  push(1);
  policy_.leave({2});
  EXPECT_FALSE(updates()) << "no worker is there to be served with it";
  EXPECT_EQ(push(0), verdict::merge);
  EXPECT_TRUE(updates());
  policy_.leave({1});
  EXPECT_FALSE(updates());
  EXPECT_EQ(policy_.rounds_over(), 1U) << "it was the last to be served";
  EXPECT_EQ(policy_.judge({{1}, 9, 0, 0}).reason, "not awaited");
}

TEST_F(Ringleader, CountsANewcomerAtOnceOrFromTheNextRoundOn) {
  push(0);
  push(1);
  policy_.join({3});
  EXPECT_TRUE(policy_.renews({3}));
  push(2);
  EXPECT_FALSE(updates()) << "the table has nothing of worker 3 yet";
  push(3);
  EXPECT_TRUE(updates());
  policy_.join({4});
  EXPECT_EQ(push(4), verdict::defer);
  for (const std::uint32_t worker : {0U, 1U, 2U}) {
    EXPECT_EQ(push(worker), verdict::merge);
    EXPECT_TRUE(updates());
  }
  EXPECT_EQ(policy_.rounds_over(), 1U);
}

TEST_F(Ringleader, AppliesWhatIsInNoUpdateWhenNobodyIsLeft) {
  collect();
  EXPECT_EQ(push(2), verdict::defer);
  for (const std::uint32_t worker : {0U, 1U}) policy_.leave({worker});
  EXPECT_EQ(policy_.rounds_over(), 1U);
  push(2);
  EXPECT_TRUE(updates());
  push(2);
  push(2);
  policy_.leave({2});
  while (updates()) continue;
  policy_.join({0});
  EXPECT_EQ(push(0), verdict::merge);
  EXPECT_TRUE(updates()) << "a worker that comes then begins a round";
}

TEST_F(Ringleader, AppliesTwoRoundsThatAreLeftBehind) {
  push(0);
  push(1);
  policy_.join({3});
  push(2);
  push(3);
  EXPECT_TRUE(updates());
  push(3);
  for (const std::uint32_t worker : {0U, 1U, 2U}) policy_.leave({worker});
  EXPECT_EQ(policy_.rounds_over(), 1U);
  policy_.leave({3});
  EXPECT_TRUE(updates());
  EXPECT_FALSE(updates());
}

TEST_F(Ringleader, GoesOnFromACheckpoint) {
  collect();
  for (const std::uint32_t worker : {0U, 1U}) push(worker), updates();
  ASSERT_EQ(policy_.rounds_over(), 1U);
  collect();
  push(2);
  push(0);
  updates();
  saved_fields written;
  written.field("policy", policy_);
  saved_fields read(written.text(), written.arrays());
  ringleader_policy other;
  for (std::uint32_t r = 0; r < 3; ++r) other.join({r});
  read.field("policy", other);
  for (ringleader_policy* p : {&policy_, &other}) {
    EXPECT_EQ(p->judge({{0}, 3, 0, 0}).what, verdict::defer);
    EXPECT_EQ(p->judge({{1}, 2, 0, 0}).what, verdict::merge);
    EXPECT_TRUE(p->batch_complete());
    p->batch_applied();
    EXPECT_EQ(p->rounds_over(), 2U);
    EXPECT_EQ(p->judge({{1}, 3, 0, 0}).what, verdict::merge);
    EXPECT_TRUE(p->batch_complete()) << "0 and 2 have sent theirs before";
  }
}

/// The paper's loop for a server that nobody joins or leaves: which table takes a gradient, whether it makes
/// an update, and whether its worker gets new weights.
class papers_loop {
public:
  explicit papers_loop(std::size_t n) : b_(n), b_plus_(n), is_in_s_(n, true) {}

  struct outcome {
    bool next_table = false, update = false;
  };
  outcome receive(std::size_t j) {
    if (collecting_) {
      ++b_[j];
      if (std::ranges::count(b_, 0) > 0) return {};
      collecting_ = false;
    } else if (is_in_s_[j]) {
      ++b_[j];
    } else {
      ++b_plus_[j];
      return {true, false};
    }
    is_in_s_[j] = false;
    if (std::ranges::count(is_in_s_, true) == 0) {
      b_ = b_plus_;
      std::ranges::fill(b_plus_, 0);
      is_in_s_.assign(b_.size(), true);
      collecting_ = true;
    }
    return {false, true};
  }

private:
  std::vector<int> b_, b_plus_;
  std::vector<bool> is_in_s_; ///< not served yet
  bool collecting_ = true;
};

TEST(RingleaderLoop, IsThatOfThePaperWhateverTheOrder) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto n = static_cast<std::uint32_t>(1 + seed % 6);
    papers_loop paper(n);
    ringleader_policy policy;
    for (std::uint32_t r = 0; r < n; ++r) policy.join({r});
    std::mt19937_64 random(seed);
    for (int event = 0; event < 300; ++event) {
      const auto j = static_cast<std::uint32_t>(random() % n * (random() % 3 > 0 ? 1 : 0));
      const papers_loop::outcome expected = paper.receive(j);
      ASSERT_EQ(policy.judge({{j}, 1, 0, 0}).what, expected.next_table ? verdict::defer : verdict::merge);
      ASSERT_EQ(policy.batch_complete(), expected.update);
      ASSERT_EQ(policy.renews({j}), expected.update);
      if (expected.update) policy.batch_applied();
      ASSERT_FALSE(policy.batch_complete());
    }
  }
}

} // namespace
} // namespace mailgrad
