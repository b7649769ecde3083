#include "../../support/generated_kernels.hpp"
#include "../../support/scratch_files.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/kernel_compiler.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <span>

// What NVRTC makes of the text of chains, for GPUs that this machine need not have.
namespace mailgrad {
namespace {

using cuda::gpu_architecture;
using testing::HasSubstr, testing::drawn_chain, testing::throws;

/// An instruction of a kernel for compute capability 8.0 or 9.0, which has 16 bytes.
struct gpu_instruction {
  std::uint64_t low, high;

  /// Without what says where its operands come from.
  unsigned operation() const { return static_cast<unsigned>(low & 0x1ff); }
  /// Of a load or a store.
  unsigned bytes() const {
    constexpr unsigned sizes[] = {1, 1, 2, 2, 4, 8, 16, 0};
    return sizes[high >> 9 & 7];
  }
};

/// What ptxas has written: an ELF file.
/// Source  the operations are those that cuobjdump --dump-sass shows, with the bits beside them.
class cubin {
public:
  static constexpr unsigned fused = 0x023, product = 0x020, sum = 0x021, load = 0x181, store = 0x186;

  explicit cubin(std::span<const std::byte> code) : code_(code) {}

  std::vector<gpu_instruction> instructions_of(const std::string& kernel) const {
    return numbers<gpu_instruction>(section(".text." + kernel));
  }
  /// Of all kernels.
  std::vector<std::uint32_t> stack_frames() const {
    constexpr std::uint8_t frame_size = 0x11, with_length = 4;
    std::vector<std::uint32_t> found;
    std::string_view rest = section(".nv.info");
    while (rest.size() >= 4) {
      const auto format = static_cast<std::uint8_t>(rest[0]), what = static_cast<std::uint8_t>(rest[1]);
      std::uint16_t length = 0;
      std::memcpy(&length, rest.data() + 2, sizeof length);
      if (format == with_length && what == frame_size) {
        std::uint32_t bytes = 0; // behind the number of the kernel
        std::memcpy(&bytes, rest.data() + 8, sizeof bytes);
        found.push_back(bytes);
      }
      rest.remove_prefix(std::min(rest.size(), std::size_t{4} + (format == with_length ? length : 0)));
    }
    return found;
  }

private:
  template <class T>
  static std::vector<T> numbers(std::string_view bytes) {
    std::vector<T> made(bytes.size() / sizeof(T));
    std::memcpy(made.data(), bytes.data(), made.size() * sizeof(T));
    return made;
  }
  std::string_view bytes(std::size_t first, std::size_t count) const {
    return std::string_view(reinterpret_cast<const char*>(code_.data()), code_.size()).substr(first, count);
  }

  std::string_view section(std::string_view name) const {
    Elf64_Ehdr header{};
    std::memcpy(&header, code_.data(), sizeof header);
    const auto all = numbers<Elf64_Shdr>(bytes(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)));
    const Elf64_Shdr& names = all.at(header.e_shstrndx);
    for (const Elf64_Shdr& s : all)
      if (bytes(names.sh_offset, names.sh_size).substr(s.sh_name).data() == name)
        return bytes(s.sh_offset, s.sh_size);
    return {};
  }

  std::span<const std::byte> code_;
};

constexpr gpu_architecture architectures[] = {{8, 0}, {9, 0}};

std::string refusal() {
  try {
    cuda::open_kernel_compiler();
  } catch (const device_error& e) {
    return e.what();
  }
  return "none";
}

std::size_t count(const std::vector<gpu_instruction>& all, unsigned operation, unsigned bytes = 0) {
  return static_cast<std::size_t>(std::ranges::count_if(all, [&](const gpu_instruction& i) {
    return i.operation() == operation && (bytes == 0 || i.bytes() == bytes);
  }));
}

elementwise_chain chain_of(elementwise_function first, elementwise_function second) {
  elementwise_chain chain;
  chain.input_count = 3;
  chain.step_count = 2;
  const std::uint8_t other_of_first = is_unary(first) ? 0 : 1, other_of_second = is_unary(second) ? 3 : 2;
  chain.steps[0] = {first, 0, other_of_first, -1};
  chain.steps[1] = {second, 3, other_of_second, 0};
  return chain;
}

/// Each function, and chains of any.
std::vector<elementwise_chain> all_chains() {
  std::vector<elementwise_chain> all;
  for (int f = 0; f <= static_cast<int>(testing::last_function); ++f) {
    const auto function = static_cast<elementwise_function>(f);
    all.push_back(chain_of(function, function));
  }
  for (std::uint64_t seed = 0; seed < 30; ++seed) all.push_back(drawn_chain(seed));
  return all;
}

class NvrtcCompiler : public ::testing::Test {
protected:
  void SetUp() override {
    if (const std::string why = refusal(); why != "none") GTEST_SKIP() << why;
    compiler_ = cuda::open_kernel_compiler();
  }

  std::vector<std::byte> code_of(const std::string& kernels, gpu_architecture where) {
    return compiler_->compile(std::string(cuda::chain_preamble()) + kernels, where);
  }
  /// Of the kernel that multiplies and adds.
  std::vector<gpu_instruction> instructions(gpu_architecture where) {
    const elementwise_chain chain = chain_of(elementwise_function::multiply, elementwise_function::add);
    return cubin(code_of(cuda::chain_kernel_text(chain, "chain"), where)).instructions_of("chain");
  }

  std::unique_ptr<cuda::kernel_compiler> compiler_;
};

TEST_F(NvrtcCompiler, KeepsNoLocalMemoryForAnyChain) {
  const std::vector<elementwise_chain> chains = all_chains();
  std::string text;
  for (std::size_t i = 0; i < chains.size(); ++i)
    text += cuda::chain_kernel_text(chains[i], "chain_" + std::to_string(i));
  for (const gpu_architecture where : architectures) {
    const std::vector<std::byte> code = code_of(text, where);
    EXPECT_GE(cubin(code).stack_frames().size(), chains.size()) << "and what divides";
    EXPECT_THAT(cubin(code).stack_frames(), testing::Each(0U));
  }
}

/// Else the test above could not see what it looks for.
TEST_F(NvrtcCompiler, KeepsLocalMemoryForWhatIsIndexedAtRunTime) {
  for (const gpu_architecture where : architectures) {
    const auto code = code_of("extern \"C\" __global__ void chain(float* y, int i, int k) {\n"
                              "  float x[32];\n"
                              "  for (int j = 0; j < 32; ++j) x[j ^ i] = y[j];\n"
                              "  y[0] = x[k];\n"
                              "}\n",
                              where);
    EXPECT_THAT(cubin(code).stack_frames(), testing::ElementsAre(128U));
  }
}

TEST_F(NvrtcCompiler, MovesFourFloatsAtOnce) {
  for (const gpu_architecture where : architectures) {
    const auto all = instructions(where);
    EXPECT_EQ(count(all, cubin::load, 16), 3U);
    EXPECT_EQ(count(all, cubin::store, 16), 1U);
    EXPECT_EQ(count(all, cubin::load, 4), 12U) << "at the end of an array";
    EXPECT_EQ(count(all, cubin::store, 4), 4U);
  }
}

/// The interpreted kernel rounds the result of each step.
TEST_F(NvrtcCompiler, FusesNoProductOfAStepWithASumOfTheNext) {
  for (const gpu_architecture where : architectures) {
    const auto all = instructions(where);
    EXPECT_EQ(count(all, cubin::fused), 0U);
    EXPECT_EQ(count(all, cubin::product), 4U);
    EXPECT_EQ(count(all, cubin::sum), 4U);
  }
}

/// Of functions that spell no fused product.
TEST_F(NvrtcCompiler, FusesNoProductOfAnyFunctionWithASum) {
  using enum elementwise_function;
  std::string text;
  std::vector<std::string> names;
  for (const auto first : {multiply, square, tanh_gradient, sigmoid_gradient, square_gradient})
    for (const auto second : {add, subtract, relu_of_sum}) {
      names.push_back("chain_" + std::to_string(names.size()));
      text += cuda::chain_kernel_text(chain_of(first, second), names.back());
    }
  for (const gpu_architecture where : architectures) {
    const std::vector<std::byte> code = code_of(text, where);
    for (const std::string& name : names) {
      const auto all = cubin(code).instructions_of(name);
      EXPECT_EQ(count(all, cubin::fused), 0U) << name;
      EXPECT_GE(count(all, cubin::product), 4U) << name;
      EXPECT_GE(count(all, cubin::sum), 4U) << name;
    }
  }
}

TEST_F(NvrtcCompiler, SaysWhatIsWrongWithAText) {
  const auto compile = [&](const char* text, std::uint32_t major) {
    compiler_->compile(text, gpu_architecture{major, 0});
  };
  EXPECT_THAT([&] { compile("extern \"C\" __global__ void chain() { nonsense(); }", 9); },
              throws<device_error>("nonsense"));
  EXPECT_THAT([&] { compile("", 1); }, throws<device_error>("nvrtcCompileProgram"));
}

TEST_F(NvrtcCompiler, IsNamedWithItsVersionAndAllThatItsCodeDependsOn) {
  EXPECT_THAT(compiler_->in_words(), testing::StartsWith("NVRTC 13."));
  const std::string identity = compiler_->identity();
  for (const char* part : {"NVRTC 13.", "--fmad=false", "struct gelu_gradient", "struct sqrt", "multiply_add",
                           "struct element_range", "struct chain_arrays", "struct alignas(16) float_pack"})
    EXPECT_THAT(identity, HasSubstr(part));
}

/// Exits with 0 if `library` is refused with these words.
[[noreturn]] void try_library(const char* library, const char* words) {
  setenv("MAILGRAD_NVRTC", library, 1);
  const std::string first = refusal(), again = refusal();
  std::fprintf(stderr, "%s\n", first.c_str());
  std::_Exit(first.find(words) == std::string::npos || again != first);
}

/// Exits with 0 if no kernels are generated, whether or not somebody asks for a compiler.
[[noreturn]] void turn_off() {
  setenv("MAILGRAD_NVRTC", "off", 1);
  const bool generates = cuda::generates_kernels() || !cuda::interprets_chains();
  std::_Exit(generates || refusal() != "MAILGRAD_NVRTC is off");
}

/// Exits with 0 if `library` compiles this text.
[[noreturn]] void compile_with(const char* library, const std::string& text) {
  setenv("MAILGRAD_NVRTC", library, 1);
  try {
    std::_Exit(cuda::open_kernel_compiler()->compile(text, {9, 0}).empty());
  } catch (const device_error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    std::_Exit(1);
  }
}

/// Libraries that were made for these tests lie where they were built, and are not carried to another
/// machine.
class NvrtcLibrary : public ::testing::Test {
protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static void skip_unless_there(const char* library) {
    if (!std::filesystem::exists(library)) GTEST_SKIP() << "there is no " << library;
  }
};

// Each in a process of its own, since what is found stays.
TEST_F(NvrtcLibrary, IsRefusedIfItIsOfNoUse) {
  EXPECT_EXIT(try_library("libBrokenLocale.so.1", "the NVRTC of this machine lacks nvrtcVersion"),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(try_library("/no/libnvrtc.so", "MAILGRAD_NVRTC names /no/libnvrtc.so, which"),
              testing::ExitedWithCode(0), "")
      << "though the loader may know another one";
}

TEST_F(NvrtcLibrary, IsRefusedIfItIsOfAnotherVersion) {
  skip_unless_there(MAILGRAD_MADE_NVRTC);
  if (IsSkipped()) return;
  EXPECT_EXIT(
      try_library(MAILGRAD_MADE_NVRTC, "NVRTC 12.4 is of another version than this build, which needs 13"),
      testing::ExitedWithCode(0), "");
}

TEST_F(NvrtcLibrary, IsNotWantedIfItIsOff) { EXPECT_EXIT(turn_off(), testing::ExitedWithCode(0), ""); }

TEST_F(NvrtcLibrary, FindsItsSecondLibraryBesideIt) {
  skip_unless_there(MAILGRAD_MADE_NVRTC_13);
  if (IsSkipped()) return;
  EXPECT_EXIT(compile_with(MAILGRAD_MADE_NVRTC_13, ""), testing::ExitedWithCode(0), "");
}

/// As in a wheel of Python, of which the loader knows nothing.
TEST_F(NvrtcLibrary, OfTheToolkitCompilesFromAFolderThatTheLoaderDoesNotKnow) {
  const std::filesystem::path toolkit = "/usr/local/cuda/lib64";
  skip_unless_there("/usr/local/cuda/lib64/libnvrtc.so.13");
  if (IsSkipped()) return;
  const scratch_folder elsewhere;
  for (const auto& file : std::filesystem::directory_iterator(toolkit))
    if (file.path().filename().string().starts_with("libnvrtc"))
      std::filesystem::create_symlink(file.path(), elsewhere.path() / file.path().filename());
  const std::string text =
      std::string(cuda::chain_preamble()) + cuda::chain_kernel_text(drawn_chain(1), "chain");
  EXPECT_EXIT(compile_with((elsewhere.path() / "libnvrtc.so.13").c_str(), text), testing::ExitedWithCode(0),
              "");
}

} // namespace
} // namespace mailgrad
