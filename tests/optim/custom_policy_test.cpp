#include <mailgrad/demos/custom_policy.hpp>

#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::words_of_refusal;

/// Takes every gradient as it comes.
class takes_all : public policy {
public:
  std::string_view name() const noexcept override { return "takes-all"; }
  void join(rank) override {}
  void leave(rank) override {}
  decision judge(const gradient_stamp&) override { return {}; }
  bool batch_complete() const override { return false; }
  void batch_applied() override {}
  bool may_start(rank) const override { return true; }
};

template <std::size_t Numbers>
class with_numbers : public takes_all {
public:
  static constexpr std::string_view policy_name = Numbers == 0 ? "none-at-all" : "two-of-them";
  with_numbers() requires(Numbers == 0) = default;
  with_numbers(std::uint64_t a, std::uint64_t b) requires(Numbers == 2) : sum(a + b) {}
  std::uint64_t sum = 0;
};

class namesake : public takes_all {
public:
  static constexpr std::string_view policy_name = "fair-turns";
};
class impostor : public takes_all {
public:
  static constexpr std::string_view policy_name = "sync";
};
class misnamed : public takes_all {
public:
  static constexpr std::string_view policy_name = "a:b";
};

class queue_of_rounds : public takes_all {
public:
  static constexpr std::string_view policy_name = "queue-of-rounds";
  bool has_rounds() const noexcept override { return true; }
  std::size_t takes_first() const noexcept override { return 1; }
};

TEST(CustomPolicy, IsMadeByItsNameAndNumbers) {
  EXPECT_EQ(custom_policy<fair_turns>("2"), "fair-turns:2");
  const auto made = make_policy("fair-turns:2", 3);
  EXPECT_EQ(made->name(), "fair-turns");
  EXPECT_TRUE(made->shards_agree());
  EXPECT_THAT(policy_names(), Contains("fair-turns"));
}

TEST(CustomPolicy, TakesAsManyNumbersAsItsConstructor) {
  EXPECT_EQ(custom_policy<with_numbers<0>>(), "none-at-all");
  custom_policy<with_numbers<2>>("1,2");
  EXPECT_NO_THROW(policy_spec("none-at-all", 1));
  const auto made = make_policy("two-of-them:3,4", 1);
  EXPECT_EQ(dynamic_cast<const with_numbers<2>&>(*made).sum, 7U);
  EXPECT_NO_THROW(make_policy("two-of-them:5,2", 1)); // unlike the bounds of dssp, they need not ascend
  EXPECT_THAT(words_of_refusal([] { make_policy("none-at-all:1", 1); }), HasSubstr("takes no number"));
  EXPECT_THAT(words_of_refusal([] { make_policy("two-of-them:1", 1); }),
              HasSubstr("it takes 2 numbers, such as two-of-them:1,2"));
}

TEST(CustomPolicy, CountsTheStepsSinceItBegan) {
  fair_turns turns(1, {2});
  turns.join({0});
  turns.join({1});
  turns.judge({{0}, {500}, {600}, {600}}); // the workers had come differently far under another policy
  turns.judge({{1}, {100}, {600}, {601}});
  EXPECT_TRUE(turns.may_start({0}));
  turns.judge({{0}, {501}, {602}, {602}});
  turns.judge({{0}, {502}, {603}, {603}});
  EXPECT_FALSE(turns.may_start({0}));
  turns.join({2}); // with the slowest
  EXPECT_TRUE(turns.may_start({2}));
  turns.leave({1});
  turns.leave({2});
  EXPECT_TRUE(turns.may_start({0}));
}

TEST(CustomPolicy, StandsInASchedule) {
  custom_policy<fair_turns>("1");
  EXPECT_THAT(parse_policy_schedule("async, fair-turns:1@5", 2),
              ElementsAre(scheduled_policy{0, {"async", 2}}, scheduled_policy{5, {"fair-turns:1", 2}}));
}

TEST(CustomPolicy, KeepsItsNameToItself) {
  custom_policy<fair_turns>("1");
  EXPECT_NO_THROW(custom_policy<fair_turns>("3"));
  EXPECT_THAT(words_of_refusal([] { custom_policy<namesake>(); }),
              HasSubstr("another policy of your own has this name"));
  EXPECT_THAT(words_of_refusal([] { custom_policy<impostor>(); }),
              HasSubstr("policy 'sync': is one of Mailgrad's; give yours another name"));
  EXPECT_THAT(words_of_refusal([] { custom_policy<misnamed>(); }), HasSubstr("letters, digits, '-' and '_'"));
}

TEST(CustomPolicy, OfAnotherInterfaceIsRefusedWithBothVersions) {
  custom_policy_entry old = policy_entry<fair_turns>;
  old.interface_version = 8;
  EXPECT_THAT(words_of_refusal([&] { register_policy(old); }),
              HasSubstr("has version 8 of the interface for policies, this mailgrad has version 7"));
}

/// A shard would fill a queue that no update takes from.
TEST(CustomPolicy, ThatHasRoundsAndAQueueIsRefusedBeforeItRuns) {
  custom_policy<queue_of_rounds>();
  EXPECT_THAT(
      words_of_refusal([] { policy_spec("queue-of-rounds", 2); }),
      HasSubstr("policy 'queue-of-rounds': has rounds, and its gradients would wait in a queue as well"));
}

const std::string plugins = MAILGRAD_TEST_PLUGINS;

TEST(CustomPolicy, ComesFromASharedLibrary) {
  const std::string file = plugins + "/fair_turns.so";
  EXPECT_EQ(make_policy(file + ":1", 2)->name(), "fair-turns");
  EXPECT_EQ(parse_policy_schedule("async, " + file + ":1@5", 2).back().policy.text(), file + ":1");
  EXPECT_THAT(plugins_of_policy("async, " + file + ":1@5"), ElementsAre(file));
}

TEST(CustomPolicy, ThatCannotBeLoadedIsRefusedInOneLine) {
  EXPECT_THAT(words_of_refusal([] { make_policy("./not-there.so", 1); }),
              HasSubstr("policy './not-there.so': cannot be read: No such file"));
  EXPECT_THAT(words_of_refusal([] { make_policy(plugins + "/own_sgd.so", 1); }),
              HasSubstr("is no plug-in: it has no function mailgrad_plugin_policy"));
}

TEST(FairTurns, HoldWhoIsAhead) {
  fair_turns p(1, {2});
  for (const std::uint32_t r : {0U, 1U}) p.join({r});
  p.judge({{0}, 1, 0, 0});
  EXPECT_TRUE(p.may_start({0}));
  p.judge({{0}, 2, 1, 1});
  EXPECT_FALSE(p.may_start({0}));
  p.judge({{1}, 1, 0, 2});
  EXPECT_TRUE(p.may_start({0}));
  p.judge({{0}, 3, 2, 3});
  EXPECT_FALSE(p.may_start({0}));
  p.leave({1});
  EXPECT_TRUE(p.may_start({0}));
}

TEST(FairTurns, DropWhatIsTooStale) {
  fair_turns p(0, {2});
  p.join({0});
  EXPECT_EQ(p.judge({{0}, 1, 0, 4}).what, verdict::apply);
  EXPECT_EQ(p.judge({{0}, 2, 0, 5}).what, verdict::discard);
}

} // namespace
} // namespace mailgrad
