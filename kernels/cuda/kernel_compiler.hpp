#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::cuda {

/// The compute capability that code is made for.
struct gpu_architecture {
  std::uint32_t major = 0, minor = 0;
  friend auto operator<=>(const gpu_architecture&, const gpu_architecture&) = default;
};

/// What makes code of the text of kernels while the program runs. nvrtc_compiler.cpp asks CUDA's compiler,
/// and tests/support/simulated_gpu/ the compiler of the build.
///
/// Threads  one caller at a time.
class kernel_compiler {
public:
  kernel_compiler() = default;
  kernel_compiler(const kernel_compiler&) = delete;
  kernel_compiler& operator=(const kernel_compiler&) = delete;
  virtual ~kernel_compiler() = default;

  /// Its name and version, for people.
  virtual std::string in_words() const = 0;
  /// All that the code depends on beside the text and the architecture: version, options, headers.
  virtual std::string identity() const = 0;
  /// Code for runtime::load_kernel(). The kernels of the text are extern "C".
  ///
  /// Errors  device_error, which says what is wrong with the text.
  virtual std::vector<std::byte> compile(const std::string& text, gpu_architecture where) = 0;
};

/// Whether kernels shall be generated on this machine, as far as that is known without opening the compiler.
bool generates_kernels() noexcept;

/// Errors  device_error, one line that says why there is no compiler.
std::unique_ptr<kernel_compiler> open_kernel_compiler();

} // namespace mailgrad::cuda
