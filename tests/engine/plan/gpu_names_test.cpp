#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <mailgrad/engine/plan/worker_devices.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::words_of_refusal;

class GpuNames : public ::testing::Test {
protected:
  ~GpuNames() override { simulated_gpu::set_up(simulated_gpu::default_settings()); }

  static void let_machine_have(std::uint32_t gpus, simulated_gpu::machine what) {
    simulated_gpu::settings s = simulated_gpu::default_settings();
    s.gpus = gpus;
    s.has = what;
    simulated_gpu::set_up(s);
  }
};

TEST_F(GpuNames, ThatAreWrongAreRefusedWithTheGpusThatAreThere) {
  let_machine_have(2, simulated_gpu::machine::complete);
  for (const char* text : {"gpu:0", "CUDA:0", "cuda:x", "cuda:0/", "cpu:0/1", ""}) {
    const std::string why = words_of_refusal([text] { named_device(text); });
    EXPECT_THAT(why, StartsWith("device '" + std::string(text) + "': "));
    EXPECT_THAT(why, HasSubstr("; this machine has cpu:0"));
    EXPECT_THAT(why, EndsWith(", cuda:0, cuda:1"));
  }
  EXPECT_EQ(named_device("cuda:1/2"), (device{device_kind::cuda, 1, 2}));
}

TEST_F(GpuNames, StandInTheRefusalOfACoreOrGpuThatIsMissing) {
  let_machine_have(1, simulated_gpu::machine::complete);
  for (const device missing : {device{device_kind::cpu, 4096}, device{device_kind::cuda, 1}}) {
    const std::string why = words_of_refusal([missing] { require_here(missing); });
    EXPECT_THAT(why,
                StartsWith("device " + to_string(missing) + " is not available; this machine has cpu:0"));
    EXPECT_THAT(why, EndsWith(", cuda:0"));
  }
}

TEST_F(GpuNames, AreReplacedByTheReasonWhyThereIsNoGpu) {
  let_machine_have(1, simulated_gpu::machine::without_driver);
  EXPECT_THAT(words_of_refusal([] { named_device("gpu"); }), HasSubstr(", and no GPU: "));
  EXPECT_THAT(words_of_refusal([] { require_here({device_kind::cpu, 4096}); }), HasSubstr(", and no GPU: "));
}

} // namespace
} // namespace mailgrad
