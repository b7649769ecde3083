#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/protocol/run_messages.hpp>
#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>

// Workers that are cut off from a run and come back by themselves. Server and workers are systems of their
// own in this process, which meet by way of sockets alone.

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using net::end_reason, net::refusal_code;
using ::testing::AllOf, ::testing::Contains, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::Not,
    ::testing::StartsWith, ::testing::ThrowsMessage;

/// TCP whose last connection a test can break, as an outage of the network does.
class breakable_network final : public net::network {
public:
  std::string listen(net::server_end& server, const std::string& address) override {
    return tcp_.listen(server, address);
  }
  void connect(net::client_end& client, const std::string& address) override {
    if (has_failed_) throw std::runtime_error("it has failed before");
    client_ = &client;
    tcp_.connect(client, address);
  }
  void forget(net::endpoint& e) override { tcp_.forget(e); }
  void post(net::endpoint& e, std::function<void(net::instant)> work) override {
    tcp_.post(e, std::move(work));
  }
  net::instant now() const noexcept override { return tcp_.now(); }

  /// It connects nobody any more, as MPI once it has failed.
  void fail() { has_failed_ = true; }
  void break_off(std::function<void()> then) {
    net::client_end* client = client_;
    tcp_.post(*client, [client, then = std::move(then)](net::instant now) {
      client->own().end({net::end_reason::silent, "an outage"}, now);
      then();
    });
  }

private:
  net::tcp_network tcp_;
  std::atomic<net::client_end*> client_{nullptr};
  std::atomic<bool> has_failed_{false};
};

/// A worker that can be cut off, with what it tells. It waits for go_on() before it tries to come back.
class fragile_worker {
public:
  explicit fragile_worker(const std::string& address) {
    join_options o;
    o.network = network_;
    o.rejoin = 60s;
    o.on_event = [this](const std::string& words) { take(words); };
    here_.emplace(address, o);
    EXPECT_TRUE(here_->wait_for_begin(20s));
  }
  ~fragile_worker() { go_on(); }
  membership& here() { return *here_; }

  void fail_to_connect() { network_->fail(); }
  /// Returns when the worker knows, and has not tried to come back. `then` is called at once.
  void break_off(std::function<void()> then = [] {}) {
    std::size_t before = 0;
    {
      const std::lock_guard lock(mutex_);
      may_go_on_ = false;
      before = events_.size();
    }
    network_->break_off(std::move(then));
    wait_for_events(before + 1);
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    may_go_on_ = true;
    changed_.notify_all();
  }
  std::vector<std::string> wait_for_events(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return events_.size() >= count; }));
    return events_;
  }
  void expect_end(net::end_reason reason, const std::string& words) {
    EXPECT_EQ(here_->wait().reason, reason);
    EXPECT_EQ(here_->wait().words, words);
  }

private:
  void take(const std::string& words) {
    std::unique_lock lock(mutex_);
    events_.push_back(words);
    changed_.notify_all();
    changed_.wait(lock, [this] { return may_go_on_; });
  }

  std::mutex mutex_; ///< guards the three members below
  std::condition_variable changed_;
  bool may_go_on_ = true;
  std::vector<std::string> events_;
  std::shared_ptr<breakable_network> network_ = std::make_shared<breakable_network>();
  std::optional<membership> here_; ///< ends first
};

struct RejoiningUnder : ::testing::TestWithParam<const char*> {};

TEST_P(RejoiningUnder, ComesBackAsTheNextIncarnation) {
  open_run run(endless(GetParam(), 2), 2);
  membership stays(run.address(), {.number = 0});
  fragile_worker worker(run.address());
  const caf::actor before = worker.here().worker();
  std::promise<void> gone;
  before->attach_functor([&](const caf::error&) { gone.set_value(); });
  worker.break_off();
  run.wait_for_event("lost worker 1 (incarnation 1)");
  worker.go_on();
  EXPECT_THAT(worker.wait_for_events(2), ElementsAre("worker 1 (incarnation 1) is cut off: an outage",
                                                     "worker 1 is back as incarnation 2"));
  EXPECT_EQ(worker.here().name(), "worker 1 (incarnation 2)");
  EXPECT_EQ(gone.get_future().wait_for(20s), std::future_status::ready) << "the earlier worker ends";
  ASSERT_TRUE(worker.here().wait_for_begin(20s));
  EXPECT_TRUE(worker.here().worker());
  EXPECT_NE(worker.here().worker(), before);
  run.stop({&worker.here(), &stays});
}

INSTANTIATE_TEST_SUITE_P(Policies, RejoiningUnder, ::testing::Values("async", "sync", "ssp:1"),
                         [](const auto& kind) { return mailgrad::testing::test_name(kind.param); });

/// Its last connection is the one to the parameter host.
TEST(Rejoining, FollowsTheLossOfAConnectionToAParameterHost) {
  open_run run(endless("async", 2), 2, "127.0.0.1:0", 1);
  membership stays(run.address(), {.number = 0});
  parameter_host holds(run.address(), parameter_host_options{});
  fragile_worker worker(run.address());
  worker.break_off();
  run.wait_for_event("lost worker 1 (incarnation 1)");
  worker.go_on();
  EXPECT_THAT(
      worker.wait_for_events(2),
      ElementsAre(AllOf(StartsWith("worker 1 (incarnation 1) is cut off: it lost the parameter host at "),
                        HasSubstr(": an outage")),
                  "worker 1 is back as incarnation 2"));
  ASSERT_TRUE(worker.here().wait_for_begin(20s));
  run.stop({&worker.here(), &stays});
}

/// The parameter host tells that the worker is lost, so the server sends it home before it is cut off there.
TEST(Rejoining, TakesBeingSentHomeByALostParameterHostForNoEnd) {
  open_run run(endless("async", 2), 2, "127.0.0.1:0", 1);
  membership stays(run.address(), {.number = 0});
  parameter_host holds(run.address(), parameter_host_options{});
  fragile_worker worker(run.address());
  worker.break_off([device = worker.here().worker()] { messaging::send_anonymously(device, give_up{}); });
  worker.go_on();
  EXPECT_THAT(worker.wait_for_events(2), Contains("worker 1 is back as incarnation 2"));
  run.stop({&worker.here(), &stays});
}

TEST(Rejoining, SaysThatTheServerIsGone) {
  open_run run(endless("async", 2), 2);
  membership stays(run.address(), {});
  fragile_worker worker(run.address());
  worker.break_off();
  run.wait_for_event("lost worker 1");
  run.stop();
  worker.go_on();
  worker.expect_end(net::end_reason::absent, "an outage; the server is gone: nobody listens there any more");
}

TEST(Rejoining, EndsWithTheWordsOfANetworkThatConnectsNobody) {
  open_run run(endless("async", 2), 2);
  membership stays(run.address(), {});
  fragile_worker worker(run.address());
  worker.fail_to_connect();
  worker.break_off();
  worker.go_on();
  worker.expect_end(net::end_reason::failed, "an outage; cannot come back: it has failed before");
  run.stop();
}

TEST(Rejoining, JoinsNoOtherRunAtTheSameAddress) {
  std::optional<open_run> run(std::in_place, endless("async", 2), 2);
  const std::string address = run->address();
  std::optional<membership> stays(std::in_place, address, join_options{});
  fragile_worker worker(address);
  worker.break_off();
  run->wait_for_event("lost worker 1");
  run->stop();
  stays.reset();
  run.reset();
  open_run other(endless("async", 1), 1, address);
  worker.go_on();
  EXPECT_THAT(
      worker.here().wait().words,
      AllOf(StartsWith("an outage; cannot come back: server refuses: run: expected"), HasSubstr(", found ")));
  membership one(address, {});
  other.end_with(one);
}

TEST(Rejoining, EndsWhenItIsToLeaveMeanwhile) {
  open_run run(endless("async", 2), 2);
  membership stays(run.address(), {});
  fragile_worker worker(run.address());
  worker.break_off();
  worker.here().leave();
  worker.go_on();
  worker.expect_end(net::end_reason::left, "it left while it was cut off: an outage");
  run.stop();
}

TEST(Rejoining, WaitsForAFreeNumberAndDrivesNobodyOut) {
  open_run run(endless("async", 2), 2);
  membership stays(run.address(), {});
  fragile_worker worker(run.address());
  worker.break_off();
  run.wait_for_event("lost worker 1");
  std::optional<membership> other(std::in_place, run.address(), join_options{});
  EXPECT_EQ(other->name(), "worker 1 (incarnation 2)");
  ASSERT_TRUE(other->wait_for_begin(20s));
  worker.go_on();
  run.wait_for_event(": place: expected a free place of 2 for workers, found all taken");
  other->leave();
  EXPECT_EQ(other->wait().reason, net::end_reason::left);
  EXPECT_EQ(worker.wait_for_events(2).back(), "worker 1 is back as incarnation 3");
  run.stop({&worker.here()});
}

/// Before it connects.
TEST(Joining, RefusesDevicesAndTimesThatCannotBe) {
  const auto joining_with = [](const std::vector<device>& devices) {
    return [=] { membership("127.0.0.1:1", {.devices = devices}); };
  };
  EXPECT_THAT([] { membership("127.0.0.1:1", {.rejoin = -1ms}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("negative")));
  EXPECT_THAT(joining_with({{device_kind::cuda, 99}}),
              ThrowsMessage<device_error>(AllOf(
                  HasSubstr("device cuda:99 is not available; this machine has"), Not(HasSubstr("\n")))));
  EXPECT_THAT(joining_with({}), ThrowsMessage<std::invalid_argument>(HasSubstr("found none")));
  EXPECT_THAT(joining_with({{device_kind::cpu, 1}, {device_kind::cpu, 1}}),
              ThrowsMessage<std::invalid_argument>(HasSubstr("would have cpu:1 twice")));
}

constexpr net::instant at{100s};

net::welcome as(std::uint32_t number, std::uint32_t incarnation) {
  net::welcome w;
  w.run = 0xabc;
  w.you = {net::role::worker, number};
  w.incarnation = incarnation;
  return w;
}

net::ending refused(refusal_code why) { return {end_reason::refused, "no", why}; }

rejoin_plan cut_off_plan(std::chrono::milliseconds patience) {
  rejoin_plan plan(patience);
  plan.is_in(as(2, 3), at);
  EXPECT_TRUE(plan.is_cut_off({end_reason::silent, ""}, at + 10s));
  return plan;
}

TEST(RejoinPlan, ComesBackFromWhatHappensToConnectionsAlone) {
  rejoin_plan plan(1s);
  plan.is_in(as(2, 3), at);
  for (const end_reason r : {end_reason::silent, end_reason::lost, end_reason::superseded, end_reason::late})
    EXPECT_TRUE(plan.is_cut_off({r, ""}, at)) << to_string(r);
  for (const end_reason r : {end_reason::left, end_reason::malformed, end_reason::out_of_order,
                             end_reason::no_credit, end_reason::refused, end_reason::absent})
    EXPECT_FALSE(plan.is_cut_off({r, ""}, at)) << to_string(r);
  rejoin_plan impatient(0s);
  impatient.is_in(as(2, 3), at);
  EXPECT_FALSE(impatient.is_cut_off({end_reason::lost, ""}, at));
}

TEST(RejoinPlan, AsksForTheNextIncarnationOfItselfInTheSameRun) {
  const net::hello says = cut_off_plan(60s).says();
  EXPECT_EQ(says.part, net::role::worker);
  EXPECT_EQ(says.number, 2U);
  EXPECT_EQ(says.incarnation, 4U);
  EXPECT_EQ(says.says.at("run"), net::key_text(0xabc));
}

TEST(RejoinPlan, TakesAnyNumberWhenAnotherWorkerHasItsOwn) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_TRUE(plan.tries_again_after(refused(refusal_code::incarnation), at + 10s));
  EXPECT_FALSE(plan.says().number);
  EXPECT_EQ(plan.says().incarnation, 0U);
  EXPECT_EQ(plan.says().says.at("run"), net::key_text(0xabc));
  EXPECT_TRUE(plan.tries_again_after(refused(refusal_code::number), at + 10s));
  plan.is_in(as(1, 7), at + 11s);
  EXPECT_EQ(plan.says().number, 1U);
  EXPECT_EQ(plan.says().incarnation, 8U);
}

TEST(RejoinPlan, TriesAtOnceAndThenAfterGrowingPauses) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_EQ(plan.pause(), 0ms);
  for (const auto pause : {50ms, 100ms, 200ms, 400ms, 500ms, 500ms}) {
    EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 10s));
    EXPECT_EQ(plan.pause(), pause);
  }
}

TEST(RejoinPlan, ForgetsPausesOnlyAfterATimeInTheRun) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 10s));
  plan.is_in(as(2, 4), at + 11s);
  EXPECT_TRUE(plan.is_cut_off({end_reason::lost, ""}, at + 11s + 400ms));
  EXPECT_EQ(plan.pause(), 50ms) << "else a worker that is cut off again at once would never pause";
  plan.is_in(as(2, 5), at + 13s);
  EXPECT_TRUE(plan.is_cut_off({end_reason::lost, ""}, at + 16s));
  EXPECT_EQ(plan.pause(), 0ms);
}

TEST(RejoinPlan, GivesUpWhenItsPatienceEnds) {
  rejoin_plan plan = cut_off_plan(5s);
  EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 14s));
  EXPECT_FALSE(plan.tries_again_after({end_reason::lost, ""}, at + 15s));
  EXPECT_TRUE(plan.is_cut_off({end_reason::lost, ""}, at + 30s));
  EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 31s)) << "each time it has all of it";
}

TEST(RejoinPlan, GivesUpWhereNoTryCanSucceed) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_FALSE(plan.tries_again_after({end_reason::absent, ""}, at + 10s));
  EXPECT_FALSE(plan.tries_again_after({end_reason::left, ""}, at + 10s)) << "the run has just ended";
  for (const refusal_code c : {refusal_code::run, refusal_code::protocol, refusal_code::keys,
                               refusal_code::model, refusal_code::role, refusal_code::malformed})
    EXPECT_FALSE(plan.tries_again_after(refused(c), at + 10s)) << to_string(c);
  for (const refusal_code c : {refusal_code::number, refusal_code::full, refusal_code::late,
                               refusal_code::session, refusal_code::incarnation})
    EXPECT_TRUE(plan.tries_again_after(refused(c), at + 10s)) << to_string(c);
}

} // namespace
} // namespace mailgrad::remote
