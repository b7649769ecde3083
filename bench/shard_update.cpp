// Measures the cost of a shard's book-keeping: an update of a shard against the same loop over bare arrays,
// in turns.

#include "measuring.hpp"

#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/graph/graph.hpp>

#include <cstring>
#include <string>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr int repetitions = 15;
constexpr float learning_rate = 1e-6F;

parameter_layout one_variable(std::size_t floats) {
  graph g;
  g.variable("w", shape{floats}, initialiser::zeros());
  return {g, {false}, 1};
}

std::shared_ptr<const gradient> some_gradient(std::size_t floats) {
  auto g = std::make_shared<gradient>();
  g->dense = memory(block(floats * sizeof(float)));
  std::ranges::fill(g->dense.on_host<float>(), 0.5F);
  return g;
}

/// w -= lr * g, from `weights` into `updated`, which may be the same memory.
void bare_loop(const float* weights, float* updated, const float* g, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) updated[i] = weights[i] - learning_rate * g[i];
  keep(updated);
}

/// Measures pairs of a bare loop and an update. If `held`, a reader keeps each version while it is current,
/// so that no update can write in place.
void measure(std::size_t floats, bool held, const std::string& what) {
  optimizer_options options; // plain SGD
  options.learning_rate = learning_rate;
  shard s(one_variable(floats), 0, 1, options);
  const std::vector<contribution> gradients{{some_gradient(floats), 1.0F}};
  const float* g = gradients[0].values->dense.on_host<float>().data();
  block bare[2]{block(floats * sizeof(float)), block(floats * sizeof(float))};
  snapshot reader;

  std::vector<double> shard_rates, bare_rates, shares;
  for (int r = -2; r < repetitions; ++r) {
    const std::size_t from = held ? static_cast<std::size_t>(r & 1) : 0;
    const std::size_t to = held ? 1 - from : 0;
    const double bare_seconds =
        seconds_of([&] { bare_loop(bare[from].as<float>().data(), bare[to].as<float>().data(), g, floats); });
    if (held) reader = s.snapshot();
    const double shard_seconds = seconds_of([&] { s.update(gradients); });
    if (r < 0) continue; // the first touches of memory
    const double gigabytes = 3.0 * static_cast<double>(floats * sizeof(float)) / 1e9;
    bare_rates.push_back(gigabytes / bare_seconds);
    shard_rates.push_back(gigabytes / shard_seconds);
    shares.push_back(100 * bare_seconds / shard_seconds);
  }
  print(("bare loop, " + what).c_str(), bare_rates, "GB/s");
  print(("shard, " + what).c_str(), shard_rates, "GB/s");
  print(("shard of bare loop, " + what).c_str(), shares, "%");
}

} // namespace

int main() {
  constexpr std::size_t large = (std::size_t{256} << 20) / sizeof(float);
  measure(large, false, "256 MiB, in place");
  measure(large, true, "256 MiB, into a spare");
}
