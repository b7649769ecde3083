#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/protocol/run_messages.hpp>
#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/remote/watcher.hpp>

#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/actors/remote/open_run.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Workers that are cut off from a run and come back by themselves. Server and workers are systems of their
// own in this process, which meet by way of sockets alone.

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

  watcher(run.address()).ask("stop");
  EXPECT_EQ(worker.here().wait().reason, net::end_reason::left);
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
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
  watcher(run.address()).ask("stop");
  EXPECT_EQ(worker.here().wait().reason, net::end_reason::left);
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
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
  watcher(run.address()).ask("stop");
  EXPECT_EQ(worker.here().wait().reason, net::end_reason::left);
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  EXPECT_EQ(run.report().ended, "stopped");
}

TEST(Rejoining, SaysThatTheServerIsGone) {
  open_run run(endless("async", 2), 2);
  membership stays(run.address(), {});
  fragile_worker worker(run.address());
  worker.break_off();
  run.wait_for_event("lost worker 1");
  watcher(run.address()).ask("stop");
  run.report();
  worker.go_on();
  const net::ending end = worker.here().wait();
  EXPECT_EQ(end.reason, net::end_reason::absent);
  EXPECT_EQ(end.words, "an outage; the server is gone: nobody listens there any more");
}

TEST(Rejoining, EndsWithTheWordsOfANetworkThatConnectsNobody) {
  open_run run(endless("async", 2), 2);
  membership stays(run.address(), {});
  fragile_worker worker(run.address());
  worker.fail_to_connect();
  worker.break_off();
  worker.go_on();
  const net::ending end = worker.here().wait();
  EXPECT_EQ(end.reason, net::end_reason::failed);
  EXPECT_EQ(end.words, "an outage; cannot come back: it has failed before");
  watcher(run.address()).ask("stop");
  run.report();
}

TEST(Rejoining, JoinsNoOtherRunAtTheSameAddress) {
  std::optional<open_run> run(std::in_place, endless("async", 2), 2);
  const std::string address = run->address();
  std::optional<membership> stays(std::in_place, address, join_options{});
  fragile_worker worker(address);
  worker.break_off();
  run->wait_for_event("lost worker 1");
  watcher(address).ask("stop");
  run->report();
  stays.reset();
  run.reset();
  open_run other(endless("async", 1), 1, address);
  worker.go_on();
  EXPECT_THAT(
      worker.here().wait().words,
      AllOf(StartsWith("an outage; cannot come back: server refuses: run: expected"), HasSubstr(", found ")));
  membership one(address, {});
  ASSERT_TRUE(one.wait_for_begin(20s)); // a run waits for another if it left before
  one.leave();
  other.report();
}

TEST(Rejoining, EndsWhenItIsToLeaveMeanwhile) {
  open_run run(endless("async", 2), 2);
  membership stays(run.address(), {});
  fragile_worker worker(run.address());
  worker.break_off();
  worker.here().leave();
  worker.go_on();
  const net::ending end = worker.here().wait();
  EXPECT_EQ(end.reason, net::end_reason::left);
  EXPECT_EQ(end.words, "it left while it was cut off: an outage");
  watcher(run.address()).ask("stop");
  run.report();
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
  watcher(run.address()).ask("stop");
  EXPECT_EQ(worker.here().wait().reason, net::end_reason::left);
  run.report();
}

TEST(Rejoining, RefusesANegativeTime) {
  EXPECT_THAT([] { membership("127.0.0.1:1", {.rejoin = -1ms}); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("negative")));
}

TEST(Joining, RefusesAGpuThatIsNotThere) {
  EXPECT_THAT(
      [] {
        membership("127.0.0.1:1", {.devices = {{device_kind::cuda, 99}}});
      },
      ::testing::ThrowsMessage<device_error>(
          AllOf(HasSubstr("device cuda:99 is not available; this machine has"), Not(HasSubstr("\n")))));
}

TEST(Joining, RefusesNoDeviceAndOneThatIsThereTwice) {
  EXPECT_THAT([] { membership("127.0.0.1:1", {.devices = {}}); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("found none")));
  EXPECT_THAT(
      [] {
        membership("127.0.0.1:1", {.devices = {{device_kind::cpu, 1}, {device_kind::cpu, 1}}});
      },
      ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("would have cpu:1 twice")));
}

} // namespace
} // namespace mailgrad::remote
