#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/parameter_host.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tests/actors/remote/driven_network.hpp>
#include <mailgrad/tests/actors/remote/open_run.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// What becomes of a run when a GPU fails on which a worker of another process computes.

namespace mailgrad::remote {
namespace {

using mailgrad::testing::options_for;
using mailgrad::testing::small_data;
using mailgrad::testing::small_model;
using ::testing::HasSubstr;

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
    training_options again = o;
    again.replay = std::make_shared<const recording>(read_recording(std::exchange(again.record, "")));
    again.devices = {{device_kind::cpu, 0}, {device_kind::cuda, 0}};
    const training_report here = train(small_model(), small_data(480), again);
    EXPECT_EQ(here.ended, "completed") << here.why;
    EXPECT_EQ(here.parameters_sha256, r.report.parameters_sha256);
  }
}

TEST_F(LostGpu, IsALostWorkerOverALinkThatIsLateAndLosesFrames) {
  const training_options o = in_step("sync");
  const std::uint64_t calls = calls_of(o);
  for (std::uint64_t seed = 1; seed < 5; ++seed) {
    spread s;
    s.network = std::make_shared<driven_network>(seed, net::weather{.delay = std::chrono::microseconds{300},
                                                                    .jitter = std::chrono::milliseconds{2},
                                                                    .loss = 0.002});
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
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("all workers are lost, the last of them worker 0: "));
  EXPECT_THAT(r.why, HasSubstr("its GPU failed in step "));
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

/// Of workers that share a process, one whose device fails ends the run, which may go on elsewhere.
TEST_F(LostGpu, EndsARunOfOneProcessInOrderWithACheckpoint) {
  training_options o = in_step("sync");
  o.devices = {{device_kind::cpu, 0}, {device_kind::cuda, 0}};
  const auto trained = [&](std::optional<std::uint64_t> n) {
    fail_at(n);
    training_report r = train(small_model(), small_data(480), o);
    const std::uint64_t calls = simulated_gpu::count().calls;
    fail_at({});
    return std::pair(r, calls);
  };
  const std::uint64_t calls = trained({}).second;
  o.checkpoints = {.folder = file("kept"), .every_steps = 10};
  const training_report r = trained(calls * 5 / 8).first;
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("worker 1 at its step "));
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
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
  EXPECT_EQ(r.report.ended, "failed");
  EXPECT_THAT(r.report.why, HasSubstr("worker 1 at its step "));
  EXPECT_TRUE(r.report.ledger.balances()) << to_string(r.report.ledger);
  ASSERT_TRUE(r.report.checkpoints);
  EXPECT_FALSE(r.report.checkpoints->last.empty());
}

/// No worker can go on without them.
TEST_F(LostGpu, FailsARunWhoseWeightsLieOnIt) {
  training_options o = in_step("sync");
  o.parameters = {{device_kind::cuda, 0}};
  simulated_gpu::set_up(simulated_gpu::default_settings());
  train(small_model(), small_data(480), o);
  const std::uint64_t calls = simulated_gpu::count().calls;
  fail_at(calls * 5 / 8);
  const training_report r = train(small_model(), small_data(480), o);
  fail_at({});
  EXPECT_EQ(r.ended, "failed");
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
}

} // namespace
} // namespace mailgrad::remote
