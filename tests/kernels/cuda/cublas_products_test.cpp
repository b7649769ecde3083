#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <string>

// How cuBLAS is found. It is looked for before the GPU, so a machine without one shows it as well.
namespace mailgrad {
namespace {

constexpr const char* no_cublas = "libBrokenLocale.so.1"; // of the C library, and nobody else's

std::string refusal() {
  try {
    cuda::make_products(0);
  } catch (const device_error& e) {
    return e.what();
  }
  return "none";
}

/// Exits with 0 if a library that lacks cuBLAS's functions is closed, and is what the next queue is told of.
[[noreturn]] void try_a_library_of_no_use() {
  setenv("MAILGRAD_CUBLAS", no_cublas, 1);
  const std::string first = refusal();
  const bool open = dlopen(no_cublas, RTLD_NOW | RTLD_NOLOAD) != nullptr;
  setenv("MAILGRAD_CUBLAS", "libnone.so", 1);
  const bool remembered = refusal() == first;
  std::fprintf(stderr, "%s; %s, %s\n", first.c_str(), open ? "open" : "closed", remembered ? "kept" : "lost");
  std::_Exit(open || !remembered);
}

// In a process of its own, since what is found stays.
TEST(CublasProducts, CloseALibraryOfNoUseAndRememberIt) {
  void* const there = dlopen(no_cublas, RTLD_NOW);
  if (there == nullptr) GTEST_SKIP() << "this C library has no " << no_cublas;
  dlclose(there);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(try_a_library_of_no_use(), ::testing::ExitedWithCode(0),
              "the cuBLAS of this machine lacks cublasLtCreate; closed, kept");
}

} // namespace
} // namespace mailgrad
