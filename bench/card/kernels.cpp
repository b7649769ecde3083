// Measures the kernels of a card, by its own events: those bound by memory beside a copy of the same size,
// products beside the largest product. Prints one line a kernel, columns apart by tabs: name, microseconds
// (median), spread in percent, GB/s, TFLOP/s. scripts/gpu-check makes a table of them.
//
//   card_kernels [CARD]     on this card of the machine, 0 if none is named
//   card_kernels --cards    says which cards there are, or why there is none
//   card_kernels --tiny     on arrays a thousand times smaller, to try the program itself

#include "card_kernels.hpp"

#include <charconv>
#include <exception>
#include <string_view>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

void measure(cuda::card_lane& lane, kernel_maker make) {
  card_arrays arrays(lane);
  timed_kernel k;
  try {
    k = make(arrays);
    if (divisor > 1 && k.operations > 1e7) return arrays.clear();
    const std::vector<double> took = card_timer(lane).microseconds(k);
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
  if (!has_card()) return 0;
  std::uint32_t card = 0;
  const std::string_view argument = argc > 1 ? argv[1] : "0";
  if (argument == "--cards") {
    const cuda::runtime::found_cards found = cuda::runtime::find_cards();
    for (const auto& c : found.cards)
      if (!c.why_unknown.empty())
        std::printf("a card does not answer: %s\n", c.why_unknown.c_str());
      else
        std::printf("%s, %zu MiB, capability %u.%u, driver for %s\n", c.name.c_str(), c.memory_bytes >> 20,
                    c.major, c.minor, found.driver.c_str());
    return 0;
  }
  if (argument == "--tiny")
    divisor = 2048;
  else if (std::from_chars(argument.begin(), argument.end(), card).ptr != argument.end()) {
    std::fprintf(stderr, "card_kernels: '%s' is no number of a card\n", argv[1]);
    return 2;
  }
  cuda::card_lane lane(card);
  for (const auto kernels : {element_kernels, row_kernels, model_kernels, product_kernels})
    for (const kernel_maker make : kernels()) measure(lane, make);
}
