#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using mailgrad::testing::only, mailgrad::testing::options_for, mailgrad::testing::small_data,
    mailgrad::testing::small_model;
using ::testing::ElementsAre, ::testing::HasSubstr;

/// Both sides of a session, as a part of a test.
struct two_sides final : net::joined_sessions<layers_below_a_channel> {
  void TestBody() override {}
};

/// What the host of a process does with the terms that the server tells it, one message at a time.
class Hosts : public mailgrad::testing::DeterministicTest {
protected:
  Hosts() {
    network_.is_prompt = true;
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
    o.joins.devices = std::move(devices);
    o.joins.time = time_;
    o.on_begin = [this](const caf::actor& worker, const worker_peers&) { worker_ = worker; };
    host_ = start<worker_host>(std::move(o));
    tell(host_, terms_given{write_terms(plan(), terms_of(plan(), rank{0}))});
  }
  void start_shard(const std::function<void(shard_terms&)>& change, const run_plan& of = plan()) {
    shard_terms terms = terms_of(of, shard_index{0}, {});
    change(terms);
    host_ = start<shard_host>(shard_host_options{way_, {.time = time_}, [] { return net::timing{}; }});
    tell(host_, terms_given{write_terms({terms})});
  }
  std::string words_of_the_end() const {
    const auto& end = sides_.client.outcome();
    return end ? end->words : "it goes on";
  }

  two_sides sides_;
  waiting_network network_;
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
  only(ask<worker_books>(worker_, copy_books{}).heard<worker_books>());
  messaging::kill(worker_); // its stages end as well, or else this test does not
  worker_ = nullptr;
}

TEST_F(Hosts, RefuseARuleOfTheUsersOwnThatTheyLack) {
  start_shard([](auto&) {}, plan({.rule = make_custom_rule(rule_table<mailgrad::testing::own_momentum>)}));
  EXPECT_THAT(words_of_the_end(),
              HasSubstr("cannot hold these shards: optimizer 'own-momentum' of the run: expected a program"));
}

TEST_F(Hosts, RefuseAPluginThatTheyLack) {
  start_shard([](shard_terms& terms) {
    terms.policy = "./theirs.so:1";
    terms.plugins = {{"./theirs.so", std::string(64, 'a')}};
  });
  EXPECT_THAT(words_of_the_end(),
              HasSubstr("plug-in './theirs.so' of the run: expected one with a policy or a cure and "
                        "SHA-256 " +
                        std::string(64, 'a') + " here, found none"));
}

TEST_F(Hosts, LoadNoPluginWhoseSumTheyAreNotTold) {
  start_shard([](shard_terms& terms) { terms.policy = "./theirs.so:1"; });
  EXPECT_THAT(words_of_the_end(), HasSubstr("a plug-in is loaded by the process that names it"));
}

TEST_F(Hosts, RefuseAnotherParameterActor) {
  start_shard([](shard_terms& terms) { terms.parameter_actor = "theirs"; });
  EXPECT_THAT(words_of_the_end(),
              HasSubstr("cannot hold these shards: parameter actor: expected 'theirs', found Mailgrad's"));
}

using state = run_member::state;

constexpr net::member second{net::role::worker, 1};

net::welcome terms(std::uint32_t incarnation) { return {.you = second, .incarnation = incarnation}; }

/// All were heard at 9 s.
std::optional<net::instant> heard(const net::member&) { return 9s; }

TEST(MemberList, KnowsWhoIsIn) {
  member_list list;
  list.joined(terms(1), "10.0.0.3:51234", {"cpu:0", "cpu:1"}, 4s);
  const run_member m = only(list.told(10s, heard));
  EXPECT_EQ(m.role, "worker");
  EXPECT_EQ(m.number, 1U);
  EXPECT_EQ(m.is, state::joined);
  EXPECT_EQ(m.since, 6.0);
  EXPECT_EQ(m.heard, 1.0);
  EXPECT_EQ(m.address, "10.0.0.3:51234");
  EXPECT_THAT(m.devices, ElementsAre("cpu:0", "cpu:1"));
  EXPECT_FALSE(list.told(10s, [](const net::member&) { return std::nullopt; })[0].heard) << "not known";
}

TEST(MemberList, TellsWhoLeftFromWhoWasLost) {
  for (const auto& [reason, is] :
       {std::pair{net::end_reason::left, state::left}, std::pair{net::end_reason::silent, state::lost},
        std::pair{net::end_reason::run_failed, state::done}}) {
    member_list list;
    list.joined(terms(1), "here", {}, 1s);
    list.ended(terms(1), {reason, "words"}, 3s, 5s);
    const auto all = list.told(10s, heard);
    EXPECT_EQ(only(all).is, is);
    EXPECT_EQ(all[0].since, 5.0);
    EXPECT_EQ(all[0].heard, 7.0) << "of its own last byte";
    EXPECT_EQ(all[0].why, is == state::done ? "" : "words");
  }
}

/// The server may end the session of an earlier incarnation when a later one has joined.
TEST(MemberList, KeepsTheLastIncarnation) {
  member_list list;
  list.joined(terms(1), "there", {}, 1s);
  list.joined(terms(2), "here", {}, 2s);
  list.ended(terms(1), {net::end_reason::superseded, "another came"}, 1s, 3s);
  const auto all = list.told(10s, heard);
  EXPECT_EQ(only(all).incarnation, 2U);
  EXPECT_EQ(all[0].is, state::joined);
  EXPECT_EQ(all[0].address, "here");
  EXPECT_EQ(all[0].losses, 1U);
  EXPECT_EQ(all[0].why, "another came");
}

TEST(MemberList, RemembersWhyOneThatIsBackWasLost) {
  member_list list;
  list.joined(terms(1), "there", {}, 1s);
  list.ended(terms(2), {net::end_reason::late, "a session that was never complete"}, 2s, 2s);
  EXPECT_EQ(list.told(2s, heard)[0].losses, 0U);
  list.ended(terms(1), {net::end_reason::silent, "no sign of life"}, 1s, 3s);
  EXPECT_EQ(list.told(4s, heard)[0].losses, 1U);
  list.joined(terms(2), "here", {}, 5s);
  run_member back = list.told(10s, heard)[0];
  EXPECT_EQ(back.is, state::joined);
  EXPECT_EQ(back.losses, 1U);
  EXPECT_EQ(back.since, 5.0);
  EXPECT_EQ(back.why, "no sign of life");
  list.ended(terms(2), {net::end_reason::left, "it has had enough"}, 6s, 7s);
  back = list.told(10s, heard)[0];
  EXPECT_EQ(back.is, state::left);
  EXPECT_EQ(back.losses, 1U);
  EXPECT_EQ(back.why, "it has had enough");
}

/// The sessions of all who are in a run end with it, and a worker that is done may go a moment before.
TEST(MemberList, TellsWhoStayedToTheEndFromWhoLeft) {
  member_list list;
  list.joined(terms(1), "here", {}, 1s);
  list.close(3s);
  list.ended(terms(1), {net::end_reason::left, "the run has ended"}, 2s, 3s);
  EXPECT_TRUE(list.is_closed());
  EXPECT_EQ(list.told(4s, heard)[0].is, state::done);
  EXPECT_EQ(list.told(4s, heard)[0].since, 1.0);
  member_list other;
  other.joined(terms(1), "here", {}, 1s);
  other.ended(terms(1), {net::end_reason::left, std::string(work_is_done)}, 2s, 3s);
  EXPECT_EQ(other.told(4s, heard)[0].is, state::done);
}

TEST(MemberList, KnowsWhichShardsAHostHolds) {
  constexpr net::member host{net::role::shard, 0};
  member_list list;
  list.joined({.you = host, .incarnation = 1}, "here", {}, 1s);
  list.holds(host, {0, 2});
  list.holds(second, {1}); // who is not there
  EXPECT_THAT(list.told(10s, heard)[0].shards, ElementsAre(0, 2));
  list.ended({.you = host, .incarnation = 1}, {net::end_reason::lost, "killed"}, 2s, 3s);
  EXPECT_THAT(list.told(10s, heard)[0].shards, ElementsAre(0, 2)) << "those that are lost with it";
}

} // namespace
} // namespace mailgrad::remote
