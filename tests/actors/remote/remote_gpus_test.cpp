#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/net/simulated_network.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

// Workers of other processes that compute on a GPU, the simulated one. Server and workers are systems of
// their own in this process, which meet by way of sockets or shared memory alone.

namespace mailgrad::remote {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::ThrowsMessage;
using testing::gpu_options;

/// A simulated network for endpoints whose actors have threads of their own: a thread lets its time pass.
///
/// What the network does to bytes is drawn from a seed. When actors answer is not, so a seed does not repeat
/// a run.
/// Threads any.
class driven_network final : public net::network {
public:
  explicit driven_network(std::uint64_t seed, net::weather w = {}) : inner_(seed, w), now_(inner_.now()) {
    driver_ = std::jthread([this](const std::stop_token& over) { drive(over); });
  }
  ~driven_network() override {
    driver_.request_stop();
    driver_.join();
  }

  std::string listen(net::server_end& server, const std::string& address) override {
    const std::lock_guard lock(mutex_);
    known_.insert(&server);
    return inner_.listen(server, address);
  }
  void connect(net::client_end& client, const std::string& address) override {
    const std::lock_guard lock(mutex_);
    known_.insert(&client);
    inner_.connect(client, address);
  }
  void forget(net::endpoint& e) override {
    const std::lock_guard lock(mutex_);
    take_posted();
    inner_.run_until(inner_.now()); // what was posted before
    known_.erase(&e);
    inner_.forget(e);
  }
  net::instant now() const noexcept override { return now_.load(); }
  /// Whoever posts may hold a lock that the network's thread waits for.
  void post(net::endpoint& e, std::function<void(net::instant)> work) override {
    const std::lock_guard lock(posted_mutex_);
    posted_.emplace_back(&e, std::move(work));
  }

private:
  void drive(const std::stop_token& over) {
    while (!over.stop_requested()) {
      {
        const std::lock_guard lock(mutex_);
        take_posted();
        const net::instant next = inner_.now() + std::chrono::microseconds{200};
        inner_.run_until(next);
        now_ = next;
      }
      std::this_thread::yield();
    }
  }
  void take_posted() {
    std::vector<std::pair<net::endpoint*, std::function<void(net::instant)>>> all;
    {
      const std::lock_guard lock(posted_mutex_);
      all.swap(posted_);
    }
    for (auto& [e, work] : all)
      if (known_.contains(e)) inner_.post(*e, std::move(work));
  }

  std::mutex mutex_; ///< of the simulation
  net::simulated_network inner_;
  std::set<net::endpoint*> known_; ///< and not forgotten
  std::atomic<net::instant> now_;
  std::mutex posted_mutex_;
  std::vector<std::pair<net::endpoint*, std::function<void(net::instant)>>> posted_;
  std::jthread driver_;
};

/// The worker computes on this stream of the GPU instead of a core; one of several devices on so many
/// streams.
void onto_gpu(join_options& o) {
  const std::uint32_t each = static_cast<std::uint32_t>(o.devices.size());
  for (std::uint32_t d = 0; d < each; ++d)
    o.devices[d] = {device_kind::cuda, 0, each * o.number.value_or(0) + d};
}

kind_of_run by(const std::string& listen, const std::string& policy, std::uint32_t workers) {
  kind_of_run kind = with("", policy, workers);
  kind.listen = listen;
  kind.at_worker = onto_gpu;
  return kind;
}

/// The weights with which a run over processes ends.
std::vector<float> weights_elsewhere(const kind_of_run& kind) {
  kind_of_run kept = kind;
  std::vector<float> weights;
  kept.at_end = [&](training& run) {
    const auto found = run.parameters();
    weights.assign(found.begin(), found.end());
  };
  trained_elsewhere(kept);
  return weights;
}

class RemoteGpus : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Ways, RemoteGpus, ::testing::Values("127.0.0.1:0", "memory:"), [](const auto& way) {
  return way.param == std::string("memory:") ? "Memory" : "Tcp";
});

TEST_P(RemoteGpus, TrainToTheBitsOfGpusInOneProcess) {
  for (const char* policy : {"sync", "async"}) {
    const std::uint32_t workers = policy == std::string("sync") ? 2 : 1;
    EXPECT_EQ(weights_elsewhere(by(GetParam(), policy, workers)),
              testing::weights_of(gpu_options(policy, workers)))
        << policy;
  }
}

TEST_P(RemoteGpus, TrainToTheWeightsOfCoresInSync) {
  const std::vector<float> there = weights_elsewhere(by(GetParam(), "sync", 2));
  const std::vector<float> here = testing::weights_of(options_for("sync", 2));
  ASSERT_EQ(there.size(), here.size());
  EXPECT_NE(there, here) << "a GPU rounds otherwise, so these would be the weights of cores";
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 1e-5) << i;
}

TEST_P(RemoteGpus, TrainBesideCoresAndBalanceTheLedger) {
  for (const char* policy : {"async", "ssp:1", "sync", "k-async:2"}) {
    kind_of_run kind = by(GetParam(), policy, 3);
    kind.at_worker = [](join_options& o) {
      if (o.number != 1U) onto_gpu(o);
    };
    SCOPED_TRACE(policy);
    EXPECT_THAT(trained_elsewhere(kind).devices, ElementsAre("cuda:0", "cpu:0", "cuda:0/2"));
  }
}

/// Links that are late, lose frames so that they are sent again, and cut bytes as the seed draws.
std::shared_ptr<net::network> drawn_network(std::uint64_t seed) {
  return std::make_shared<driven_network>(seed, net::weather{.delay = std::chrono::microseconds{300},
                                                             .jitter = std::chrono::milliseconds{2},
                                                             .loss = 0.002});
}

struct RemoteGpusOverASimulatedNetwork : ::testing::TestWithParam<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Seeds, RemoteGpusOverASimulatedNetwork, ::testing::Range<std::uint64_t>(1, 6));

TEST_P(RemoteGpusOverASimulatedNetwork, TrainToTheBitsOfGpusInOneProcess) {
  kind_of_run kind = by("the server", "sync", 3);
  kind.network = drawn_network(GetParam());
  EXPECT_EQ(weights_elsewhere(kind), testing::weights_of(gpu_options("sync", 3)));
}

struct RemoteGpusAlone : ::testing::Test {
  std::string file(const std::string& name) const { return (folder.path() / name).string(); }
  /// The recording as options for a replay, on these streams.
  training_options replay_of(const kind_of_run& kind, const std::vector<device>& devices) const {
    training_options again = kind.options;
    again.record.clear();
    again.replay = std::make_shared<const recording>(read_recording(kind.options.record));
    again.devices = devices;
    return again;
  }
  scratch_folder folder;
};

TEST_F(RemoteGpusAlone, AreReplayedOnAGpuOfOneProcessBitForBit) {
  kind_of_run kind = by("127.0.0.1:0", "async", 2);
  kind.options.record = file("run.rec");
  expect_replayed(kind, trained_elsewhere(kind), gpu_options("async", 2).devices);
}

TEST_F(RemoteGpusAlone, StandInTheRecordingSoThatNoCoreReplaysThem) {
  kind_of_run kind = by("127.0.0.1:0", "async", 2);
  kind.at_worker = [](join_options& o) {
    if (o.number == 1U) onto_gpu(o);
  };
  kind.options.record = file("run.rec");
  trained_elsewhere(kind);
  const std::string gpu = cuda::runtime::find_gpus().gpus.front().name;
  const auto facts = read_recording(kind.options.record).header.facts;
  EXPECT_EQ(reported_fact(facts, computers_fact), "the host, " + gpu);
  EXPECT_EQ(reported_fact(facts, products_fact), cuda::format_products());
  EXPECT_THAT([&] { train(kind.model, kind.data, replay_of(kind, options_for("async", 2).devices)); },
              ThrowsMessage<recording_error>(HasSubstr("the arithmetic of workers was the host, " + gpu)));
}

TEST_F(RemoteGpusAlone, DoNotReplayWhatOthersComputed) {
  kind_of_run kind = by("127.0.0.1:0", "async", 1);
  kind.options.record = file("run.rec");
  trained_elsewhere(kind);
  kind_of_run again = by("127.0.0.1:0", "async", 1);
  again.options = replay_of(kind, kind.options.devices);
  EXPECT_EQ(trained_elsewhere(again).parameters_sha256, trained_elsewhere(kind).parameters_sha256);
  again.at_worker = {};
  EXPECT_THAT([&] { trained_elsewhere(again); },
              ThrowsMessage<recording_error>(HasSubstr("the arithmetic of workers was")));
}

/// What was on a GPU when the recording began cannot go on where all compute on the host.
TEST_F(RemoteGpusAlone, DoNotGoOnAsARecordingOfCores) {
  kind_of_run kind = by("127.0.0.1:0", "async", 1);
  kind.options.record = file("run.rec");
  kind.options.steps = 20;
  kind.options.checkpoints = {.folder = file("kept"), .every_steps = 10};
  trained_elsewhere(kind);
  kind_of_run longer = kind;
  longer.options.steps = 40;
  longer.options.resume =
      std::make_shared<const checkpoint>(checkpoint::read(checkpoints_in(file("kept")).front()));
  kind_of_run on_cores = longer;
  on_cores.at_worker = {};
  on_cores.words_of_ends = "the run";
  EXPECT_THAT([&] { trained_elsewhere(on_cores); },
              ThrowsMessage<recording_error>(HasSubstr("and is the host here")));
  EXPECT_THAT([&] { train(kind.model, kind.data, longer.options); },
              ThrowsMessage<recording_error>(HasSubstr("and is the host here")));
  expect_replayed(longer, trained_elsewhere(longer), gpu_options("async", 1).devices);
}

/// Half of the promises of docs/gpus.md: formats in fewer bits, local steps, parameter hosts.
TEST_F(RemoteGpusAlone, MeetByEveryWay) {
  kind_of_run in_steps = with("", "sync", 2, [](training_options& o) { o.local_steps = 3; });
  in_steps.at_worker = onto_gpu;
  struct way {
    kind_of_run kind;
    std::uint32_t hosts;
    const char* wire;
  };
  for (const way& w :
       {way{by("127.0.0.1:0", "async", 2), 0, "bfloat16"}, way{by("127.0.0.1:0", "async", 2), 0, "top-k:0.1"},
        way{in_steps, 0, "float32"}, way{by("127.0.0.1:0", "ssp:1", 2), 1, "float32"}}) {
    const training_report r = trained_elsewhere(w.kind, w.hosts, w.wire);
    EXPECT_THAT(r.devices, ElementsAre("cuda:0", "cuda:0/1"));
    EXPECT_LT(r.final_loss, 1.0) << w.wire << ", " << w.hosts << " hosts";
  }
}

TEST_F(RemoteGpusAlone, SpanStreamsAndCores) {
  kind_of_run kind = spanning(with("", "sync", 2), replicated(small_model()));
  kind.at_worker = onto_gpu;
  const training_report r = trained_elsewhere(kind);
  training_options here = kind.options;
  for (std::uint32_t d = 0; d < here.devices.size(); ++d) here.devices[d] = {device_kind::cuda, 0, d};
  EXPECT_EQ(train(kind.model, kind.data, here).parameters_sha256, r.parameters_sha256);
}

TEST_F(RemoteGpusAlone, RoundToTheirPrecisionAndLetNoCoreIn) {
  kind_of_run kind = by("127.0.0.1:0", "sync", 2);
  kind.options.precision = product_precision::bfloat16;
  training_options here = gpu_options("sync", 2);
  here.precision = product_precision::bfloat16;
  EXPECT_EQ(weights_elsewhere(kind), testing::weights_of(here));
  kind.at_worker = {};
  kind.words_of_ends = "--precision: bfloat16: cpu:0 computes in float32 alone";
  kind.ends = "failed";
  trained_elsewhere(kind);
}

TEST_F(RemoteGpusAlone, DoNotJoinLaterWhereTheRecordingSaysAnotherThing) {
  training_options o = endless("async", 1);
  o.slots = 2;
  o.record = file("run.rec");
  open_run run(o, 1);
  membership first(run.address(), {});
  const auto late = [&](device on) {
    return std::make_unique<membership>(run.address(), join_options{{on}});
  };
  const net::ending refused = late({device_kind::cuda, 0})->wait();
  EXPECT_EQ(refused.reason, net::end_reason::failed);
  EXPECT_THAT(refused.words, HasSubstr("expected the host for worker 1, found "));
  const auto second = late({device_kind::cpu, 0});
  EXPECT_TRUE(second->wait_for_begin(std::chrono::seconds{20}));
  EXPECT_FALSE(second->wait_for(std::chrono::milliseconds{0})) << "it is in";
  run.stop({second.get()});
}

/// How a run is spread.
struct spread {
  std::uint32_t hosts = 0;
  std::uint32_t devices = 1; ///< of each worker
  std::shared_ptr<net::network> network{};
  bool gpu_ends_run = false;
};

/// What is left of it.
struct remains {
  training_report report;
  net::ending worker; ///< that of the worker on the GPU
  std::uint64_t calls = 0;
};

/// What becomes of a run when a GPU fails on which a worker of another process computes.
class LostGpu : public ::testing::Test {
protected:
  /// A run of two workers, the second of which computes on a GPU that fails at its n-th call.
  static remains run_until_lost(const training_options& o, std::optional<std::uint64_t> n,
                                const spread& s = {}) {
    open_run run(o, 2, "127.0.0.1:0", s.hosts, s.devices, s.network);
    std::vector<std::unique_ptr<parameter_host>> hosts;
    for (std::uint32_t h = 0; h < s.hosts; ++h)
      hosts.push_back(
          std::make_unique<parameter_host>(run.address(), parameter_host_options{.listen = "127.0.0.1:0"}));
    join_options core{.devices = {}, .number = 0, .network = s.network}, gpu = core;
    gpu.number = 1;
    gpu.gpu_ends_run = s.gpu_ends_run;
    for (std::uint32_t d = 0; d < s.devices; ++d) {
      core.devices.push_back({device_kind::cpu, d});
      gpu.devices.push_back({device_kind::cuda, 0, d});
    }
    fail_at(n);
    membership on_core(run.address(), std::move(core));
    membership on_gpu(run.address(), std::move(gpu));
    remains all{{}, on_gpu.wait(), 0};
    all.report = run.report();
    all.calls = simulated_gpu::count().calls;
    EXPECT_TRUE(is_in_order(on_core.wait().reason)) << on_core.wait().words;
    fail_at({});
    return all;
  }
  /// The calls of a run whose GPU does not fail.
  static std::uint64_t calls_of(const training_options& o, const spread& s = {}) {
    const remains whole = run_until_lost(o, {}, s);
    EXPECT_EQ(whole.report.ended, "completed") << whole.report.why;
    EXPECT_EQ(whole.worker.reason, net::end_reason::left) << whole.worker.words;
    return whole.calls;
  }
  static void fail_at(std::optional<std::uint64_t> n) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.fail.lost_gpu_at = n;
    simulated_gpu::set_up(s);
  }
  /// Workers in step, so that the one on the core cannot train all before the GPU fails.
  static training_options in_step(const std::string& policy) {
    training_options o = options_for(policy, 2);
    o.shards = 2;
    o.steps = 60;
    o.epochs = 0;
    return o;
  }
  static void expect_lost(const remains& r, const std::string& what) {
    EXPECT_EQ(r.worker.reason, net::end_reason::failed) << what;
    EXPECT_THAT(r.worker.words, HasSubstr("its worker failed: its GPU failed in step ")) << what;
    EXPECT_EQ(r.report.ended, "completed") << what << ": " << r.report.why;
    EXPECT_TRUE(r.report.ledger.balances()) << what << ": " << to_string(r.report.ledger);
    EXPECT_GE(r.report.steps, 60U) << what << ": what no shard had judged is trained by the other worker";
    EXPECT_LT(staleness_of(r.report, 1).total(), staleness_of(r.report, 0).total()) << what;
  }

  /// A run of one process whose GPU fails at its n-th call, and how many calls there were.
  static std::pair<training_report, std::uint64_t> trained(const training_options& o,
                                                           std::optional<std::uint64_t> n) {
    fail_at(n);
    training_report r = train(small_model(), small_data(480), o);
    const std::uint64_t calls = simulated_gpu::count().calls;
    fail_at({});
    return {std::move(r), calls};
  }
  static void expect_failed(const training_report& r, const std::string& why) {
    EXPECT_EQ(r.ended, "failed");
    EXPECT_THAT(r.why, HasSubstr(why));
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  }

  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }
  void TearDown() override { fail_at({}); }

  scratch_folder folder_;
};

struct LostGpuUnder : LostGpu, ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Policies, LostGpuUnder, ::testing::Values("sync", "ssp:1", "k-async:2"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::erase_if(name, [](char c) { return c == ':' || c == '-'; });
                           return name;
                         });

/// As after kill -9 of the worker: the others train on, and the recording repeats what they did.
TEST_P(LostGpuUnder, IsALostWorkerWithoutWhichTheRunGoesOnAndIsReplayed) {
  training_options o = in_step(GetParam());
  const std::uint64_t calls = calls_of(o);
  for (std::uint64_t eighths = 4; eighths < 8; ++eighths) {
    o.record = file("run.rec");
    const remains r = run_until_lost(o, calls * eighths / 8);
    expect_lost(r, std::to_string(eighths) + " of 8");
    expect_replayed({"", o, small_data(480)}, r.report, {{device_kind::cpu, 0}, {device_kind::cuda, 0}});
  }
}

TEST_F(LostGpu, IsALostWorkerOverALinkThatIsLateAndLosesFrames) {
  const training_options o = in_step("sync");
  const std::uint64_t calls = calls_of(o);
  for (std::uint64_t seed = 1; seed < 5; ++seed) {
    const spread s{.network = drawn_network(seed)};
    expect_lost(run_until_lost(o, calls * (3 + seed) / 8, s), "seed " + std::to_string(seed));
  }
}

TEST_F(LostGpu, IsALostWorkerToParameterHosts) {
  const training_options o = in_step("sync");
  expect_lost(run_until_lost(o, calls_of(o, {.hosts = 2}) * 5 / 8, {.hosts = 2}), "two hosts");
}

TEST_F(LostGpu, IsALostWorkerWhoseModelSpansTwoStreams) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  training_options o = in_step("sync");
  o.workers = 2;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}, {device_kind::cpu, 0}, {device_kind::cpu, 1}};
  const spread s{.devices = 2};
  const remains r = run_until_lost(o, calls_of(o, s) * 5 / 8, s);
  expect_lost(r, "two streams");
  EXPECT_THAT(r.worker.words, HasSubstr("its stage on cuda:0"));
}

TEST_F(LostGpu, EndsARunWithoutOtherWorkersInOrder) {
  training_options o = in_step("async");
  const auto alone = [&](std::optional<std::uint64_t> n) {
    open_run run(o, 1);
    fail_at(n);
    membership here(run.address(), {{{device_kind::cuda, 0}}});
    static_cast<void>(here.wait());
    training_report r = run.report();
    const std::uint64_t calls = simulated_gpu::count().calls;
    fail_at({});
    return std::pair(r, calls);
  };
  o.devices.resize(1);
  const std::uint64_t calls = alone({}).second;
  const training_report r = alone(calls / 2).first;
  expect_failed(r, "all workers are lost, the last of them worker 0: ");
  EXPECT_THAT(r.why, HasSubstr("its GPU failed in step "));
}

/// Of workers that share a process, one whose device fails ends the run, which may go on elsewhere.
TEST_F(LostGpu, EndsARunOfOneProcessInOrderWithACheckpoint) {
  training_options o = in_step("sync");
  o.devices = {{device_kind::cpu, 0}, {device_kind::cuda, 0}};
  const std::uint64_t calls = trained(o, {}).second;
  o.checkpoints = {.folder = file("kept"), .every_steps = 10};
  const training_report r = trained(o, calls * 5 / 8).first;
  expect_failed(r, "worker 1 at its step ");
  ASSERT_TRUE(r.checkpoints);
  ASSERT_FALSE(r.checkpoints->last.empty());
  training_options on = in_step("sync");
  on.resume = std::make_shared<const checkpoint>(newest_checkpoint(file("kept")).what);
  EXPECT_EQ(train(small_model(), small_data(480), on).ended, "completed");
}

/// As a launcher's ranks are, of which none may end before the run.
TEST_F(LostGpu, EndsARunInOrderWithACheckpointIfItsProcessMayNotEndAlone) {
  training_options o = in_step("sync");
  const std::uint64_t calls = calls_of(o);
  o.checkpoints = {.folder = file("kept"), .every_steps = 10};
  const remains r = run_until_lost(o, calls * 5 / 8, {.gpu_ends_run = true});
  EXPECT_EQ(r.worker.reason, net::end_reason::run_failed) << r.worker.words;
  expect_failed(r.report, "worker 1 at its step ");
  ASSERT_TRUE(r.report.checkpoints);
  EXPECT_FALSE(r.report.checkpoints->last.empty());
}

/// No worker can go on without them.
TEST_F(LostGpu, FailsARunWhoseWeightsLieOnIt) {
  training_options o = in_step("sync");
  o.parameters = {{device_kind::cuda, 0}};
  expect_failed(trained(o, trained(o, {}).second * 5 / 8).first, "");
}

} // namespace
} // namespace mailgrad::remote
