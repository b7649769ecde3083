#include "gpu_machine.hpp"

#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/kernel_compiler.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

// How the simulated GPU gets kernels whose text comes while the program runs: the compiler of the build
// makes a shared object of it.
namespace mailgrad::cuda {

namespace {

namespace fs = std::filesystem;
using simulated_gpu::gpu_machine, simulated_gpu::held_machine;

constexpr const char* command = MAILGRAD_GPU_COMPILER; // with all options but the files

/// A folder for a text or its code.
class compiler_folder {
public:
  compiler_folder() {
    std::string name = (fs::temp_directory_path() / "mailgrad-gpu-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw device_error(world_errc::device_failure, "no folder for the text of a kernel");
    path_ = name;
  }
  compiler_folder(const compiler_folder&) = delete;
  compiler_folder& operator=(const compiler_folder&) = delete;
  ~compiler_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

private:
  fs::path path_;
};

/// Runs the compiler on a text; returns what it says.
///
/// Errors  device_error with it, if the compiler fails.
std::string compile_file(const fs::path& source, const std::string& text, const std::string& options) {
  std::ofstream(source) << text;
  const std::string line = fmt::format("{} -x c++ {} {} 2>&1", command, source.string(), options);
  FILE* const pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) throw device_error(world_errc::device_failure, "the compiler cannot be started");
  std::string said;
  std::array<char, 4096> part{};
  while (const std::size_t bytes = fread(part.data(), 1, part.size(), pipe)) said.append(part.data(), bytes);
  if (pclose(pipe) != 0) throw device_error(world_errc::device_failure, "the compiler says: " + said);
  return said;
}

/// What the headers of a chain come to.
std::string text_of_headers() {
  const compiler_folder folder;
  return compile_file(folder.path() / "headers.cpp", std::string(chain_preamble()), "-E -P");
}

std::function<void()> on_compile() {
  const held_machine all;
  return all->set.on_compile;
}

class gpu_compiler final : public kernel_compiler {
public:
  std::string in_words() const override { return "compiler of the simulated GPU"; }
  std::string identity() const override {
    static const std::string all = fmt::format("{}\n{}", command, text_of_headers());
    return all;
  }
  std::vector<std::byte> compile(const std::string& text, gpu_architecture) override {
    if (const auto told = on_compile()) told();
    const compiler_folder folder;
    const fs::path source = folder.path() / "chain.cpp", code = folder.path() / "chain.so";
    compile_file(source, text, fmt::format("-o {}", code.string()));
    std::ifstream in(code, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(all));
    return {bytes.begin(), bytes.end()};
  }
};

} // namespace

bool generates_kernels() noexcept {
  const held_machine all;
  return all->set.generates_kernels;
}

std::unique_ptr<kernel_compiler> open_kernel_compiler() {
  if (!generates_kernels())
    throw device_error(world_errc::no_such_device, "the simulated GPU has no compiler");
  return std::make_unique<gpu_compiler>();
}

namespace runtime {

void* load_kernel(std::uint32_t gpu, std::span<const std::byte> code, const char* name) {
  simulated_gpu::current_gpu = gpu;
  {
    const held_machine all;
    all->begin_call("cudaLibraryLoadData", gpu);
  }
  const compiler_folder folder; // whose name no library had before, or the loader would take that one
  const fs::path file = folder.path() / "kernel.so";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(code.data()), static_cast<std::streamsize>(code.size()));
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) simulated_gpu::refuse("cudaLibraryLoadData", "device kernel image is invalid");
  void* const kernel = dlsym(library, name);
  if (kernel == nullptr) simulated_gpu::refuse("cudaLibraryGetKernel", "named symbol not found");
  return kernel;
}

} // namespace runtime

} // namespace mailgrad::cuda
