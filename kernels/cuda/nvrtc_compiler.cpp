#include <mailgrad/kernels/cuda/kernel_compiler.hpp>
#include <mailgrad/kernels/cuda/loaded_library.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <cstdlib>

namespace mailgrad::embedded {
// Written by CMake from the files of these names.
extern const std::string_view approximations_hpp, binary_hpp, elements_hpp, host_device_hpp, unary_hpp;
} // namespace mailgrad::embedded

namespace mailgrad::cuda {
namespace {

struct header {
  const char* name;
  std::string_view text;
};

/// What the text of a kernel includes. NVRTC has no files: neither ours nor those of a standard library, of
/// which these need little.
std::array<header, 10> headers() {
  return {{{"mailgrad/kernels/cuda/elements.hpp", embedded::elements_hpp},
           {"mailgrad/kernels/functors/approximations.hpp", embedded::approximations_hpp},
           {"mailgrad/kernels/functors/binary.hpp", embedded::binary_hpp},
           {"mailgrad/kernels/functors/host_device.hpp", embedded::host_device_hpp},
           {"mailgrad/kernels/functors/unary.hpp", embedded::unary_hpp},
           {"cuda_runtime.h", ""}, // NVRTC knows the language itself
           {"cmath", "namespace std { __device__ inline float sqrt(float x) { return ::sqrtf(x); } }\n"},
           {"cstddef", "namespace std { using size_t = decltype(sizeof 0); }\n"},
           {"cstdint", "namespace std { using int32_t = int; using uint32_t = unsigned; }\n"},
           {"cstring", "namespace std { using ::memcpy; }\n"}}};
}

/// Without contraction the bits are those of the interpreted kernel; see chain_kernels.hpp. Each operation is
/// then one of IEEE 754 and rounded by itself, so they are also the same whichever NVRTC a machine has.
constexpr std::array options{"--std=c++20", "--device-as-default-execution-space", "--fmad=false"};

[[noreturn]] void refuse(const std::string& why) { throw device_error(world_errc::no_such_device, why); }

std::string_view named_library() {
  const char* const named = std::getenv("MAILGRAD_NVRTC");
  return named == nullptr ? std::string_view() : named;
}

/// Opens the library that MAILGRAD_NVRTC names; if it names none, the one that the loader or CUDA's usual
/// folder has.
void* open_nvrtc() {
  if (const std::string named(named_library()); !named.empty()) {
    if (void* const opened = dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
    refuse(fmt::format("MAILGRAD_NVRTC names {}, which is no library that can be opened", named));
  }
  const std::string name = fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000);
  const std::string usual = "/usr/local/cuda/lib64/" + name;
  for (const std::string& path : {name, usual})
    if (void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
  refuse(fmt::format("no NVRTC was found as {} or {}; MAILGRAD_NVRTC may name it", name, usual));
}

struct nvrtc_version {
  int major = 0, minor = 0;
};

/// The functions of NVRTC, found when the first kernel is wanted.
struct nvrtc_functions {
  loaded_library library{open_nvrtc(), "NVRTC"};
  decltype(&nvrtcVersion) version = library.find("nvrtcVersion");
  decltype(&nvrtcCreateProgram) create = library.find("nvrtcCreateProgram");
  decltype(&nvrtcDestroyProgram) destroy = library.find("nvrtcDestroyProgram");
  decltype(&nvrtcCompileProgram) compile = library.find("nvrtcCompileProgram");
  decltype(&nvrtcGetCUBINSize) code_size = library.find("nvrtcGetCUBINSize");
  decltype(&nvrtcGetCUBIN) code = library.find("nvrtcGetCUBIN");
  decltype(&nvrtcGetProgramLogSize) log_size = library.find("nvrtcGetProgramLogSize");
  decltype(&nvrtcGetProgramLog) log = library.find("nvrtcGetProgramLog");
  decltype(&nvrtcGetErrorString) words_of = library.find("nvrtcGetErrorString");

  nvrtc_functions() {
    const nvrtc_version v = found_version();
    if (v.major != CUDART_VERSION / 1000)
      refuse(fmt::format("NVRTC {}.{} is of another version than this build, which needs {}", v.major,
                         v.minor, CUDART_VERSION / 1000));
    open_builtins(v);
  }

  nvrtc_version found_version() const {
    nvrtc_version v;
    if (version(&v.major, &v.minor) != NVRTC_SUCCESS) refuse("the NVRTC of this machine tells no version");
    return v;
  }

private:
  /// NVRTC opens its second library by the bare name when it compiles, and does not look beside itself. What
  /// is already open is found by its name, so it is opened here. Where there is none, NVRTC will say so.
  void open_builtins(const nvrtc_version& v) const {
    Dl_info place{};
    if (dladdr(reinterpret_cast<const void*>(version), &place) == 0 || place.dli_fname == nullptr) return;
    const std::string own = place.dli_fname;
    const std::string folder = own.substr(0, own.rfind('/') + 1);
    const std::string path = fmt::format("{}libnvrtc-builtins.so.{}.{}", folder, v.major, v.minor);
    static_cast<void>(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)); // open until the process ends
  }
};

const nvrtc_functions& nvrtc() { return functions_of_library<nvrtc_functions>(); }

void require(nvrtcResult status, const char* what) {
  if (status != NVRTC_SUCCESS)
    fail_with(world_errc::device_failure, "{}: {}", what, nvrtc().words_of(status));
}

class nvrtc_program {
public:
  explicit nvrtc_program(const std::string& text) {
    std::vector<const char*> names, texts;
    std::vector<std::string> ended; // what is embedded ends with no zero
    for (const header& h : headers()) {
      names.push_back(h.name);
      ended.emplace_back(h.text);
    }
    for (const std::string& t : ended) texts.push_back(t.c_str());
    require(nvrtc().create(&program_, text.c_str(), "chain.cu", static_cast<int>(names.size()), texts.data(),
                           names.data()),
            "nvrtcCreateProgram");
  }
  nvrtc_program(const nvrtc_program&) = delete;
  nvrtc_program& operator=(const nvrtc_program&) = delete;
  ~nvrtc_program() { static_cast<void>(nvrtc().destroy(&program_)); }

  std::vector<std::byte> compile(gpu_architecture where) {
    const std::string architecture = fmt::format("--gpu-architecture=sm_{}{}", where.major, where.minor);
    std::vector<const char*> all(options.begin(), options.end());
    all.push_back(architecture.c_str());
    const nvrtcResult status = nvrtc().compile(program_, static_cast<int>(all.size()), all.data());
    if (status != NVRTC_SUCCESS)
      fail_with(world_errc::device_failure, "nvrtcCompileProgram: {}: {}", nvrtc().words_of(status),
                first_of_log());
    std::size_t bytes = 0;
    require(nvrtc().code_size(program_, &bytes), "nvrtcGetCUBINSize");
    std::vector<std::byte> code(bytes);
    require(nvrtc().code(program_, reinterpret_cast<char*>(code.data())), "nvrtcGetCUBIN");
    return code;
  }

private:
  std::string first_of_log() const {
    std::size_t bytes = 0;
    if (nvrtc().log_size(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return "it says nothing";
    std::string log(bytes, '\0');
    if (nvrtc().log(program_, log.data()) != NVRTC_SUCCESS) return "it says nothing";
    return log.substr(0, log.find_first_of("\n\0", 0, 2));
  }

  ::nvrtcProgram program_ = nullptr;
};

class nvrtc_compiler final : public kernel_compiler {
public:
  std::string in_words() const override {
    const nvrtc_version v = nvrtc().found_version();
    return fmt::format("NVRTC {}.{}", v.major, v.minor);
  }
  std::string identity() const override {
    std::string all = in_words();
    for (const char* option : options) all += fmt::format("\n{}", option);
    for (const header& h : headers()) all += fmt::format("\n{}\n{}", h.name, h.text);
    return all;
  }
  std::vector<std::byte> compile(const std::string& text, gpu_architecture where) override {
    return nvrtc_program(text).compile(where);
  }
};

} // namespace

bool generates_kernels() noexcept {
  static const bool wanted = named_library() != "off";
  return wanted;
}

std::unique_ptr<kernel_compiler> open_kernel_compiler() {
  if (!generates_kernels()) refuse("MAILGRAD_NVRTC is off");
  static_cast<void>(nvrtc());
  return std::make_unique<nvrtc_compiler>();
}

} // namespace mailgrad::cuda
