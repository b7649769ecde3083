#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/watcher.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>

#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/net/ending.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

// Runs whose workers join over TCP or by shared memory end as runs of one process do. Server and workers are
// systems of their own in this process, which meet by way of sockets alone.

namespace mailgrad::remote {
namespace {

using mailgrad::testing::small_data;
using mailgrad::testing::small_model;
using ::testing::AnyOf;
using ::testing::HasSubstr;

struct RemoteRuns : ::testing::TestWithParam<kind_of_run> {};

TEST_P(RemoteRuns, EndWithTheSameWeightsAsInOneProcess) {
  const training_report here = train(GetParam().model, GetParam().data, GetParam().options);
  const training_report there = trained_elsewhere(GetParam());
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
  EXPECT_EQ(there.ledger.produced, here.ledger.produced);
  EXPECT_TRUE(there.ledger.balances());
  EXPECT_EQ(there.gradient_cosine.count(), here.gradient_cosine.count());
}

INSTANTIATE_TEST_SUITE_P(All, RemoteRuns, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(RemoteTraining, MeasuresTheTimeOnTheWire) {
  const training_report there = trained_elsewhere(with("", "async", 2));
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_GT(there.times.wire.count(), 0U);
  EXPECT_GT(there.times.wire.total(), instant{0});
  EXPECT_LT(there.times.wire.mean_seconds(), 1.0);
  EXPECT_GT(there.times.compute.count(), 0U);
  EXPECT_GT(there.times.mailbox.count(), 0U);
  const training_report here = mailgrad::testing::trained(options_for("async", 2));
  EXPECT_TRUE(here.times.wire.empty()) << "there is no wire in one process";
}

TEST(RemoteTraining, IsReplayedInOneProcessBitForBit) {
  const scratch_folder folder;
  kind_of_run kind = with("", "async", 3, [](training_options& o) { o.shards = 2; });
  kind.options.record = (folder.path() / "recording").string();
  const training_report there = trained_elsewhere(kind);
  ASSERT_EQ(there.ended, "completed") << there.why;
  training_options again = kind.options;
  again.record.clear();
  again.replay = std::make_shared<const recording>(read_recording(kind.options.record));
  const training_report here = train(kind.model, kind.data, again);
  EXPECT_EQ(here.ended, "completed") << here.why;
  EXPECT_EQ(here.parameters_sha256, there.parameters_sha256);
}

TEST(RemoteTraining, IsReplayedInOneProcessWithWorkersOfTwoDevices) {
  const scratch_folder folder;
  for (kind_of_run kind : spanning_kinds()) {
    SCOPED_TRACE(kind.name);
    kind.options.policy = "async";
    kind.options.record = (folder.path() / kind.name).string();
    const training_report there = trained_elsewhere(kind);
    ASSERT_EQ(there.ended, "completed") << there.why;
    EXPECT_EQ(there.stages.size(), 4U);
    training_options again = kind.options;
    again.record.clear();
    again.replay = std::make_shared<const recording>(read_recording(kind.options.record));
    const training_report here = train(kind.model, kind.data, again);
    EXPECT_EQ(here.ended, "completed") << here.why;
    EXPECT_EQ(here.parameters_sha256, there.parameters_sha256);
  }
}

TEST(Joining, RefusesAnotherNumberOfDevicesThanAWorkerOfTheRunHas) {
  kind_of_run kind = spanning(with("", "sync", 1), pipelined(small_model()));
  serve_options serve;
  serve.devices = 2;
  std::future<net::ending> member;
  serve.on_listening = [&](const std::string& address) {
    member = std::async(std::launch::async, [address] {
      EXPECT_EQ(watcher(address).devices_per_worker(), 2U);
      const auto join = [&](std::uint32_t devices) {
        join_options o{.devices = {}};
        for (std::uint32_t d = 0; d < devices; ++d) o.devices.push_back({device_kind::cpu, d});
        return membership(address, std::move(o)).wait();
      };
      for (const std::uint32_t devices : {1U, 3U})
        EXPECT_THAT([&] { join(devices); },
                    ::testing::ThrowsMessage<join_error>(
                        HasSubstr("devices of a worker: expected 2, found " + std::to_string(devices))));
      return join(2);
    });
  };
  training run(kind.model, kind.data, kind.options, serve);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_EQ(member.get().reason, net::end_reason::left);
}

/// A policy, and in how many processes the shards are; 0: in the server's.
struct spread_policy {
  std::string policy;
  std::uint32_t hosts = 0;
};

struct RunsOfAnyPolicy : ::testing::TestWithParam<spread_policy> {};

TEST_P(RunsOfAnyPolicy, GoesOnThoughAWorkerIsLostAndAnotherComes) {
  training_options o = endless(GetParam().policy, 2);
  o.shards = 2;
  open_run run(o, 2, "127.0.0.1:0", GetParam().hosts);
  std::vector<std::unique_ptr<parameter_host>> hosts;
  for (std::uint32_t h = 0; h < GetParam().hosts; ++h)
    hosts.push_back(std::make_unique<parameter_host>(run.address(), parameter_host_options{}));
  membership stays(run.address(), {});
  {
    membership dies(run.address(), {});
    ASSERT_TRUE(dies.wait_for_begin(std::chrono::seconds{20}));
    dies.cut();
    run.wait_for_event("lost worker");
  }
  membership comes(run.address(), {});
  EXPECT_THAT(comes.name(), HasSubstr("(incarnation 2)"));
  ASSERT_TRUE(comes.wait_for_begin(std::chrono::seconds{20}));
  watcher(run.address()).ask("stop");
  EXPECT_EQ(stays.wait().reason, net::end_reason::left);
  EXPECT_EQ(comes.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  for (const auto& host : hosts) EXPECT_EQ(host->wait().reason, net::end_reason::left);
}

INSTANTIATE_TEST_SUITE_P(Policies, RunsOfAnyPolicy,
                         ::testing::Values(spread_policy{"async"}, spread_policy{"sync"},
                                           spread_policy{"ssp:1"}, spread_policy{"backup:1"},
                                           spread_policy{"k-async:2"}, spread_policy{"rennala:2"},
                                           spread_policy{"malenia:3"}, spread_policy{"ringleader"},
                                           spread_policy{"ringleader", 2}, spread_policy{"async", 2},
                                           spread_policy{"sync", 2}, spread_policy{"ssp:1", 2},
                                           spread_policy{"backup:1", 1}),
                         [](const auto& kind) {
                           return mailgrad::testing::test_name(kind.param.policy) + "With" +
                                  std::to_string(kind.param.hosts) + "Hosts";
                         });

TEST(RemoteTraining, LosesAWorkerOfTwoDevicesAndTakesAnotherInItsPlace) {
  const join_options two{.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}}};
  for (const char* policy : {"async", "sync"}) {
    SCOPED_TRACE(policy);
    open_run run(endless(policy, 2), 2, "127.0.0.1:0", 0, 2);
    membership stays(run.address(), two);
    {
      membership dies(run.address(), two);
      ASSERT_TRUE(dies.wait_for_begin(std::chrono::seconds{20}));
      dies.cut();
      run.wait_for_event("lost worker");
    }
    membership comes(run.address(), two);
    EXPECT_THAT(comes.name(), HasSubstr("(incarnation 2)"));
    ASSERT_TRUE(comes.wait_for_begin(std::chrono::seconds{20}));
    comes.leave();
    EXPECT_THAT(comes.wait().words, HasSubstr("its owner ended it before the end of the run"));
    watcher(run.address()).ask("stop");
    EXPECT_EQ(stays.wait().reason, net::end_reason::left);
    const training_report r = run.report();
    EXPECT_EQ(r.ended, "stopped") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  }
}

TEST(RemoteTraining, GoesOnWithoutAWorkerThatLeaves) {
  open_run run(endless("sync", 2), 2);
  membership stays(run.address(), {});
  {
    membership leaves(run.address(), {});
    ASSERT_TRUE(leaves.wait_for_begin(std::chrono::seconds{20}));
    leaves.leave();
    const net::ending end = leaves.wait();
    EXPECT_EQ(end.reason, net::end_reason::left);
    EXPECT_THAT(end.words, HasSubstr("its owner ended it before the end of the run"));
    run.wait_for_event("its owner ended it before the end of the run");
  }
  watcher(run.address()).ask("stop");
  const net::ending end = stays.wait();
  EXPECT_EQ(end.reason, net::end_reason::left);
  EXPECT_THAT(end.words, ::testing::Not(HasSubstr("its owner"))) << "it was there to the end";
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_EQ(r.ledger.lost, 0U) << "it left when its last gradient was answered";
}

TEST(RemoteTraining, AnswersWatchersBeforeAndWhileItRuns) {
  open_run run(endless("async", 2), 2);
  watcher looks(run.address());
  EXPECT_EQ(looks.ask("status"),
            R"({"waiting": true, "workers": 2, "joined": 0, "attendance": "0 of 2 workers", )"
            R"("members": {"counts":{},"listed":[]}})");
  EXPECT_THAT([&] { looks.ask("switch", "sync"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("waits for 2 workers")));
  membership one(run.address(), {});
  membership two(run.address(), {});
  ASSERT_TRUE(one.wait_for_begin(std::chrono::seconds{20}));
  EXPECT_THAT([&] { looks.ask("switch", "no-such"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("no-such")));
  EXPECT_THAT(looks.ask("switch", "ssp:2"), HasSubstr("ssp:2"));
  EXPECT_THAT([&] { looks.ask("destroy"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("expected status, switch or stop")));
  looks.ask("stop", "seen enough");
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped");
  EXPECT_EQ(r.why, "seen enough");
}

TEST(RemoteTraining, AnswersWatchersTrulyWhereNoWorkerIsLeft) {
  training_options o = endless("ssp:2", 1);
  o.waits_for_workers = std::chrono::hours{1};
  open_run run(o, 1);
  watcher looks(run.address());
  {
    membership one(run.address(), {});
    ASSERT_TRUE(one.wait_for_begin(std::chrono::seconds{20}));
    one.leave();
    one.wait();
  }
  run.wait_for_event("worker 0 has left");
  EXPECT_EQ(looks.ask("switch", "async"), "policy async begins when a worker has come: the run has none");
  EXPECT_THAT(looks.ask("stop", "enough"), AnyOf("the run ends now: it has no workers", "the run has ended"))
      << "its end may be sooner than its answer";
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "stopped") << r.why;
  EXPECT_EQ(r.why, "enough");
}

TEST(RemoteTraining, LetsHandlesBeSentToAndWatched) {
  open_run run(endless("async", 1), 1);
  membership here(run.address(), {});
  ASSERT_TRUE(here.wait_for_begin(std::chrono::seconds{20}));
  const worker_peers peers = here.peers();
  ASSERT_TRUE(peers.coordinator && peers.feeder && peers.tracker && !peers.shards.empty());
  std::promise<void> gone;
  peers.coordinator->attach_functor([&](const caf::error&) { gone.set_value(); });
  messaging::send_anonymously(peers.coordinator, wait_reason{"a test waits", 1});
  watcher(run.address()).ask("stop");
  EXPECT_EQ(here.wait().reason, net::end_reason::left);
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds{20}), std::future_status::ready)
      << "who watches an actor proxy hears of the end of its process";
  EXPECT_EQ(run.report().ended, "stopped");
}

TEST(RemoteTraining, RefusesWhoHasNoSlot) {
  open_run run(endless("async", 1), 1);
  membership one(run.address(), {});
  EXPECT_THAT([&] { membership two(run.address(), {}); },
              ::testing::ThrowsMessage<join_error>(
                  HasSubstr("place: expected a free place of 1 for workers, found all taken")));
  EXPECT_THAT([&] { membership(run.address(), {.number = 7}); },
              ::testing::ThrowsMessage<join_error>(HasSubstr("expected one of 1 workers, found worker 7")));
  ASSERT_TRUE(
      one.wait_for_begin(std::chrono::seconds{20})); // a run that has not begun would wait for another
  one.leave();
  run.report();
}

TEST(RemoteTraining, RefusesPoliciesThatNeedOneMemory) {
  serve_options serve;
  EXPECT_THAT([&] { training(small_model(), small_data(), options_for("hogwild", 1), serve); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("hogwild")));
}

} // namespace
} // namespace mailgrad::remote
