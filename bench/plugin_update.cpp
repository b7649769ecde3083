// Measures the cost of a rule from a plug-in. Updates by two plug-ins, built by the README's recipe without a
// build type, are compared with those by the built-in rules of the same formulas, in turns.

#include "measuring.hpp"

#include <mailgrad/optim/optimizer.hpp>

#include <memory>
#include <string>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr int repetitions = 101;
constexpr std::size_t width = 16; // floats of a row

struct work {
  const char* what;
  std::size_t floats;
  std::size_t gradients; ///< summed in a step
  std::size_t rows = 0;  ///< rows of a sparse gradient; 0: the gradient is dense
  double l2 = 0;
};

/// A rule with weights and gradients of its own.
class updated_weights {
public:
  updated_weights(const std::string& rule, const work& w)
      : work_(w), weights_(w.floats, 0.5F), values_(w.rows > 0 ? w.rows * width : w.floats, 0.01F) {
    optimizer_options options = parse_optimizer(rule);
    options.learning_rate = 1e-6;
    options.l2 = w.l2;
    optimizer_ = make_optimizer(options, w.floats);
    for (std::size_t i = 0; i < w.gradients; ++i)
      gradients_.push_back({values_.data(), 1.0F / static_cast<float>(w.gradients)});
    const std::size_t height = w.floats / width;
    for (std::size_t i = 0; i < w.rows; ++i) rows_.push_back(static_cast<std::int32_t>(i * 7919 % height));
  }

  void update() {
    ++step_;
    if (work_.rows == 0) return optimizer_->update(host_stream{}, {weights_, weights_, gradients_, step_});
    optimizer_->update_rows(host_stream{}, {.weights = weights_,
                                            .width = width,
                                            .rows = rows_,
                                            .values = values_,
                                            .step = step_,
                                            .row_end = static_cast<std::int32_t>(work_.floats / width)});
  }

private:
  work work_;
  std::vector<float> weights_, values_;
  std::vector<scaled_gradient> gradients_;
  std::vector<std::int32_t> rows_;
  std::unique_ptr<optimizer> optimizer_;
  std::uint64_t step_ = 0;
};

void measure(const std::string& rule, const std::string& plugin, const work& w) {
  updated_weights ours(rule, w);
  updated_weights theirs(plugin, w);
  std::vector<double> our_times, their_times, ratios;
  for (int r = -3; r < repetitions; ++r) {
    const double our_seconds = seconds_of([&] { ours.update(); });
    const double their_seconds = seconds_of([&] { theirs.update(); });
    if (r < 0) continue; // the first touches of memory
    our_times.push_back(1e6 * our_seconds);
    their_times.push_back(1e6 * their_seconds);
    ratios.push_back(their_seconds / our_seconds);
  }
  const std::string what = rule + ", " + w.what;
  print(("built-in " + what).c_str(), our_times, "us");
  print(("plug-in " + what).c_str(), their_times, "us");
  print(("plug-in by built-in, " + what).c_str(), ratios, "times");
}

} // namespace

int main() {
  constexpr std::size_t cached = (std::size_t{2} << 20) / sizeof(float);
  constexpr std::size_t large = (std::size_t{64} << 20) / sizeof(float);
  for (const work& w : {work{"2 MiB", cached, 1}, work{"2 MiB, 3 gradients", cached, 3},
                        work{"2 MiB with l2", cached, 1, 0, 1e-4}, work{"64 MiB", large, 1},
                        work{"2000 rows of 64 MiB", large, 1, 2000}}) {
    measure("momentum", MAILGRAD_RECIPE_MOMENTUM, w);
    measure("adam", MAILGRAD_RECIPE_ADAM, w);
  }
}
