// A user's own operation: the Huber loss with its kernel, its shape check and its gradient. First the
// gradient is compared with central differences, here and where its graph travels to. Then a straight line is
// fitted to points of which one in eight is far off. The Huber loss finds the line y = 2x + 1, and the mean
// squared error does not.

#include <mailgrad/actors/training.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/gradient_check.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/graph/serialisable.hpp>
#include <mailgrad/tensor/error.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>

using namespace mailgrad;

/// The kernel, which is made once for fixed shapes and then runs in every step.
class huber_kernel final : public executable {
public:
  huber_kernel(float delta, std::size_t size) : delta_(delta), size_(size) {}

  void run(const stream& s, const call& c) override {
    if (!std::holds_alternative<host_stream>(s))
      throw device_error(world_errc::no_such_device, "huber: runs on the CPU alone");
    const float *guess = c.in(0), *target = c.in(1);
    float* slope = c.out(1);
    double sum = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const float d = guess[i] - target[i];
      const float cut = std::fmin(std::fmax(d, -delta_), delta_);
      sum += static_cast<double>(cut * (d - cut / 2));
      slope[i] = cut / static_cast<float>(size_);
    }
    *c.out(0) = static_cast<float>(sum / static_cast<double>(size_));
  }

private:
  float delta_;
  std::size_t size_;
};

/// d^2 / 2 for a distance d up to delta, and delta (|d| - delta / 2) beyond; the mean over all elements.
///
/// Source  Huber, "Robust estimation of a location parameter", 1964.
class huber_operation final : public operation, public serialisable<huber_operation> {
public:
  static constexpr std::string_view custom_kind = "demos.huber"; ///< its name in a graph that travels

  explicit huber_operation(float delta = 1) : delta_(delta) {}

  /// The attributes, for writing and for reading.
  void keep(archive& a) {
    a.version(1);
    a.field("delta", delta_);
  }

  std::string_view name() const noexcept override { return "huber"; }

  /// This text is a part of the model's hash in a recording, so it must contain all settings.
  std::string describe() const override { return "delta " + std::to_string(delta_); }

  /// Two outputs: the loss, and its slope, which only the gradient uses.
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2); // a graph that was read may have any number
    const value_type &guess = inputs[0], &target = inputs[1];
    if (guess.type != dtype::float32 || target.type != dtype::float32) throw shape_error("expected float32");
    if (guess.dims != target.dims) throw shape_error("expected a target for each guess");
    return {{shape{}, dtype::float32}, guess};
  }

  /// The gradient is built from operations, so it is planned and fused like all others. Targets have none.
  std::vector<adjoint> gradient(std::span<const value>, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    return {outputs[1] * *dy[0], adjoint{}};
  }

  bool runs_on(device_kind where) const noexcept override { return where == device_kind::cpu; }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<huber_kernel>(delta_, inputs[0].dims.size());
  }

private:
  float delta_;
};

/// The function that a model calls. `where` names the user's line in an error.
value huber_loss(const value& guess, const value& target, float delta = 1,
                 std::source_location where = std::source_location::current()) {
  return guess.owner(where).apply(std::make_shared<huber_operation>(delta), {guess, target}, where).front();
}

bool is_right(const char* what, const value& loss) {
  const auto wrong = check_gradients(loss, loss.owner().variables());
  for (const gradient_mismatch& m : wrong) std::printf("%s\n", to_string(m).c_str());
  std::printf("%-18s %zu of 20 coordinates are wrong\n", what, wrong.size());
  return wrong.empty();
}

/// Checks both branches of the formula, with values from -3 to 3 around targets of 0. Then the graph travels,
/// as it does to a worker on another machine, which needs a registry that knows the operation.
bool gradient_is_right() {
  graph here, there;
  const value guess = here.variable("guess", {4, 5}, initialiser::uniform(-3, 3));
  const value loss = huber_loss(guess, here.constant(tensor({4, 5})));
  const std::vector<std::byte> bytes = write_graph(here, std::array{named_value{"loss", loss}});

  operation_registry known;
  known.add<huber_operation>();
  const value travelled = read_graph(there, bytes, known).at("loss");
  return is_right("gradient check", loss) && is_right("after its travel", travelled);
}

/// Points on y = 2x + 1; every eighth is far above.
dataset points(std::size_t count) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(count), y(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = uniform(random);
    y[i] = 2 * x[i] + 1 + (i % 8 == 0 ? 40 : 0);
  }
  return dataset::from(sample_array({count, 1}, std::move(x)), sample_array({count, 1}, std::move(y)));
}

/// Fits a line and returns its value at x = 0, where 1 is right.
float fitted(const char* name, const std::function<value(const value&, const value&)>& loss) {
  const model_function line = [&](graph& g, const model_request& r) {
    const value guess = dense(g.input("features", {r.batch, 1}), 1, "line");
    return model_outputs{guess, loss(guess, g.input("labels", {r.batch, 1}))};
  };
  training_options options;
  options.devices = cpus(2);
  options.optimizer.learning_rate = 0.1;
  options.epochs = 60;
  training run(line, data_split{points(1024), {}, "points", {}}, options);
  const training_report report = run.report();
  const std::vector<float> y = run.predict(sample_array({2, 1}, std::vector<float>{0, 1}));
  std::printf("%-18s %s: y = %.2f x + %.2f\n", name, report.ended.c_str(), double{y[1] - y[0]}, double{y[0]});
  return y[0];
}

int main() try {
  if (!gradient_is_right()) return 1;
  const float robust = fitted("Huber loss", [](const value& a, const value& b) { return huber_loss(a, b); });
  const float pulled =
      fitted("mean squared error", [](const value& a, const value& b) { return mean_squared_error(a, b); });
  return std::abs(robust - 1) < 0.5F && pulled > 4 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "custom_operation: %s\n", e.what());
  return 2;
}
