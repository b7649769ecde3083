#include <mailgrad/actors/remote/member_handlers.hpp>
#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// What the host of a process does with the terms that the server tells it, one message at a time.

namespace mailgrad::remote {
namespace {

using mailgrad::testing::options_for;
using mailgrad::testing::small_data;
using mailgrad::testing::small_model;
using ::testing::HasSubstr;

/// A network without connections, which does at once what is posted.
class instant_network final : public net::network {
public:
  std::string listen(net::server_end&, const std::string& address) override { return address; }
  void connect(net::client_end&, const std::string&) override {}
  void forget(net::endpoint&) override {}
  net::instant now() const noexcept override { return net::instant{0}; }
  void post(net::endpoint&, std::function<void(net::instant)> work) override { work(now()); }
};

/// Both sides of a session, as a part of a test.
struct two_sides final : net::joined_sessions<layers_below_a_channel> {
  void TestBody() override {}
};

class Hosts : public mailgrad::testing::DeterministicTest {
protected:
  Hosts() {
    sides_.above_client.above = way_.get();
    way_->attach(end_, sides_.client);
    sides_.join();
  }
  ~Hosts() override {
    way_->give_up("the test has ended");
    run();
  }

  /// A worker of two devices with a model in two stages, or a shard.
  static run_plan plan(const optimizer_options& rule = {}) {
    training_options o = options_for("async", 2);
    o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
    o.workers = 1;
    if (!std::holds_alternative<sgd_options>(rule.rule)) o.optimizer = rule;
    return plan_run(pipelined(small_model()), small_data(), o);
  }

  void start_worker(std::vector<device> devices) {
    worker_host_options o;
    o.by = way_;
    o.devices = std::move(devices);
    o.time = time_;
    o.on_begin = [this](const caf::actor& worker, const worker_peers&) { worker_ = worker; };
    host_ = start<worker_host>(std::move(o));
    tell(host_, terms_given{write_terms(plan(), terms_of(plan(), rank{0}))});
  }
  void start_shard(const shard_terms& terms, known_plugins plugins) {
    shard_host_options o{
        way_, nullptr, "127.0.0.1:0", [] { return net::timing{}; }, time_, [](const auto&, const auto&) {}};
    o.plugins = std::move(plugins);
    host_ = start<shard_host>(std::move(o));
    tell(host_, terms_given{write_terms({terms})});
  }
  std::string words_of_the_end() const {
    const auto& end = sides_.client.outcome();
    return end ? end->words : "it goes on";
  }

  two_sides sides_;
  instant_network network_;
  std::shared_ptr<channel> way_ = std::make_shared<channel>(network_, channel_events{});
  net::client_end end_{{}, sides_.above_client, sides_.now}; // only its address counts
  caf::actor host_, worker_;
};

/// Its text would move the cursor of a terminal, or fill a log.
TEST_F(Hosts, SayNothingOfAMessageThatIsNotForThem) {
  start_worker({{device_kind::cpu, 4}, {device_kind::cpu, 2}});
  for (const caf::actor& host :
       {host_,
        start<worker_handler>(
            way_, [] { return std::string(); }, caf::actor(), std::make_shared<run_verdict>()),
        start<shard_handler>(way_, "", [](const std::string&) {}),
        start<watcher_handler>(way_, run_answers())}) {
    ::testing::internal::CaptureStderr();
    tell(host, run_answered{1, false, "\x1b[2J"});
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    tell(host, give_up{});
  }
}

TEST_F(Hosts, RefuseTermsOfAnotherNumberOfDevices) {
  start_worker({{device_kind::cpu, 0}});
  EXPECT_THAT(words_of_the_end(), HasSubstr("cannot do this work: expected 2 devices, found 1"));
  EXPECT_FALSE(worker_);
}

TEST_F(Hosts, SpawnAWorkerOverItsOwnDevices) {
  start_worker({{device_kind::cpu, 4}, {device_kind::cpu, 2}});
  EXPECT_EQ(words_of_the_end(), "it goes on");
  ASSERT_TRUE(worker_);
  const auto books = ask<worker_books>(worker_, copy_books{}).heard<worker_books>();
  ASSERT_EQ(books.size(), 1U);
  messaging::kill(worker_); // its stages end as well, or else this test does not
  worker_ = nullptr;
}

TEST_F(Hosts, RefuseARuleOfTheUsersOwnThatTheyLack) {
  const run_plan with_own = plan({.rule = make_custom_rule(rule_table<mailgrad::testing::own_momentum>)});
  start_shard(terms_of(with_own, shard_index{0}, {}), {});
  EXPECT_THAT(words_of_the_end(),
              HasSubstr("cannot hold these shards: optimizer 'own-momentum' of the run: expected a program"));
}

TEST_F(Hosts, RefuseAPluginThatTheyLack) {
  shard_terms terms = terms_of(plan(), shard_index{0}, {});
  terms.policy = "./theirs.so:1";
  terms.plugins = {{"./theirs.so", std::string(64, 'a')}};
  start_shard(terms, {});
  EXPECT_THAT(words_of_the_end(),
              HasSubstr("plug-in './theirs.so' of the run: expected one with a policy or a "
                        "cure and SHA-256 " +
                        std::string(64, 'a') + " here, found none"));
}

TEST_F(Hosts, LoadNoPluginWhoseSumTheyAreNotTold) {
  shard_terms terms = terms_of(plan(), shard_index{0}, {});
  terms.policy = "./theirs.so:1";
  start_shard(terms, {});
  EXPECT_THAT(words_of_the_end(), HasSubstr("a plug-in is loaded by the process that names it"));
}

TEST_F(Hosts, RefuseAnotherParameterActor) {
  shard_terms terms = terms_of(plan(), shard_index{0}, {});
  terms.parameter_actor = "theirs";
  start_shard(terms, {});
  EXPECT_THAT(words_of_the_end(),
              HasSubstr("cannot hold these shards: parameter actor: expected 'theirs', found Mailgrad's"));
}

} // namespace
} // namespace mailgrad::remote
