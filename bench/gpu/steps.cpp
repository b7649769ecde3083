// Measures whole training steps on a GPU: forward, backward and one update of all weights with momentum, as
// a program of the graph queues them. Each model once by launches, as the processor can queue them, and once
// as a replay of a graph, by the GPU's events. Prints one line a model and way, columns apart by tabs: name,
// microseconds a step (median), spread in percent, GB/s and TFLOP/s, which are 0 here.
//
// With --replays it compares instead: each model runs 100 steps twice by launches and twice as a graph, which
// must give the same bits of all weights.
//
// With --gpt it measures a transformer as large as the smallest GPT-2, as a graph, with products in TF32 and
// in bfloat16, and its TFLOP/s by the count of operations that stands at operations_of().
//
// With --operations it measures that transformer in bfloat16 operation by operation, launched: a line for
// each kind of operation with how many a step has, and the time of all in microseconds, the longest first.
//
//   gpu_steps [--replays | --gpt | --operations] [--tiny]     --tiny: few steps, to try the program itself

#include "gpu_model.hpp"
#include "gpu_timing.hpp"
#include "measured_operations.hpp"

#include <mailgrad/files/digests.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

/// Models of Fashion-MNIST's pictures, and a transformer of 10.7 million weights for letters, as Karpathy's
/// nanoGPT has it.
std::vector<measured_model> measured_models() {
  const model_request pictures{.sample_dims = {28, 28, 1}, .classes = 10, .batch = 64};
  const model_request letters{
      .sample_dims = {256}, .features = feature_kind::tokens, .classes = 65, .batch = 64};
  return {{"softmax", "softmax", pictures},
          {"mlp", "mlp", pictures},
          {"lenet", "lenet", pictures},
          {"gpt", "gpt:layers=6,width=384,heads=6", letters}};
}

/// 85 million weights, in windows of 1024 letters.
constexpr std::size_t large_layers = 12, large_width = 768, large_window = 1024, large_batch = 16;

measured_model large_model() {
  return {
      "gpt 768x12x1024",
      "gpt:layers=12,width=768,heads=12",
      {.sample_dims = {large_window}, .features = feature_kind::tokens, .classes = 65, .batch = large_batch}};
}

/// Operations of a step: 6 for each weight of a product and token, and 12 for each layer, channel and pair of
/// a position and one of its window, as if attention saw the whole of it. Source: Chowdhery et al., "PaLM",
/// JMLR 2023, appendix B, by which others state their utilisation.
constexpr double operations_of_large_step() {
  constexpr double weights = 12.0 * large_layers * large_width * large_width + 65.0 * large_width;
  constexpr double attention = 12.0 * large_layers * large_width * large_window;
  return (6 * weights + attention) * large_batch * large_window;
}

/// The same for a trial of the program.
std::vector<measured_model> tiny_models() {
  const model_request letters{.sample_dims = {8}, .features = feature_kind::tokens, .classes = 9, .batch = 2};
  return {measured_models().front(), {"gpt", "gpt:layers=1,width=8,heads=2", letters}};
}

void print_row(const std::string& name, const std::vector<double>& took, double operations = 0) {
  std::printf("%s\t%.2f\t%.1f\t0\t%.2f\n", name.c_str(), median(took), 100 * spread(took),
              operations / median(took) / 1e6);
  std::fflush(stdout);
}

/// Loads the kernels' code, lets cuBLAS choose, and has the kernels of chains compiled.
void queue_first_step(cuda::gpu_queue& queue, gpu_model& model) {
  model.queue_step();
  queue.finish();
  cuda::wait_for_chain_kernels();
}

/// Microseconds a step in wall time, when the processor queues each kernel.
std::vector<double> launched(cuda::gpu_queue& queue, gpu_model& model, int rounds, int steps) {
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    const stopwatch watch;
    for (int k = 0; k < steps; ++k) model.queue_step();
    queue.finish();
    took.push_back(1e6 * watch.seconds() / steps);
  }
  return took;
}

void measure(cuda::gpu_queue& queue, const measured_model& m, bool tiny) {
  gpu_model model(queue, m);
  queue_first_step(queue, model);
  const double once = launched(queue, model, 1, 1).front();
  const int steps = tiny ? 1 : std::clamp(static_cast<int>(1e5 / once), 5, 200);
  print_row(std::string("step of ") + m.name + ", launched", launched(queue, model, tiny ? 3 : 15, steps));
  const timed_kernel step{m.name, 0, 0, [&model](const stream&) { model.queue_step(); }};
  print_row(std::string("step of ") + m.name + ", as a graph", gpu_timer(queue).microseconds(step));
  std::printf("step of %s\t%zu kernels\n", m.name, model.kernels());
}

void measure_large(const measured_model& m, product_precision p, double operations) {
  cuda::gpu_queue queue(0, p);
  gpu_model model(queue, m);
  const timed_kernel step{m.name, 0, 0, [&model](const stream&) { model.queue_step(); }};
  const std::string row = std::string("step of ") + m.name + ", " + std::string(name(p));
  print_row(row, gpu_timer(queue).microseconds(step), operations);
  std::printf("%s\t%zu kernels\n", row.c_str(), model.kernels());
  std::fflush(stdout);
}

void measure_operations(const measured_model& m, bool tiny) {
  cuda::gpu_queue queue(0, product_precision::bfloat16);
  gpu_model model(queue, m);
  queue_first_step(queue, model);
  measured_operations operations(queue, model);
  for (int i = 0; i < (tiny ? 2 : 9); ++i) operations.measure_step();
  operations.print(std::string("of ") + m.name);
}

/// How a step is queued.
enum class way : std::uint8_t { launched, as_a_graph };

/// The weights of a new model after some steps. The first is launched, since cuBLAS chooses its algorithms
/// then.
std::vector<float> trained(cuda::gpu_queue& queue, const measured_model& m, int steps, way how) {
  gpu_model model(queue, m);
  queue_first_step(queue, model);
  if (how == way::launched) {
    for (int k = 1; k < steps; ++k) model.queue_step();
    return model.weights();
  }
  void* const stream = std::get<cuda_stream>(queue.where()).stream;
  const cuda::captured_graph step(stream, [&model] { model.queue_step(); });
  for (int k = 1; k < steps; ++k) step.launch(stream);
  return model.weights();
}

void compare_replays(cuda::gpu_queue& queue, const measured_model& m, int steps) {
  std::set<std::string> digests;
  bool finite = true;
  cuda::compute(cuda::chains::interpreted); // the first time; the others have kernels of their own
  for (const way how : {way::launched, way::launched, way::as_a_graph, way::as_a_graph}) {
    const std::vector<float> weights = trained(queue, m, steps, how);
    for (const float w : weights) finite = finite && std::isfinite(w);
    cuda::compute(cuda::chains::generated);
    digests.insert(sha256(std::as_bytes(std::span(weights))).substr(0, 12));
  }
  std::string words;
  for (const std::string& d : digests) words += " " + d;
  if (digests.size() != 1)
    std::printf("%d steps of %s\tfailed: the weights differ:%s\n", steps, m.name, words.c_str());
  else if (!finite)
    std::printf("%d steps of %s\tfailed: weights are not finite\n", steps, m.name);
  else
    std::printf("%d steps of %s\t4 equal digests,%s\n", steps, m.name, words.c_str());
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  if (!has_gpu()) return 0;
  const std::set<std::string_view> words(argv + 1, argv + argc);
  const bool tiny = words.contains("--tiny");
  if (words.contains("--operations")) {
    measure_operations(tiny ? tiny_models().back() : large_model(), tiny);
    return 0;
  }
  if (words.contains("--gpt")) {
    for (const product_precision p : {product_precision::tf32, product_precision::bfloat16})
      measure_large(tiny ? tiny_models().back() : large_model(), p, tiny ? 0 : operations_of_large_step());
    return 0;
  }
  cuda::gpu_queue queue(0);
  for (const measured_model& m : tiny ? tiny_models() : measured_models())
    if (words.contains("--replays"))
      compare_replays(queue, m, tiny ? 3 : 100);
    else
      measure(queue, m, tiny);
}
