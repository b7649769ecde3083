#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <chrono>
#include <optional>

// A run in a global variable, which is still training when main() returns. It ends after the variables of the
// main thread.

namespace {
std::optional<mailgrad::training> run;
} // namespace

int main() {
  using namespace mailgrad::testing;
  mailgrad::training_options options = options_for("async", 2);
  options.epochs = 1'000'000'000;
  run.emplace(small_model(), small_data(), options);
  while (run->progress().steps == 0) run->wait_for(std::chrono::milliseconds{5});
}
