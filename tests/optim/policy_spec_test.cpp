#include <mailgrad/demos/custom_policy.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::words_of_refusal;

TEST(MakePolicy, KnowsEveryFormItLists) {
  for (const char* text :
       {"async", "sync", "ssp:3", "dssp:1,4", "backup:1", "k-async:2", "k-batch-async:4", "k-batch-sync:4",
        "rennala:4", "malenia:4", "ringleader", "ringmaster:4", "queue:2,3", "quorum:3,grace=0.5"}) {
    const std::string whole = text;
    EXPECT_EQ(make_policy(text, 4)->name(), whole.substr(0, whole.find(':')));
  }
  const std::vector<policy_form> forms = policy_forms();
  const std::vector<std::string_view> names = policy_names(); // those of users' own stand behind them
  ASSERT_GE(names.size(), forms.size());
  for (std::size_t i = 0; i < forms.size(); ++i)
    EXPECT_EQ(names[i], forms[i].text.substr(0, forms[i].text.find(':')));
}

TEST(RefusedPolicy, SaysWhatWouldBeRight) {
  const std::pair<const char*, std::vector<const char*>> all[] = {
      {"did you mean 'async'", {"asnyc"}},
      {"is unknown", {""}},
      {"whole number from 0 on, such as ssp:3", {"ssp:-1"}},
      {"whole number", {"ssp:", "ssp:99999999999999999999"}},
      {"takes no number", {"sync:2"}},
      {"takes 1 number", {"ssp", "ssp:1,2"}},
      {"takes 2 numbers", {"dssp:4"}},
      {"with 4 workers", {"backup:4"}},
      {"at most 4", {"k-async:5", "quorum:5"}},
      {"at most 1000000", {"queue:1,18446744073709551615"}},
      {"from 1 on", {"k-async:0", "ringmaster:0", "quorum:0,grace=1", "quorum:grace=1"}},
      {"from 1 on, such as rennala:4", {"rennala:0"}},
      {"from 1 on, such as queue:2,8", {"queue:0,3"}},
      {"no less than the first", {"dssp:4,1", "queue:4,3"}},
      {"no time; write it as quorum:4,grace=0.5", {"quorum:2,grace=-1"}},
      {"no time", {"quorum:2,1", "quorum:2,grace"}},
      {"from 0 to 1000000", {"quorum:2,grace=1e9"}}};
  for (const auto& [says, texts] : all)
    for (const char* text : texts)
      EXPECT_THAT([&] { policy_spec(text, 4); },
                  ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(says), Not(HasSubstr("\n")))))
          << text;
  EXPECT_EQ(words_of_refusal([] { make_policy("k-async:2", 1); }),
            "policy 'k-async:2': with 1 worker the number K of workers can be at most 1");
}

TEST(MakePolicy, HasNoObjectForHogwild) {
  EXPECT_EQ(policy_spec(hogwild_policy::policy_name, 1).make(), nullptr);
  EXPECT_FALSE(policy_spec(hogwild_policy::policy_name, 1).traits().needs_shards);
  EXPECT_THROW(make_policy(hogwild_policy::policy_name, 1), std::invalid_argument);
}

TEST(PolicySchedule, TellsTheCommaOfAListFromThatOfTwoNumbers) {
  for (const char* text : {"async", "hogwild", "dssp:1,4"})
    EXPECT_THAT(parse_policy_schedule(text, 2), ElementsAre(scheduled_policy{0, {text, 2}}));
  EXPECT_EQ(parse_policy_schedule("dssp:1, 4", 2).size(), 1U);
  EXPECT_THAT(parse_policy_schedule("quorum:1, grace=0.5, sync@9", 2),
              ElementsAre(scheduled_policy{0, {"quorum:1,grace=0.5", 2}}, scheduled_policy{9, {"sync", 2}}));
  EXPECT_THAT(parse_policy_schedule("async, sync@1000,dssp:1,4@2000 , ssp:3 @ 3000", 2),
              ElementsAre(scheduled_policy{0, {"async", 2}}, scheduled_policy{1000, {"sync", 2}},
                          scheduled_policy{2000, {"dssp:1,4", 2}}, scheduled_policy{3000, {"ssp:3", 2}}));
}

TEST(PolicySchedule, SwitchesAtEveryStepButTheFirst) {
  EXPECT_THAT(switch_steps(parse_policy_schedule("async, sync@5, ssp:1@9", 2)), ElementsAre(5, 9));
  EXPECT_THAT(switch_steps(parse_policy_schedule("async", 2)), ElementsAre());
}

std::string schedule_refusal(const char* text) {
  return words_of_refusal([&] { parse_policy_schedule(text, 4); });
}

TEST(PolicySchedule, RefusesASwitchThatDoesNotLieAfterTheOneBefore) {
  for (const char* text : {"async, sync@1000, ssp:3@500", "async, sync@1000, ssp:3@1000"})
    EXPECT_THAT(schedule_refusal(text), HasSubstr("begins at step 1000; give a later one"));
}

TEST(PolicySchedule, OfARuleBeginsInStep) {
  EXPECT_TRUE(is_automatic(" auto"));
  EXPECT_TRUE(is_automatic("auto:window=50"));
  EXPECT_FALSE(is_automatic("async"));
  EXPECT_THAT(parse_policy_schedule("auto", 4), ElementsAre(scheduled_policy{0, {"sync", 4}}));
  EXPECT_THAT(parse_policy_schedule("auto:window=50,wait=0.2 ", 4),
              ElementsAre(scheduled_policy{0, {"sync", 4}}));
  for (const char* text : {"async, auto@5", "async, auto:window=5@5", "auto:window=5, sync@5"})
    EXPECT_THAT(schedule_refusal(text), HasSubstr("take it alone"));
  EXPECT_THAT(schedule_refusal("auto:wnidow=5"), HasSubstr("window"));
}

TEST(PolicySchedule, RefusesAMissingOrSenselessStep) {
  EXPECT_THAT(schedule_refusal("async, sync"), HasSubstr("sync@1000"));
  EXPECT_THAT(schedule_refusal("async@5"), HasSubstr("takes no step"));
  for (const char* text :
       {"async, sync@", "async, sync@x", "async, sync@0", "async, sync@-5", "async, sync@1.5"})
    EXPECT_THAT(schedule_refusal(text), HasSubstr("whole number from 1 on")) << text;
}

TEST(PolicySchedule, RefusesWhatIsNoPolicy) {
  EXPECT_THAT(schedule_refusal("async, snyc@10"), HasSubstr("did you mean 'sync'"));
  EXPECT_THAT(schedule_refusal("a sync"), HasSubstr("is unknown"));
  EXPECT_THAT(schedule_refusal("ssp:1 0"), HasSubstr("whole number"));
  EXPECT_THAT(schedule_refusal("async,, sync@10"), HasSubstr("is unknown"));
  EXPECT_THAT(schedule_refusal("async, backup:4@10"), HasSubstr("with 4 workers"));
}

TEST(PolicySchedule, TakesHogwildBesideOthers) {
  EXPECT_TRUE(has_hogwild(parse_policy_schedule("hogwild, sync@10", 2)));
  EXPECT_TRUE(has_hogwild(parse_policy_schedule("sync, hogwild@10, async@20", 2)));
  EXPECT_FALSE(has_hogwild(parse_policy_schedule("sync, async@10", 2)));
}

TEST(PolicySchedule, IsNotWhatASwitchTakes) {
  for (const char* one : {"ssp:2", "dssp:1,4", "sync", "./libmine.so:1"})
    EXPECT_NO_THROW(require_one_policy(one));
  for (const char* more : {"async, sync@1000", "async,sync", "sync@1000", "auto", "auto:window=100"})
    EXPECT_THAT([&] { require_one_policy(more); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(
                    std::string("policy '") + more + "': a switch takes one policy, such as ssp:2")));
}

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

constexpr std::string_view wrong_names[] = {"fair-turns", "sync", "a:b"};

template <std::size_t I>
class misnamed : public takes_all {
public:
  static constexpr std::string_view policy_name = wrong_names[I];
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
  EXPECT_THAT(words_of_refusal([] { custom_policy<misnamed<0>>(); }),
              HasSubstr("another policy of your own has this name"));
  EXPECT_THAT(words_of_refusal([] { custom_policy<misnamed<1>>(); }),
              HasSubstr("policy 'sync': is one of Mailgrad's; give yours another name"));
  EXPECT_THAT(words_of_refusal([] { custom_policy<misnamed<2>>(); }),
              HasSubstr("letters, digits, '-' and '_'"));
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

TEST(FairTurns, DropWhatIsTooStale) {
  fair_turns p(0, {2});
  p.join({0});
  EXPECT_EQ(p.judge({{0}, 1, 0, 4}).what, verdict::apply);
  EXPECT_EQ(p.judge({{0}, 2, 0, 5}).what, verdict::discard);
}

TEST(AutoRule, LeavesABarrierThatWorkersWaitAt) {
  auto_rule rule, strict(parse_auto("auto:wait=0.002"));
  EXPECT_FALSE(rule.judge({200, 2.0, 0, 0.05}, "sync"));
  EXPECT_FALSE(rule.judge({200, 9.0, 0, 0.1}, "sync"))
      << "a loss that rises in step is not for want of a barrier";
  const auto advice = rule.judge({200, 2.0, 0, 0.34}, "sync");
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->policy, "async");
  EXPECT_EQ(advice->why, "workers waited 34 % of the last 200 steps at the barrier, more than 10 %");
  EXPECT_THAT(strict.judge({200, 2.0, 0, 0.004}, "sync").value().why,
              HasSubstr("waited 0.4 % of the last 200 steps at the barrier, more than 0.2 %"));
}

TEST(AutoRule, StaysAsynchronousWhileTheLossFallsOrGradientsAreFresh) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, 2.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 1.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 1.15, 3, 0}, "async")) << "mini-batches differ";
  EXPECT_FALSE(rule.judge({200, 5.0, 0.2, 0}, "async")) << "it cannot be staleness";
}

TEST(AutoRule, ReturnsToTheBarrierWhenStaleGradientsDoHarm) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, 1.0, 3.25, 0}, "async"));
  const auto advice = rule.judge({200, 1.5, 3.25, 0}, "async");
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->policy, "sync");
  EXPECT_THAT(advice->why, HasSubstr("is 1.5000, 0.5000 above its best, at a mean staleness of 3.2"));
}

// A fifth above a tenth of a thousandth is chance, and says nothing where the run began at 2.3.
TEST(AutoRule, TakesNoRiseOfASmallLossForHarmUnlessItIsAHundredthOfTheFirst) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, 2.3, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 0.0001, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 0.0002, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, 0.0230, 3, 0}, "async"));
  EXPECT_TRUE(rule.judge({200, 0.0232, 3, 0}, "async"));
}

TEST(AutoRule, TakesNoNegativeLossForHarmUnlessItRises) {
  auto_rule rule;
  EXPECT_FALSE(rule.judge({200, -1.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, -1.0, 3, 0}, "async")) << "it stays where it is";
  EXPECT_FALSE(rule.judge({200, -2.0, 3, 0}, "async"));
  EXPECT_FALSE(rule.judge({200, -1.7, 3, 0}, "async"));
  EXPECT_TRUE(rule.judge({200, -1.5, 3, 0}, "async"));
}

TEST(AutoRule, BearsMoreWaitingAfterEachReturn) {
  auto_rule rule, told(parse_auto("auto:wait=0.9"));
  for (auto_rule* each : {&rule, &told})
    for (const double loss : {1.0, 2.0}) each->judge({200, loss, 3, 0}, "async");
  EXPECT_FALSE(rule.judge({200, 1.0, 0, 0.15}, "sync"));
  EXPECT_TRUE(rule.judge({200, 1.0, 0, 0.25}, "sync"));
  EXPECT_FALSE(told.judge({200, 1.0, 0, 0.85}, "sync")) << "at least the waiting that it is told";
  for (int i = 0; i < 9; ++i) rule.judge({200, 2.0, 3, 0}, "async");
  EXPECT_TRUE(rule.judge({200, 1.0, 0, 0.9}, "sync")) << "some waiting is too much for ever";
}

TEST(AutoRule, FollowsItsSettings) {
  const auto_options o = parse_auto("auto:window=7,wait=0.5,harm=0.1");
  EXPECT_EQ(o.window, 7U);
  auto_rule rule(o);
  EXPECT_FALSE(rule.judge({200, 1.0, 0, 0.4}, "sync"));
  EXPECT_TRUE(rule.judge({200, 1.0, 0, 0.6}, "sync"));
  EXPECT_FALSE(rule.judge({200, 1.05, 3, 0}, "async"));
  EXPECT_TRUE(rule.judge({200, 1.15, 3, 0}, "async"));
}

TEST(AutoRule, RefusesSettingsThatMakeNoSense) {
  for (const char* text : {"auto:window=0", "auto:wait=1", "auto:wait=0", "auto:harm=-1", "auto:windows=5"})
    EXPECT_THROW(parse_auto(text), std::invalid_argument) << text; // twice a wait of 0 would be no longer
}

} // namespace
} // namespace mailgrad
