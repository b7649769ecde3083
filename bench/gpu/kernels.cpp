// Measures the kernels of a GPU, by its own events: those bound by memory beside a copy of the same size,
// products beside the largest product. Prints one line a kernel, columns apart by tabs: name, microseconds
// (median), spread in percent, GB/s, TFLOP/s. scripts/gpu-check makes a table of them.
//
//   gpu_kernels [GPU]      on this GPU of the machine, 0 if none is named
//   gpu_kernels --gpus     says which GPUs there are, or why there is none
//   gpu_kernels --tiny     on arrays a thousand times smaller, to try the program itself

#include "gpu_kernels.hpp"

#include <charconv>
#include <exception>
#include <string_view>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

void measure(cuda::gpu_queue& queue, kernel_maker make) {
  gpu_arrays arrays(queue);
  timed_kernel k;
  try {
    k = make(arrays);
    if (divisor > 1 && k.operations > 1e7) return arrays.clear();
    const std::vector<double> took = gpu_timer(queue).microseconds(k);
    const double us = median(took);
    std::printf("%s\t%.2f\t%.1f\t%.1f\t%.2f\n", k.name.c_str(), us, 100 * spread(took), k.bytes / us / 1e3,
                k.operations / us / 1e6);
  } catch (const left_out& e) {
    std::printf("%s\tskipped: %s\n", k.name.c_str(), e.what());
  } catch (const std::exception& e) {
    std::printf("%s\tfailed: %s\n", k.name.c_str(), e.what());
  }
  std::fflush(stdout);
  arrays.clear();
}

} // namespace

int main(int argc, char** argv) {
  if (!has_gpu()) return 0;
  std::uint32_t gpu = 0;
  const std::string_view argument = argc > 1 ? argv[1] : "0";
  if (argument == "--gpus") {
    const cuda::runtime::found_gpus found = cuda::runtime::find_gpus();
    for (const auto& c : found.gpus)
      if (!c.why_unknown.empty())
        std::printf("a GPU does not answer: %s\n", c.why_unknown.c_str());
      else
        std::printf("%s, %zu MiB, capability %u.%u, driver for %s\n", c.name.c_str(), c.memory_bytes >> 20,
                    c.major, c.minor, found.driver.c_str());
    return 0;
  }
  if (argument == "--tiny")
    divisor = 2048;
  else if (std::from_chars(argument.begin(), argument.end(), gpu).ptr != argument.end()) {
    std::fprintf(stderr, "gpu_kernels: '%s' is no number of a GPU\n", argv[1]);
    return 2;
  }
  cuda::gpu_queue queue(gpu);
  for (const auto kernels : {element_kernels, row_kernels, model_kernels, product_kernels})
    for (const kernel_maker make : kernels()) measure(queue, make);
}
