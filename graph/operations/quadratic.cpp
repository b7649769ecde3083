#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/graph/operations/quadratic.hpp>
#include <mailgrad/kernels/functors/philox.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <numeric>

namespace mailgrad {
namespace {

/// Two normal numbers from two random ones.
///
/// Source  Box & Muller, 1958.
void two_normals(std::uint32_t a, std::uint32_t b, float& x, float& y) {
  constexpr float part = 0x1p-32F;
  const float radius = std::sqrt(-2 * std::log((static_cast<float>(a >> 8) + 0.5F) * 0x1p-24F));
  const float angle = 2 * std::numbers::pi_v<float> * part * static_cast<float>(b);
  x = radius * std::cos(angle);
  y = radius * std::sin(angle);
}

void add_noise(float deviation, std::uint64_t seed, std::uint64_t step, std::span<float> to) {
  const philox random = philox::of(seed);
  for (std::size_t first = 0; first < to.size(); first += 4) {
    const philox::numbers n = random(first / 4, step);
    float normals[4];
    two_normals(n.x0, n.x1, normals[0], normals[1]);
    two_normals(n.x2, n.x3, normals[2], normals[3]);
    const std::size_t count = std::min<std::size_t>(4, to.size() - first);
    for (std::size_t i = 0; i < count; ++i) to[first + i] += deviation * normals[i];
  }
}

void add_common_noise(float deviation, std::uint64_t seed, std::uint64_t step, std::span<float> to) {
  float one = 0;
  add_noise(deviation, seed, step, {&one, 1});
  for (float& x : to) x += one;
}

std::vector<float> curvatures(const quadratic_options& o, std::size_t d) {
  std::vector<float> h(d, static_cast<float>(o.curvature));
  for (std::size_t j = 0; j + 1 < d; ++j)
    h[j] = static_cast<float>(o.curvature *
                              std::pow(o.condition, static_cast<double>(j) / static_cast<double>(d - 1) - 1));
  return h;
}

/// The loss of the chain, and its slope. Both are of y = x + (sqrt(d), 0, ..., 0).
double chain(double curvature, std::span<const float> x, std::span<float> slope) {
  const std::size_t d = x.size();
  const double a = curvature / 4, n = static_cast<double>(d), shift = std::sqrt(n);
  const auto y = [&](std::size_t j) { return j == 0 ? x[0] + shift : static_cast<double>(x[j]); };
  double loss = curvature / 8 * n / (n + 1);
  for (std::size_t j = 0; j < d; ++j) {
    const double next = j + 1 < d ? y(j + 1) : 0, before = j > 0 ? y(j - 1) : 0;
    const double b = j == 0 ? -a : 0;
    const double product = a * (2 * y(j) - next - before);
    slope[j] = static_cast<float>(product - b);
    loss += y(j) * (product / 2 - b);
  }
  return loss;
}

/// The kernel for one size of x: `h` are its curvatures, `answers` the numbers of output 2.
struct quadratic_run {
  quadratic_options o;
  std::vector<float> h;
  std::size_t batch, answers;
  bool targets;
  void operator()(const stream& s, const call& c) const {
    if (!std::holds_alternative<host_stream>(s))
      throw device_error(world_errc::no_such_device, "quadratic: runs on the CPU alone");
    const std::span<const float> x{c.in(0), h.size()};
    const std::span<float> slope{c.out(1), h.size()};
    const double loss = o.form == quadratic_form::chain ? chain(o.curvature, x, slope)
                                                        : diagonal(x, slope, targets ? c.in(1) : nullptr);
    *c.out(0) = static_cast<float>(loss);
    const double sum = std::accumulate(x.begin(), x.end(), 0.0);
    std::fill_n(c.out(2), answers, static_cast<float>(sum / static_cast<double>(x.size())));
    if (o.noise == 0) return;
    const auto deviation = static_cast<float>(o.noise / std::sqrt(static_cast<double>(batch)));
    const auto add = o.noise_of == noise_form::common ? add_common_noise : add_noise;
    add(deviation, o.seed, c.step, slope);
  }

private:
  /// The mean of (x - c)^2 over the batch is (x - m)^2 and the variance of c, where m is the mean of c.
  double diagonal(std::span<const float> x, std::span<float> slope, const float* centres) const {
    double mean = 0, variance = 0;
    if (centres) {
      for (std::size_t i = 0; i < batch; ++i) mean += centres[i] / static_cast<double>(batch);
      for (std::size_t i = 0; i < batch; ++i)
        variance += std::pow(centres[i] - mean, 2) / static_cast<double>(batch);
    }
    const auto m = static_cast<float>(mean), v = static_cast<float>(variance);
    double loss = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const float off = x[j] - m;
      slope[j] = h[j] * off;
      loss += h[j] * (off * off + v);
    }
    return loss / 2;
  }
};

/// Outputs: the loss, its slope, which only the gradient uses, and the means.
struct quadratic_kind {
  static constexpr std::string_view name = "quadratic";
  static constexpr bool on_cpu_alone = true;
  quadratic_options o{};
  std::size_t batch = 1, outputs = 1;
  bool targets = false;
  void keep(archive& a) {
    a.version(2);
    bool is_chain = o.form == quadratic_form::chain, is_common = o.noise_of == noise_form::common;
    std::uint64_t samples = batch, columns = outputs;
    a.field("chain", is_chain);
    a.field("curvature", o.curvature);
    a.field("condition", o.condition);
    a.field("noise", o.noise);
    a.field("common", is_common);
    a.field("seed", o.seed);
    a.field("batch", samples);
    a.field("outputs", columns);
    a.field("targets", targets);
    o.form = is_chain ? quadratic_form::chain : quadratic_form::diagonal;
    o.noise_of = is_common ? noise_form::common : noise_form::each;
    batch = samples;
    outputs = columns;
  }
  std::vector<value_type> infer(type_list inputs) const {
    require_operand_count(inputs, targets ? 2 : 1);
    for (const value_type& t : inputs)
      if (t.type != dtype::float32 || t.dims.rank() != 1 || t.dims.size() == 0)
        throw shape_error("expected a vector of float32");
    if (targets && (inputs[1].dims.size() != batch || o.form == quadratic_form::chain))
      throw shape_error("expected a target for each sample, and none for a chain");
    const auto is = [](double x, double least) { return x >= least && std::isfinite(x); };
    if (!is(o.curvature, 0) || !is(o.condition, 1) || !is(o.noise, 0))
      throw shape_error("curvature and noise must be at least 0, and condition at least 1");
    return {{}, inputs[0], {shape{batch, outputs}, dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    if (!d.dy[0]) throw graph_error("quadratic: only the loss has a gradient");
    std::vector<adjoint> all(d.inputs.size());
    all[0] = d.outputs[1] * *d.dy[0];
    return all;
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    const std::size_t size = t.inputs[0].dims.size();
    return kernel(quadratic_run{o, curvatures(o, size), batch, t.outputs[2].dims.size(), targets});
  }
  std::string describe() const {
    return fmt::format("{}, curvature {}, condition {}, noise {}{}, seed {}",
                       o.form == quadratic_form::chain ? "chain" : "diagonal", exact_text(o.curvature),
                       exact_text(o.condition), exact_text(o.noise),
                       o.noise_of == noise_form::common ? " of all" : "", o.seed);
  }
};

} // namespace

quadratic_result quadratic(const value& x, const std::optional<value>& targets, std::size_t batch,
                           std::size_t outputs, const quadratic_options& options,
                           std::source_location where) {
  std::vector<value> operands{x};
  if (targets) operands.push_back(*targets);
  const std::vector<value> y = x.owner(where).apply(
      made(quadratic_kind{options, batch, outputs, targets.has_value()}), operands, where);
  return {y[0], y[2]};
}

void add_quadratic_kinds(operation_registry& to) { add_kinds(to, quadratic_kind()); }

} // namespace mailgrad
