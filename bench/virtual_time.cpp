// Measures runs in virtual time: the cost of a step of a simulated worker, by the number of workers, and the
// memory that they take. The model is a dense layer on 50 features and two classes: 102 weights.

#include "measuring.hpp"

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/lab/virtual_clock.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr std::size_t features = 50;

std::shared_ptr<const data_split> drawn_data() {
  std::mt19937_64 random(1);
  const auto samples = [&](std::size_t count) {
    std::vector<float> values(count * features);
    for (float& v : values) v = static_cast<float>(random() >> 11) * 0x1p-53F - 0.5F;
    std::vector<std::int32_t> labels(count);
    for (std::size_t i = 0; i < count; ++i) labels[i] = values[i * features] > 0;
    return dataset{float_features{{features}, std::move(values)}, std::move(labels), 2};
  };
  return std::make_shared<data_split>(data_split{samples(1024), samples(64), "drawn", {}});
}

double most_mebibytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

/// Events of a clock alone, each of which asks for the next of its worker.
void measure_events(std::size_t workers, std::uint64_t events) {
  lab::virtual_clock clock;
  std::mt19937_64 random(1);
  std::function<void()> again = [&] {
    clock.at(clock.now() + instant{1 + static_cast<std::int64_t>(random() % 1000)}, [&again] { again(); });
  };
  for (std::size_t w = 0; w < workers; ++w) again();
  const stopwatch watch;
  for (std::uint64_t e = 0; e < events; ++e) clock.next();
  std::printf("%6zu workers: %.2f million events/s of the clock alone\n", workers,
              1e-6 * static_cast<double>(events) / watch.seconds());
}

void measure_run(std::uint32_t workers, std::uint64_t steps, const std::string& policy) {
  training_options o;
  o.policy = policy;
  o.steps = steps;
  o.batch = 1;
  o.delays = "gamma:cv=0.1";
  o.optimizer.learning_rate = 1e-3;
  const stopwatch whole;
  lab::virtual_run run(find_model("softmax"), drawn_data(), o, {workers});
  const double begun = whole.seconds();
  const stopwatch watch;
  run.run();
  const double seconds = watch.seconds();
  const training_report r = run.report();
  std::printf("%6u workers, %s: %llu steps in %.2f s, %.2f us each; %.2f s to begin, %.2f s in all, %.0f MiB "
              "at most so far; staleness %.1f\n",
              workers, policy.c_str(), static_cast<unsigned long long>(steps), seconds,
              1e6 * seconds / static_cast<double>(steps), begun, whole.seconds(), most_mebibytes(),
              r.staleness.mean());
}

} // namespace

/// Arguments: workers, steps, policy; without any, a table.
int main(int argc, char** argv) {
  if (argc > 3) {
    measure_run(static_cast<std::uint32_t>(std::atoi(argv[1])), std::strtoull(argv[2], nullptr, 10), argv[3]);
    return 0;
  }
  for (const std::size_t workers : {10U, 1000U, 10'000U}) measure_events(workers, 2'000'000);
  for (const std::uint32_t workers : {10U, 100U, 1000U, 10'000U}) measure_run(workers, 1'000'000, "async");
}
