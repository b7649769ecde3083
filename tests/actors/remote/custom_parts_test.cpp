#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/remote/watcher.hpp>
#include <mailgrad/actors/shard/custom_parameter_actor.hpp>

#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>

// Parameter actors and update rules of the user's own in runs over processes.

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Ours under another name, so that it can do all that ours can.
class twin : public parameter_actor {
public:
  static constexpr const char* name = "test.twin";
  using parameter_actor::parameter_actor;
};

kind_of_run by_twins(const std::string& policy, std::uint32_t workers) {
  kind_of_run kind = with("", policy, workers, [](training_options& o) { o.shards = 3; });
  kind.options.parameter_actor = make_custom_parameter_actor<twin>(true);
  kind.at_host = [](parameter_host_options& o) {
    o.parameter_actor = make_custom_parameter_actor<twin>(true);
  };
  return kind;
}

TEST(CustomParameterActorElsewhere, MakesTheWeightsThatItMakesInOneProcess) {
  for (const char* policy : {"sync", "sync, async@12"}) {
    const kind_of_run kind = by_twins(policy, policy == std::string("sync") ? 2 : 1);
    const training_report here = train(kind.model, kind.data, kind.options);
    for (const std::uint32_t hosts : {0U, 2U}) {
      const training_report there = trained_elsewhere(kind, hosts);
      ASSERT_EQ(there.ended, "completed") << there.why;
      EXPECT_EQ(there.policy, here.policy);
      EXPECT_EQ(there.parameters_sha256, here.parameters_sha256) << hosts << " hosts";
      EXPECT_TRUE(there.ledger.balances()) << to_string(there.ledger);
    }
  }
}

void expect_refused(const kind_of_run& kind, const std::string& words) {
  serve_options serve;
  serve.shard_hosts = 1;
  std::vector<std::future<void>> others;
  serve.on_listening = [&](const std::string& address) {
    others.push_back(std::async(std::launch::async, [address] { membership(address, {}).wait(); }));
    others.push_back(std::async(std::launch::async, [&, address] {
      parameter_host_options o;
      if (kind.at_host) kind.at_host(o);
      EXPECT_THAT(parameter_host(address, std::move(o)).wait().words, HasSubstr(words));
    }));
  };
  EXPECT_THAT([&] { training(kind.model, kind.data, kind.options, serve); },
              ThrowsMessage<std::runtime_error>(HasSubstr(words)));
}

TEST(CustomParameterActorElsewhere, IsRefusedByAHostThatHasAnother) {
  kind_of_run wants = by_twins("async", 1);
  wants.at_host = {};
  expect_refused(wants, "parameter actor: expected 'test.twin', found Mailgrad's");
  kind_of_run has = by_twins("async", 1);
  has.options.parameter_actor.reset();
  expect_refused(has, "parameter actor: expected Mailgrad's, found 'test.twin'");
}

/// Nobody can say which of its gradients were taken, so nobody takes its place.
TEST(CustomParameterActorElsewhere, GoesOnWithoutAWorkerAndLetsNoOtherIn) {
  training_options o = endless("async", 2);
  o.parameter_actor = make_custom_parameter_actor<twin>();
  open_run run(o, 2);
  membership stays(run.address(), {});
  {
    membership dies(run.address(), {});
    ASSERT_TRUE(dies.wait_for_begin(std::chrono::seconds{20}));
    dies.cut();
    run.wait_for_event("lost worker");
  }
  membership comes(run.address(), {});
  const net::ending end = comes.wait();
  EXPECT_EQ(end.reason, net::end_reason::left);
  EXPECT_THAT(end.words, HasSubstr("this run takes no worker that comes later, since parameter actor "
                                   "'test.twin' cannot tell"));
  watcher(run.address()).ask("stop");
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

kind_of_run by_custom_rule(std::uint64_t local_steps) {
  kind_of_run kind = with("", "sync", 2, [&](training_options& o) {
    o.shards = 3;
    o.optimizer.rule = make_custom_rule(rule_table<testing::own_momentum>);
    o.local_steps = local_steps;
  });
  return kind;
}

void add_rule(known_plugins& to) { to.add(make_custom_rule(rule_table<testing::own_momentum>)); }

TEST(CustomRuleElsewhere, MakesTheWeightsThatItMakesInOneProcess) {
  kind_of_run kind = by_custom_rule(0);
  kind.at_host = [](parameter_host_options& o) { add_rule(o.plugins); };
  const training_report there = trained_elsewhere(kind, 2);
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_EQ(there.parameters_sha256, train(kind.model, kind.data, kind.options).parameters_sha256);
  kind.at_host = {};
  expect_refused(
      with("", "async", 1, [&](training_options& o) { o.optimizer.rule = kind.options.optimizer.rule; }),
      "optimizer 'own-momentum' of the run: expected a program with this update rule");
}

TEST(CustomRuleElsewhere, TakesLocalStepsAtWorkers) {
  kind_of_run kind = by_custom_rule(2);
  kind.at_worker = [](join_options& o) { add_rule(o.plugins); };
  const training_report there = trained_elsewhere(kind);
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_EQ(there.parameters_sha256, train(kind.model, kind.data, kind.options).parameters_sha256);
}

} // namespace
} // namespace mailgrad::remote
