// Measures the memory of a run under each policy, with 2 and with 300 gradients in an update. It shows that a
// batch adds up its gradients instead of keeping them. Each run is a process of its own, whose largest
// resident size the system reports.

#include <mailgrad/actors/training.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace mailgrad;

namespace {

constexpr std::size_t features = 784;
constexpr std::size_t samples = 1024;
constexpr std::uint32_t workers = 2;

/// The MLP of the README: 535,818 weights, so that a gradient is 2.1 MB.
constexpr const char* model = "mlp";

std::shared_ptr<const data_split> random_images() {
  std::vector<float> pixels(samples * features);
  std::vector<std::int32_t> labels(samples);
  std::uint32_t state = 1;
  for (float& p : pixels) p = static_cast<float>((state = state * 1664525U + 1013904223U) >> 8U) * 0x1p-24F;
  for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  dataset train(float_features{{28, 28, 1}, std::move(pixels)}, std::move(labels), 10);
  dataset nothing(float_features{{28, 28, 1}, {}}, {}, 10);
  return std::make_shared<const data_split>(data_split{std::move(train), std::move(nothing), "random", {}});
}

void train_under(const std::string& policy, std::uint64_t steps) {
  training_options o;
  o.devices.assign(workers, device{device_kind::cpu, 0});
  o.policy = policy;
  o.batch = 4;
  o.steps = steps;
  o.optimizer = parse_optimizer("momentum");
  const training_report r = train(find_model(model), random_images(), o);
  if (r.ended != "completed") throw std::runtime_error(policy + ": " + r.why);
}

/// The largest resident size of a process that runs `work`, in MiB; negative if it failed.
template <class F>
double peak_of(const F& work) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
      _exit(0);
    } catch (const std::exception& e) {
      std::cerr << e.what() << '\n';
      _exit(1);
    }
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) return -1;
  return static_cast<double>(used.ru_maxrss) / 1024;
}

} // namespace

int main() {
  const double without = peak_of([] { random_images(); });
  std::printf("MiB at most, beside the %.0f of a process that only holds the data\n\n", without);
  std::printf("%-20s %12s %14s\n", "policy", "2 gradients", "300 gradients");
  bool all_ran = true;
  for (const char* form :
       {"async", "sync", "ssp:1", "dssp:0,2", "backup:1", "hogwild", "k-async:2",
        "k-batch-async:", "k-batch-sync:", "rennala:", "ringmaster:", "malenia:", "ringleader"}) {
    const std::string policy = form;
    const bool numbered = policy.back() == ':';
    const double two = peak_of([&] { train_under(policy + (numbered ? "2" : ""), 1200); });
    const double many = numbered ? peak_of([&] { train_under(policy + "300", 1200); }) : two;
    all_ran = all_ran && two >= 0 && many >= 0;
    std::printf("%-20s %12.1f %14.1f\n", (policy + (numbered ? "K" : "")).c_str(), two - without,
                many - without);
  }
  return all_ran ? 0 : 1;
}
