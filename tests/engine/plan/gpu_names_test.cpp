#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::words_of_refusal;
using namespace ::testing;

class GpuNames : public ::testing::Test {
protected:
  ~GpuNames() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static void let_machine_have(const std::vector<std::string>& names,
                               simulated_gpu::machine what = simulated_gpu::machine::complete) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.gpus = static_cast<std::uint32_t>(names.size());
    s.names = names;
    s.has = what;
    simulated_gpu::set_up(s);
  }
};

TEST_F(GpuNames, StandInTheRefusalOfADeviceThatIsWrongOrMissing) {
  let_machine_have({"A100", "A100"});
  for (const char* text : {"gpu:0", "CUDA:0", "cuda:x", "cuda:0/", "cpu:0/1", ""})
    EXPECT_THAT(words_of_refusal([text] { named_device(text); }),
                AllOf(StartsWith("device '" + std::string(text) + "': "),
                      HasSubstr("; this machine has cpu:0"), EndsWith(", cuda:0, cuda:1")));
  EXPECT_EQ(named_device("cuda:1/2"), (device{device_kind::cuda, 1, 2}));
  let_machine_have({"A100"});
  for (const device missing : {device{device_kind::cpu, 4096}, device{device_kind::cuda, 1}})
    EXPECT_THAT(
        words_of_refusal([missing] { require_here(missing); }),
        AllOf(StartsWith("device " + to_string(missing) + " is not available; this machine has cpu:0"),
              EndsWith(", cuda:0")));
}

TEST_F(GpuNames, AreReplacedByTheReasonWhyThereIsNoGpu) {
  let_machine_have({"A100"}, simulated_gpu::machine::without_driver);
  EXPECT_THAT(words_of_refusal([] { named_device("gpu"); }), HasSubstr(", and no GPU: "));
  EXPECT_THAT(words_of_refusal([] { require_here({device_kind::cpu, 4096}); }), HasSubstr(", and no GPU: "));
}

using words = std::vector<std::string>;

class GpuReplayPlaces : public GpuNames {
protected:
  void SetUp() override { let_machine_have({"A100", "H100"}); }

  /// Of a run of two workers and four shards; "" of what it does not tell.
  static recording told(const std::string& computers, const std::string& updaters, const words& options) {
    recording r;
    r.header.workers = 2;
    r.header.shards = 4;
    r.header.facts = facts(computers, updaters);
    r.header.words = options;
    return r;
  }
  static run_facts facts(const std::string& computers, const std::string& updaters) {
    run_facts all;
    if (!computers.empty()) all.emplace_back(computers_fact, computers);
    if (!updaters.empty()) all.emplace_back(updaters_fact, updaters);
    return all;
  }

  /// For workers alone.
  static std::string remedy(const std::string& computers, const std::string& here, const words& options) {
    return places_that_would_do(told(computers, "", options), facts(here, ""));
  }
  /// For weights alone.
  static std::string remedy_for_weights(const std::string& updaters, const std::string& here,
                                        const words& options) {
    return places_that_would_do(told("", updaters, options), facts("", here));
  }
};

const std::string cores = "the host, the host";

TEST_F(GpuReplayPlaces, AreThoseOfTheRecordingIfTheyAreHere) {
  const std::string as_recorded = "; leave --devices out";
  EXPECT_EQ(remedy("H100, H100", cores, {"--devices=cuda:1,cuda:1/1"}), as_recorded);
  EXPECT_EQ(remedy("H100, H100", "A100, A100", {"--steps=2", "--devices=cuda:1, cuda:1/1"}), as_recorded);
  EXPECT_EQ(remedy("A100 and the host, H100 and the host", cores, {"--devices=cuda:0,cpu:0,cuda:1,cpu:0"}),
            as_recorded);
  EXPECT_EQ(remedy("", "A100, A100", {"--devices=cpu:0,cpu:0"}), as_recorded);
  EXPECT_EQ(remedy("", "A100", {"--devices=cpu:0"}), "; replay it with cores in --devices")
      << "of one worker";
  EXPECT_EQ(remedy("", "A100, A100", {"--devices=cuda:0,cuda:0/1"}), "; replay it with cores in --devices");
}

TEST_F(GpuReplayPlaces, AreLookedUpByNameAmongTheGpusOfThisMachine) {
  const std::string with = "; replay it with --devices ";
  EXPECT_EQ(remedy("H100, H100", cores, {"--devices=cuda:0,cuda:0/1"}), with + "cuda:1,cuda:1/1");
  EXPECT_EQ(remedy("H100, A100", "A100, H100", {"--devices=cuda:0,cuda:1"}), with + "cuda:1,cuda:0");
  EXPECT_EQ(remedy("H100, H100", cores, {"--devices=cuda:7,cuda:7/1"}), with + "cuda:1,cuda:1/1")
      << "there is no such GPU";
  EXPECT_EQ(remedy("H100, the host", cores, {"--devices=cpu:0,cpu:0"}), with + "cuda:1,cpu:0")
      << "workers of other processes brought theirs";
  EXPECT_EQ(remedy("H100 and the host, H100 and the host", cores, {}), with + "cuda:1,cpu:0,cuda:1/1,cpu:0");
  EXPECT_EQ(remedy("the host and the host, the host", "A100, A100", {}), with + "cpu:0,cpu:1,cpu:0");
  EXPECT_EQ(remedy("", "A100, A100", {}), "; replay it with cores in --devices");
}

TEST_F(GpuReplayPlaces, AreNoneIfAGpuIsMissingOrDevicesAreNotToBlame) {
  EXPECT_EQ(remedy("H100, B200", cores, {"--devices=cuda:0,cuda:1"}), "; this machine has no GPU 'B200'");
  EXPECT_EQ(remedy_for_weights("B200", "the host", {}), "; this machine has no GPU 'B200'");
  EXPECT_EQ(remedy("H100, H100", "H100, H100", {"--devices=cuda:0,cuda:0/1"}), "");
  EXPECT_EQ(remedy("H100, H100", "", {}), "") << "workers of other processes have not come yet";
  EXPECT_EQ(remedy("", "", {}), "");
  EXPECT_EQ(remedy_for_weights("H100", "H100", {}), "");
  let_machine_have({});
  EXPECT_EQ(remedy("H100, H100", cores, {}), "; this machine has no GPU 'H100'");
}

TEST_F(GpuReplayPlaces, AreNamedForWeightsAsForWorkers) {
  const std::string as_recorded = "; leave --parameters out", with = "; replay it with --parameters ";
  EXPECT_EQ(remedy_for_weights("H100", "A100", {"--parameters=cuda:1"}), as_recorded);
  EXPECT_EQ(remedy_for_weights("", "A100", {"--steps=2"}), as_recorded);
  EXPECT_EQ(remedy_for_weights("", "A100", {}), with + "host");
  EXPECT_EQ(remedy_for_weights("H100", "A100", {"--parameters=cuda:0"}), with + "cuda:1");
  const std::string in_turn = "the host, H100, the host, H100";
  EXPECT_EQ(remedy_for_weights(in_turn, "the host", {"--parameters=host,cuda:1"}), as_recorded);
  EXPECT_EQ(remedy_for_weights(in_turn, "the host", {"--parameters=host,cuda:0"}), with + "host,cuda:1");
  EXPECT_EQ(remedy_for_weights("A100, H100, H100, A100", "the host", {}), with + "cuda:0,cuda:1,cuda:1");
}

TEST_F(GpuReplayPlaces, AreNamedForWorkersAndWeightsInOneLine) {
  const auto both = [](const words& options) {
    return places_that_would_do(told("H100, H100", "H100", options), facts("A100, A100", "A100"));
  };
  EXPECT_EQ(both({"--devices=cuda:1,cuda:1/1", "--parameters=cuda:1"}),
            "; leave --devices and --parameters out");
  EXPECT_EQ(both({"--devices=cuda:0,cuda:0/1", "--parameters=cuda:0"}),
            "; replay it with --devices cuda:1,cuda:1/1 and --parameters cuda:1");
  EXPECT_EQ(both({"--devices=cuda:0,cuda:0/1", "--parameters=cuda:1"}),
            "; leave --parameters out; replay it with --devices cuda:1,cuda:1/1");
}

} // namespace
} // namespace mailgrad
