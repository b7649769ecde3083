#include <mailgrad/kernels/arithmetic.hpp>

#include <fmt/format.h>

namespace mailgrad {
namespace {

/// A change of the code that makes a kernel, or the sum of a batch, round differently raises this number.
constexpr int edition = 5;

const char* convolutions() {
#if !defined(MAILGRAD_HAS_ONEDNN)
  return "Eigen";
#elif defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "oneDNN on AVX-512";
  return __builtin_cpu_supports("avx2") ? "oneDNN on AVX2" : "oneDNN on SSE";
#else
  return "oneDNN";
#endif
}

} // namespace

const char* kernel_instructions() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
  return "AVX2 with FMA";
#elif defined(__AVX__)
  return "AVX";
#elif defined(__x86_64__)
  return "SSE2";
#else
  return "any processor";
#endif
}

std::string format_arithmetic() {
  return fmt::format("kernels {}, compiler {} for {}, convolutions by {}", edition, __VERSION__,
                     kernel_instructions(), convolutions());
}

} // namespace mailgrad
