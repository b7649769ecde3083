#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/optim/plugins/custom_rules.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/test_name.hpp>

#include <gmock/gmock.h>

#include <future>
#include <stdexcept>

// Runs whose workers join over TCP or by shared memory end as runs of one process do. Server and workers are
// systems of their own in this process, which meet by way of sockets alone.

namespace mailgrad::remote {
namespace {

using ::testing::AnyOf, ::testing::HasSubstr, ::testing::Not, ::testing::ThrowsMessage;

struct RemoteRuns : ::testing::TestWithParam<kind_of_run> {};

TEST_P(RemoteRuns, EndWithTheSameWeightsAsInOneProcess) {
  const training_report here = train(GetParam().model, GetParam().data, GetParam().options);
  const training_report there = trained_elsewhere(GetParam());
  EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
  EXPECT_EQ(there.ledger.produced, here.ledger.produced);
  EXPECT_EQ(there.gradient_cosine.count(), here.gradient_cosine.count());
}

INSTANTIATE_TEST_SUITE_P(All, RemoteRuns, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(RemoteTraining, MeasuresTheTimeOnTheWire) {
  for (const std::uint32_t hosts : {0U, 1U}) {
    const training_report there = trained_elsewhere(with("", "async", 2), hosts);
    EXPECT_GT(there.times.wire.count(), 0U) << hosts << " parameter hosts";
    EXPECT_GT(there.times.wire.total(), instant{0});
    EXPECT_LT(there.times.wire.mean_seconds(), 1.0);
    EXPECT_GT(there.times.compute.count(), 0U);
    EXPECT_GT(there.times.mailbox.count(), 0U);
  }
  const training_report here = mailgrad::testing::trained(options_for("async", 2));
  EXPECT_TRUE(here.times.wire.empty()) << "there is no wire in one process";
}

TEST(RemoteTraining, IsReplayedInOneProcessBitForBit) {
  for (const std::uint32_t hosts : {0U, 2U}) {
    SCOPED_TRACE(std::to_string(hosts) + " parameter hosts");
    const scratch_folder folder;
    kind_of_run kind = with("", "async", 3, [&](training_options& o) { o.shards = hosts == 0 ? 2 : 3; });
    kind.options.record = (folder.path() / "recording").string();
    expect_replayed(kind, trained_elsewhere(kind, hosts));
  }
}

TEST(RemoteTraining, IsReplayedInOneProcessWithWorkersOfTwoDevices) {
  const scratch_folder folder;
  for (kind_of_run kind : spanning_kinds()) {
    SCOPED_TRACE(kind.name);
    kind.options.policy = "async";
    kind.options.record = (folder.path() / kind.name).string();
    const training_report there = trained_elsewhere(kind);
    EXPECT_EQ(there.stages.size(), 4U);
    expect_replayed(kind, there);
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
                    ThrowsMessage<join_error>(
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
  run.lose_a_worker();
  membership comes(run.address(), {});
  EXPECT_THAT(comes.name(), HasSubstr("(incarnation 2)"));
  ASSERT_TRUE(comes.wait_for_begin(std::chrono::seconds{20}));
  run.stop({&stays, &comes});
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
    run.lose_a_worker(two);
    membership comes(run.address(), two);
    EXPECT_THAT(comes.name(), HasSubstr("(incarnation 2)"));
    ASSERT_TRUE(comes.wait_for_begin(std::chrono::seconds{20}));
    comes.leave();
    EXPECT_THAT(comes.wait().words, HasSubstr("its owner ended it before the end of the run"));
    run.stop({&stays});
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
  EXPECT_EQ(run.stop({&stays}).ledger.lost, 0U) << "it left when its last gradient was answered";
  EXPECT_THAT(stays.wait().words, Not(HasSubstr("its owner"))) << "it was there to the end";
}

TEST(RemoteTraining, AnswersWatchersBeforeAndWhileItRuns) {
  open_run run(endless("async", 2), 2);
  watcher looks(run.address());
  EXPECT_EQ(looks.ask("status"),
            R"({"waiting": true, "workers": 2, "joined": 0, "attendance": "0 of 2 workers", )"
            R"("members": {"counts":{},"listed":[]}})");
  EXPECT_THAT([&] { looks.ask("switch", "sync"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("waits for 2 workers")));
  membership one(run.address(), {});
  membership two(run.address(), {});
  ASSERT_TRUE(one.wait_for_begin(std::chrono::seconds{20}));
  EXPECT_THAT([&] { looks.ask("switch", "no-such"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no-such")));
  EXPECT_THAT(looks.ask("switch", "ssp:2"), HasSubstr("ssp:2"));
  EXPECT_THAT([&] { looks.ask("destroy"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("expected status, switch or stop")));
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
  run.stop({&here});
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds{20}), std::future_status::ready)
      << "who watches an actor proxy hears of the end of its process";
}

TEST(RemoteTraining, RefusesWhoHasNoSlot) {
  open_run run(endless("async", 1), 1);
  membership one(run.address(), {});
  EXPECT_THAT(
      [&] { membership two(run.address(), {}); },
      ThrowsMessage<join_error>(HasSubstr("place: expected a free place of 1 for workers, found all taken")));
  EXPECT_THAT([&] { membership(run.address(), {.number = 7}); },
              ThrowsMessage<join_error>(HasSubstr("expected one of 1 workers, found worker 7")));
  run.end_with(one);
}

/// A server that says so before anybody joins.
void expect_refused(const training_options& o, const serve_options& serve, const std::string& words) {
  EXPECT_THAT([&] { training(small_model(), small_data(), o, serve); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(words)));
}

TEST(RemoteTraining, RefusesPoliciesThatNeedOneMemory) {
  expect_refused(options_for("hogwild", 1), {}, "hogwild");
}

/// What a message lacks stays at the worker and comes later.
struct LossyRuns : ::testing::TestWithParam<const char*> {};

/// The weights differ from those of float32, and the loss hardly.
TEST_P(LossyRuns, LearnAsWellAsExactOnes) {
  kind_of_run kind = with("", "sync", 2, [](training_options& o) { o.epochs = 20; });
  const training_report exact = trained_elsewhere(kind);
  const training_report lossy = trained_elsewhere(kind, 0, GetParam());
  EXPECT_EQ(lossy.wire, to_string(parse_wire_format(GetParam())));
  EXPECT_NE(lossy.parameters_sha256, exact.parameters_sha256) << "nothing was lost";
  ASSERT_TRUE(lossy.test_loss && exact.test_loss);
  EXPECT_NEAR(*lossy.test_loss, *exact.test_loss, 0.05 * *exact.test_loss + 0.01);
}

TEST_P(LossyRuns, GiveTheSameBitsEachTime) {
  const kind_of_run kind = with("", "sync", 2);
  EXPECT_EQ(trained_elsewhere(kind, 0, GetParam()).parameters_sha256,
            trained_elsewhere(kind, 0, GetParam()).parameters_sha256);
}

INSTANTIATE_TEST_SUITE_P(Formats, LossyRuns,
                         ::testing::Values("float16", "bfloat16", "int8", "top-k:0.25", "1-bit:block=16"),
                         [](const auto& format) { return mailgrad::testing::test_name(format.param); });

struct LossyKinds : ::testing::TestWithParam<kind_of_run> {};

TEST_P(LossyKinds, EndInOrderWithEachFormat) {
  for (const char* format : {"bfloat16", "int8", "top-k:0.1", "1-bit"}) {
    SCOPED_TRACE(format);
    trained_elsewhere(GetParam(), 1, format);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LossyKinds, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(LossyRun, AreNotRecorded) {
  serve_options serve;
  serve.wire = "int8";
  training_options o = options_for("sync", 1);
  o.record = "never-written";
  expect_refused(o, serve, "record: with wire format int8");
  serve.wire = "int7"; // there is no such format
  expect_refused(options_for("sync", 1), serve, "int7");
}

/// A completed run that is made longer ends as one that trains as long at once.
struct LongerRunsOverProcesses : ::testing::TestWithParam<kind_of_run> {};

/// After 13 batches, the last round of sync and that of local steps have only begun.
TEST_P(LongerRunsOverProcesses, EndWithTheWeightsOfALongRunInOneProcess) {
  kind_of_run kind = GetParam();
  kind.options.steps = 24;
  const training_report whole = train(kind.model, kind.data, kind.options);
  for (const std::uint32_t hosts : {0U, 1U}) {
    SCOPED_TRACE(std::to_string(hosts) + " parameter hosts");
    const scratch_folder folder;
    kind_of_run parts = kind;
    parts.options.checkpoints.folder = folder.path().string();
    for (const std::uint64_t steps : {13U, 24U}) {
      parts.options.steps = steps;
      const training_report there = trained_elsewhere(parts, hosts);
      parts.options.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
      if (steps < 24) continue;
      EXPECT_EQ(there.resumed->steps, 13U);
      EXPECT_EQ(there.parameters_sha256, whole.parameters_sha256);
      EXPECT_EQ(there.ledger, whole.ledger);
    }
  }
}

std::vector<kind_of_run> kinds_with_state_at_workers() {
  const auto of = [](const std::string& name, const std::string& policy, const std::string& cure,
                     const std::string& optimizer, std::uint64_t local_steps) {
    return with(name, policy, policy == "sync" ? 2 : 1, [&](training_options& o) {
      o.cure = cure;
      o.optimizer = parse_optimizer(optimizer);
      o.optimizer.learning_rate = 0.05;
      o.local_steps = local_steps;
      o.shards = 2;
    });
  };
  return {of("Sync", "sync", "none", "momentum", 0),
          of("Dana", "async", "dana-zero", "sgd", 0),
          of("DanaSlim", "ssp:1", "dana-slim", "sgd", 0),
          of("LocalSteps", "async", "none", "adam", 3),
          of("LocalStepsInRounds", "sync", "none", "momentum", 2),
          of("ElasticAveraging", "sync", "easgd", "nesterov", 3),
          of("Batches", "k-batch-async:2", "none", "adam", 0)};
}

INSTANTIATE_TEST_SUITE_P(All, LongerRunsOverProcesses, ::testing::ValuesIn(kinds_with_state_at_workers()),
                         [](const auto& run) { return run.param.name; });

/// The samples of a run as a worker of another machine has them: in memory of its own.
std::shared_ptr<local_samples> copy_of(const dataset& samples) {
  return std::make_shared<local_samples>("a copy", std::make_shared<const dataset>(samples));
}

std::uint64_t bytes_of_batches(const training_report& r) {
  std::uint64_t sum = 0;
  for (const batch_origins& b : r.batches) sum += b.spared_bytes;
  return sum;
}

/// Workers that have the samples themselves.
struct OwnData : ::testing::TestWithParam<kind_of_run> {};

TEST_P(OwnData, GivesTheWeightsOfBatchesThatAreSent) {
  const kind_of_run& kind = GetParam();
  const training_report sent = trained_elsewhere(kind);
  const auto own = copy_of(kind.data->train);
  const training_report all = trained_elsewhere(kind, 0, "float32", [&](std::uint32_t) { return own; });
  const training_report mixed =
      trained_elsewhere(kind, 0, "float32", [&](std::uint32_t r) { return r == 0 ? own : nullptr; });
  EXPECT_EQ(all.parameters_sha256, sent.parameters_sha256);
  EXPECT_EQ(mixed.parameters_sha256, sent.parameters_sha256);
  for (std::size_t r = 0; r < all.batches.size(); ++r) {
    EXPECT_EQ(sent.batches[r].own, 0U);
    EXPECT_GT(sent.batches[r].sent, 0U);
    EXPECT_GT(all.batches[r].own, 0U);
    EXPECT_EQ(all.batches[r].sent, 0U);
    EXPECT_EQ(mixed.batches[r].own > 0, r == 0);
    EXPECT_EQ(mixed.batches[r].sent > 0, r != 0);
  }
  EXPECT_EQ(bytes_of_batches(sent), 0U);
  EXPECT_GT(bytes_of_batches(all), kind.data->train.size() * sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(All, OwnData, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(OwnDataOfWorkers, ThatAreOthersAreNamedAndTheBatchesAreSent) {
  const kind_of_run kind = with("", "sync", 2);
  const auto other = std::make_shared<const dataset>(mailgrad::testing::small_samples(48, 9));
  std::string said;
  const training_report r = trained_elsewhere(
      kind, 0, "float32", [&](std::uint32_t) { return std::make_shared<local_samples>("other", other); },
      [&](std::uint32_t worker, const std::string& why) {
        if (worker == 0) said = why;
      });
  EXPECT_EQ(r.parameters_sha256, train(kind.model, kind.data, kind.options).parameters_sha256);
  EXPECT_EQ(r.batches[0].own, 0U);
  EXPECT_THAT(said, HasSubstr("data 'other': expected the 48 training samples of 'small'"));
  EXPECT_THAT(said, HasSubstr(digest_of(kind.data->train)));
  EXPECT_THAT(said, HasSubstr(digest_of(*other)));
}

TEST(OwnDataOfWorkers, IsReplayedInOneProcessBitForBit) {
  const scratch_folder folder;
  kind_of_run kind = with("", "async", 3, [](training_options& o) { o.shards = 2; });
  kind.options.record = (folder.path() / "recording").string();
  const auto own = copy_of(kind.data->train);
  expect_replayed(
      kind, trained_elsewhere(kind, 0, "float32", [&](std::uint32_t r) { return r == 1 ? nullptr : own; }));
}

/// What a lost worker had not trained is dealt again, to whoever has the samples or has not.
TEST(OwnDataOfWorkers, GoesWithAWorkerThatIsLostAndComesAgain) {
  open_run run(endless("sync", 2), 2);
  const auto own = copy_of(mailgrad::testing::small_data(480)->train);
  membership stays(run.address(), {});
  run.lose_a_worker({.samples = own});
  membership comes(run.address(), {.samples = own});
  ASSERT_TRUE(comes.wait_for_begin(std::chrono::seconds{20}));
  comes.leave();
  EXPECT_EQ(comes.wait().reason, net::end_reason::left);
  run.stop({&stays});
}

constexpr std::uint32_t twelve = 12; ///< more than a server has room for, so that they send by turns

kind_of_run of_large_gradients(const std::string& name, const std::string& policy,
                               const std::function<void(training_options&)>& change) {
  kind_of_run kind = with(name, policy, twelve, [&](training_options& o) {
    o.steps = 3 * twelve;
    change(o);
  });
  kind.model = *built_in_model("mlp:hidden=1024x512");
  return kind;
}

struct RunsOfSharedCredit : ::testing::TestWithParam<kind_of_run> {};

TEST_P(RunsOfSharedCredit, EndWithTheWeightsOfOneProcess) {
  const kind_of_run& kind = GetParam();
  const training_report here = train(kind.model, kind.data, kind.options);
  for (const std::uint32_t hosts : {0U, 2U}) {
    if (hosts > kind.options.shards) continue;
    SCOPED_TRACE(std::to_string(hosts) + " parameter hosts");
    const training_report there = trained_elsewhere(kind, hosts);
    EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
    EXPECT_EQ(there.ledger, here.ledger);
  }
}

std::vector<kind_of_run> kinds_of_large_gradients() {
  return {of_large_gradients("OneShard", "sync", [](auto&) {}),
          of_large_gradients("ThreeShards", "sync", [](auto& o) { o.shards = 3; }),
          of_large_gradients("OneBatchMore", "sync", // to the last gradient nobody adds, and it is scaled
                             [](auto& o) {
                               o.steps = 3 * twelve + 1;
                               o.optimizer.clip_norm = 1e-3;
                             }),
          of_large_gradients("LocalSteps", "sync", [](auto& o) {
            o.optimizer = parse_optimizer("adam");
            o.local_steps = 2;
            o.shards = 2;
          })};
}

INSTANTIATE_TEST_SUITE_P(All, RunsOfSharedCredit, ::testing::ValuesIn(kinds_of_large_gradients()),
                         [](const auto& run) { return run.param.name; });

/// The feeder holds workers for each switch while others wait for their turns.
TEST(RunsThatSwitchWithSharedCredit, Complete) {
  const kind_of_run kind =
      of_large_gradients("Switches", "sync, async@17, sync@40, ssp:2@61, sync@77", [](training_options& o) {
        o.shards = 2;
        o.steps = 110;
        o.optimizer.learning_rate = 1e-3; // twelve workers under async diverge by chance at a larger one
      });
  for (const std::uint32_t hosts : {0U, 2U}) EXPECT_EQ(trained_elsewhere(kind, hosts).switches.size(), 4U);
}

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
      EXPECT_EQ(there.policy, here.policy);
      EXPECT_EQ(there.parameters_sha256, here.parameters_sha256) << hosts << " hosts";
    }
  }
}

/// By a parameter host that finds another program.
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
  run.lose_a_worker();
  membership comes(run.address(), {});
  const net::ending end = comes.wait();
  EXPECT_EQ(end.reason, net::end_reason::left);
  EXPECT_THAT(end.words, HasSubstr("this run takes no worker that comes later, since parameter actor "
                                   "'test.twin' cannot tell"));
  run.stop({&stays});
}

kind_of_run by_custom_rule(std::uint64_t local_steps) {
  return with("", "sync", 2, [&](training_options& o) {
    o.shards = 3;
    o.optimizer.rule = make_custom_rule(rule_table<testing::own_momentum>);
    o.local_steps = local_steps;
  });
}

void add_rule(known_plugins& to) { to.add(make_custom_rule(rule_table<testing::own_momentum>)); }

TEST(CustomRuleElsewhere, MakesTheWeightsThatItMakesInOneProcess) {
  kind_of_run kind = by_custom_rule(0);
  kind.at_host = [](parameter_host_options& o) { add_rule(o.plugins); };
  EXPECT_EQ(trained_elsewhere(kind, 2).parameters_sha256,
            train(kind.model, kind.data, kind.options).parameters_sha256);
  kind.at_host = {};
  expect_refused(
      with("", "async", 1, [&](training_options& o) { o.optimizer.rule = kind.options.optimizer.rule; }),
      "optimizer 'own-momentum' of the run: expected a program with this update rule");
}

TEST(CustomRuleElsewhere, TakesLocalStepsAtWorkers) {
  kind_of_run kind = by_custom_rule(2);
  kind.at_worker = [](join_options& o) { add_rule(o.plugins); };
  EXPECT_EQ(trained_elsewhere(kind).parameters_sha256,
            train(kind.model, kind.data, kind.options).parameters_sha256);
}

} // namespace
} // namespace mailgrad::remote
