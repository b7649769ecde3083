#include "../../../support/drawn_chain.hpp"
#include "../../../support/generated_kernels.hpp"
#include "../../../support/scratch_files.hpp"
#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <semaphore>
#include <stdexcept>

// How kernels of chains come beside all that goes on. The compiler is played by one that has one code for all
// texts.
namespace mailgrad {
namespace {

using cuda::chain_kernels;
using cuda::kernel_cache;
using testing::drawn_chain;
using ::testing::HasSubstr;

std::vector<std::byte> some_code() {
  const testing::with_generated_kernels on;
  const std::string text =
      std::string(cuda::chain_preamble()) + cuda::chain_kernel_text(drawn_chain(0), "chain");
  return cuda::open_kernel_compiler()->compile(text, {9, 0});
}

class ChainKernels : public testing::simulator_test {
protected:
  /// What the compiler does, and how often it was asked.
  struct played {
    std::function<void()> before = [] {};
    std::string version = "1";
    std::atomic<int> opened = 0, compiled = 0;
    std::vector<std::byte> code;
  };

  class played_compiler final : public cuda::kernel_compiler {
  public:
    explicit played_compiler(played& what) : what_(what) {}
    std::string in_words() const override { return "played"; }
    std::string identity() const override { return what_.version; }
    std::vector<std::byte> compile(const std::string&, cuda::gpu_architecture) override {
      ++what_.compiled;
      what_.before();
      return what_.code;
    }

  private:
    played& what_;
  };

  ChainKernels() {
    static const std::vector<std::byte> code = some_code();
    played_.code = code;
  }

  std::unique_ptr<chain_kernels> made(const std::filesystem::path& folder = {}) {
    return std::make_unique<chain_kernels>(
        [this] {
          ++played_.opened;
          return std::make_unique<played_compiler>(played_);
        },
        kernel_cache(folder));
  }

  /// The kernel, when it has come.
  static void* wanted(chain_kernels& kernels, const elementwise_chain& chain) {
    kernels.find(chain, 0);
    kernels.finish();
    return kernels.find(chain, 0);
  }

  played played_;
  scratch_folder folder_;
};

TEST_F(ChainKernels, ComeBesideAndStay) {
  std::binary_semaphore may_go(0);
  played_.before = [&] { may_go.acquire(); };
  const auto kernels = made();
  EXPECT_EQ(played_.opened, 0) << "before the first chain";
  EXPECT_EQ(kernels->find(drawn_chain(1), 0), nullptr);
  EXPECT_EQ(kernels->find(drawn_chain(1), 0), nullptr);
  EXPECT_EQ(kernels->too_early(), 2U);
  EXPECT_EQ(kernels->arrivals(), 0U);
  may_go.release();
  kernels->finish();
  void* const kernel = kernels->find(drawn_chain(1), 0);
  EXPECT_NE(kernel, nullptr);
  EXPECT_EQ(kernels->find(drawn_chain(1), 0), kernel);
  EXPECT_EQ(kernels->too_early(), 2U);
  EXPECT_EQ(kernels->arrivals(), 1U);
  EXPECT_EQ(kernels->why_none(), "");
  EXPECT_EQ(played_.opened, 1);
  EXPECT_EQ(played_.compiled, 1);
}

TEST_F(ChainKernels, ArriveTogether) {
  std::counting_semaphore<> may_go(0);
  played_.before = [&] { may_go.acquire(); };
  const auto kernels = made();
  for (std::uint64_t seed = 0; seed < 3; ++seed) kernels->find(drawn_chain(seed), 0);
  may_go.release(3);
  kernels->finish();
  EXPECT_EQ(played_.compiled, 3);
  EXPECT_EQ(kernels->arrivals(), 1U);
}

TEST_F(ChainKernels, AreOthersForOtherChainsAndGpus) {
  simulated_gpu::set_up({.gpus = 2});
  const auto kernels = made();
  elementwise_chain chain;
  chain.input_count = 2;
  chain.step_count = 2;
  chain.steps[0] = {elementwise_function::add, 0, 1, -1};
  chain.steps[1] = {elementwise_function::square, 2, 2, 0};
  const auto changed = [&](auto change) {
    elementwise_chain other = chain;
    change(other);
    return other;
  };
  const elementwise_chain all[] = {
      chain,
      changed([](elementwise_chain& c) { c.inputs[1] = elementwise_chain::extent::one; }),
      changed([](elementwise_chain& c) { c.input_count = 3, c.steps[1].a = c.steps[1].b = 3; }),
      changed([](elementwise_chain& c) { c.step_count = 1; }),
      changed([](elementwise_chain& c) { c.steps[0].function = elementwise_function::subtract; }),
      changed([](elementwise_chain& c) { c.steps[0].a = 1; }),
      changed([](elementwise_chain& c) { c.steps[0].b = 0; }),
      changed([](elementwise_chain& c) { c.steps[1].output = 1; }),
      changed([](elementwise_chain& c) { c.steps[0].output = 1; })};
  for (const elementwise_chain& c : all) wanted(*kernels, c);
  EXPECT_EQ(played_.compiled, static_cast<int>(std::size(all)));
  EXPECT_EQ(kernels->find(chain, 1), nullptr) << "of another GPU";
  kernels->finish();
  EXPECT_NE(kernels->find(chain, 1), nullptr);
  elementwise_chain with_rest = chain; // of what it does not use
  with_rest.inputs[7] = elementwise_chain::extent::one;
  with_rest.steps[5].output = 3;
  EXPECT_EQ(kernels->find(with_rest, 0), kernels->find(chain, 0));
}

TEST_F(ChainKernels, AreNoneForGoodIfTheCompilerRefuses) {
  played_.before = [] { throw device_error(world_errc::device_failure, "a word that it does not know"); };
  const auto kernels = made(folder_.path());
  EXPECT_EQ(wanted(*kernels, drawn_chain(1)), nullptr);
  EXPECT_EQ(wanted(*kernels, drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 1);
  EXPECT_EQ(kernels->too_early(), 1U) << "it is too early for none any more";
  EXPECT_EQ(kernels->arrivals(), 0U);
  EXPECT_THAT(kernels->why_none(), HasSubstr("a word that it does not know"));
  played_.before = [] {};
  EXPECT_NE(wanted(*kernels, drawn_chain(2)), nullptr) << "of another chain";
}

TEST_F(ChainKernels, AreNoneWithoutACompiler) {
  chain_kernels kernels(cuda::open_kernel_compiler, kernel_cache(""));
  EXPECT_EQ(wanted(kernels, drawn_chain(1)), nullptr);
  EXPECT_THAT(kernels.why_none(), HasSubstr("has no compiler"));
}

TEST_F(ChainKernels, AreNoneForAGpuThatIsNotThere) {
  const auto kernels = made();
  kernels->find(drawn_chain(1), 7);
  kernels->finish();
  EXPECT_EQ(kernels->find(drawn_chain(1), 7), nullptr);
  EXPECT_THAT(kernels->why_none(), HasSubstr("cuda:7"));
}

TEST_F(ChainKernels, AreCompiledOnceForAllProcesses) {
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 1);
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(2)), nullptr);
  EXPECT_EQ(played_.compiled, 2) << "another chain";
  played_.version = "2";
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 3) << "another compiler";
}

TEST_F(ChainKernels, AreCompiledAgainWhereTheEntryIsOfNoUse) {
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  const auto entry = *std::filesystem::directory_iterator(folder_.path());
  std::filesystem::resize_file(entry, entry.file_size() / 2);
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 2) << "it was cut";
  // The seal is whole, but the GPU's driver does not take what it holds.
  kernel_cache(folder_.path()).keep(entry.path().stem(), std::vector<std::byte>(100));
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 3) << "it could not be loaded";
  EXPECT_NE(wanted(*made(folder_.path()), drawn_chain(1)), nullptr);
  EXPECT_EQ(played_.compiled, 3) << "it was written again";
}

/// While one is compiled two more are asked for, so some are always still to come.
TEST_F(ChainKernels, EndWhileOneIsBeingCompiled) {
  constexpr std::uint64_t enough = 5000; // an end that waits for all of them is to be a failure, and no hang
  std::counting_semaphore<> begun(0);
  auto kernels = made();
  std::uint64_t next = 1;
  played_.before = [&, asked = kernels.get()] {
    begun.release();
    for (int i = 0; i < 2 && next < enough; ++i) asked->find(drawn_chain(next++), 0);
  };
  kernels->find(drawn_chain(0), 0);
  begun.acquire();
  kernels.reset();
  EXPECT_GE(played_.compiled, 1);
  EXPECT_LT(next, enough) << "it waited for those that were still to come";
}

TEST_F(ChainKernels, EndWithoutHavingBegun) {
  made();
  EXPECT_EQ(played_.opened, 0);
}

TEST_F(ChainKernels, EndWithTheLastLaneAndGoOnWithTheNext) {
  std::counting_semaphore<> begun(0), may_go(0);
  std::atomic<int> compiled = 0;
  played_.before = [&] {
    begun.release();
    may_go.acquire();
    ++compiled;
  };
  const auto kernels = made();
  kernels->begin_use();
  kernels->begin_use();
  for (std::uint64_t seed = 0; seed < 2; ++seed) kernels->find(drawn_chain(seed), 0);
  begun.acquire();
  kernels->end_use();
  EXPECT_EQ(compiled, 0) << "it goes on for the other queue";
  {
    const std::jthread lets_go([&] { may_go.release(2); });
    kernels->end_use();
    EXPECT_GE(compiled, 1) << "it was waited for";
  }
  kernels->begin_use();
  kernels->finish();
  for (std::uint64_t seed = 0; seed < 2; ++seed) EXPECT_NE(kernels->find(drawn_chain(seed), 0), nullptr);
  kernels->end_use();
}

} // namespace
} // namespace mailgrad
