#pragma once

#include <mailgrad/optim/cures/cure.hpp>

#include <optional>
#include <span>

namespace mailgrad {

/// EASGD: workers train on weights x_i of their own; every few steps x_i and the shard's weights w are drawn
/// together, both by A (x_i - w) of what they were; A = 0.9 / M unless given. The gradient of the worker's
/// next step is taken at that x_i too: x_i - eta g(x_i) - A (x_i - w). EAMSGD is the same with `nesterov` at
/// the worker.
///
/// A worker sends what it has moved, r - x_i, with r the weights it last got; the shard applies A (w - x_i)
/// in its place, with SGD of learning rate 1, and answers with w as it met x_i too, for elastic_pull(). Under
/// sync all workers meet the same w, which moves by the sum.
/// Source  Zhang, Choromanska & LeCun, "Deep learning with elastic averaging SGD", NeurIPS 2015,
///         arXiv:1412.6651, Algorithms 1 and 2; under sync the synchronous form they follow from. It weighs
///         no staleness: x_i meets w as it is then.
class elastic_averaging final : public cure {
public:
  static constexpr cure_form form{"easgd:A",
                                  "workers keep weights of their own, drawn to the shard's by A; 0.9 / M",
                                  "Zhang et al., NeurIPS 2015"};
  elastic_averaging(std::span<const double> n, const cure_site& site)
      : pull_(static_cast<float>(n.empty() ? default_pull(site.workers) : n[0])) {}

  static double default_pull(std::uint32_t workers) { return 0.9 / workers; }

  std::string_view name() const noexcept override { return "easgd"; }
  bool compensates() const noexcept override { return true; }
  bool adds_up() const noexcept override { return true; }
  bool needs_weights_read() const noexcept override { return true; }
  std::optional<float> pull() const noexcept override { return pull_; }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
#pragma omp simd
    for (std::size_t k = 0; k < applied.size(); ++k)
      applied[k] = pull_ * (g.weights[k] - g.weights_read[k] + g.scale * g.values[k]);
  }

private:
  float pull_;
};

/// A worker's part: its weight x drawn to the shard's w that it met.
inline float elastic_pull(float x, float met, float pull) noexcept { return x - pull * (x - met); }

} // namespace mailgrad
