#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/watcher.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tests/actors/remote/driven_network.hpp>
#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/actors/runs/gpu_options.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Workers of other processes that compute on a GPU, the simulated one. Server and workers are systems of
// their own in this process, which meet by way of sockets or shared memory alone.

namespace mailgrad::remote {
namespace {

using testing::gpu_options;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
  EXPECT_EQ(trained_elsewhere(kept).ended, "completed");
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
    const training_report r = trained_elsewhere(kind);
    EXPECT_EQ(r.ended, "completed") << policy << ": " << r.why;
    EXPECT_TRUE(r.ledger.balances()) << policy << ": " << to_string(r.ledger);
    EXPECT_EQ(r.devices, (std::vector<std::string>{"cuda:0", "cpu:0", "cuda:0/2"}));
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
  const training_report there = trained_elsewhere(kind);
  ASSERT_EQ(there.ended, "completed") << there.why;
  const training_report here = train(kind.model, kind.data, replay_of(kind, gpu_options("async", 2).devices));
  EXPECT_EQ(here.ended, "completed") << here.why;
  EXPECT_EQ(here.parameters_sha256, there.parameters_sha256);
}

TEST_F(RemoteGpusAlone, StandInTheRecordingSoThatNoCoreReplaysThem) {
  kind_of_run kind = by("127.0.0.1:0", "async", 2);
  kind.at_worker = [](join_options& o) {
    if (o.number == 1U) onto_gpu(o);
  };
  kind.options.record = file("run.rec");
  ASSERT_EQ(trained_elsewhere(kind).ended, "completed");
  const std::string gpu = cuda::runtime::find_gpus().gpus.front().name;
  EXPECT_EQ(reported_fact(read_recording(kind.options.record).header.facts, computers_fact),
            "the host, " + gpu);
  EXPECT_EQ(reported_fact(read_recording(kind.options.record).header.facts, products_fact),
            cuda::format_products());
  EXPECT_THAT([&] { train(kind.model, kind.data, replay_of(kind, options_for("async", 2).devices)); },
              ThrowsMessage<recording_error>(HasSubstr("the arithmetic of workers was the host, " + gpu)));
}

TEST_F(RemoteGpusAlone, DoNotReplayWhatOthersComputed) {
  kind_of_run kind = by("127.0.0.1:0", "async", 1);
  kind.options.record = file("run.rec");
  ASSERT_EQ(trained_elsewhere(kind).ended, "completed");
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
  const training_report first = trained_elsewhere(kind);
  ASSERT_EQ(first.ended, "completed") << first.why;
  kind_of_run longer = kind;
  longer.options.steps = 40;
  longer.options.resume =
      std::make_shared<const checkpoint>(checkpoint::read(checkpoints_in(file("kept")).front()));
  kind_of_run on_cores = longer;
  on_cores.at_worker = {};
  on_cores.words_of_ends = "the run";
  EXPECT_THAT([&] { trained_elsewhere(on_cores); },
              ThrowsMessage<recording_error>(HasSubstr("and is the host here")));
  training_options here = longer.options;
  EXPECT_THAT([&] { train(kind.model, kind.data, here); },
              ThrowsMessage<recording_error>(HasSubstr("and is the host here")));
  const training_report r = trained_elsewhere(longer);
  EXPECT_EQ(r.ended, "completed") << r.why;
  training_options again = replay_of(longer, gpu_options("async", 1).devices);
  again.resume.reset();
  again.checkpoints = {};
  EXPECT_EQ(train(kind.model, kind.data, again).parameters_sha256, r.parameters_sha256);
}

/// Half of the promises of docs/gpus.md: formats in fewer bits, local steps, parameter hosts.
TEST_F(RemoteGpusAlone, MeetByEveryWay) {
  const auto local = [](training_options& o) { o.local_steps = 3; };
  kind_of_run in_steps = with("", "sync", 2, local);
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
    EXPECT_EQ(r.ended, "completed") << r.why;
    EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
    EXPECT_EQ(r.devices, (std::vector<std::string>{"cuda:0", "cuda:0/1"}));
    EXPECT_LT(r.final_loss, 1.0) << w.wire << ", " << w.hosts << " hosts";
  }
}

TEST_F(RemoteGpusAlone, SpanStreamsAndCores) {
  kind_of_run kind = spanning(with("", "sync", 2), replicated(small_model()));
  kind.at_worker = onto_gpu;
  const training_report r = trained_elsewhere(kind);
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
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
  EXPECT_EQ(trained_elsewhere(kind).ended, "failed");
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
  watcher(run.address()).ask("stop");
  EXPECT_EQ(second->wait().reason, net::end_reason::left);
  EXPECT_EQ(run.report().ended, "stopped");
}

} // namespace
} // namespace mailgrad::remote
