#pragma once

#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cmath>
#include <span>
#include <utility>

namespace mailgrad {

/// Each element of a gradient is divided by 1 + |w - r| / C: by how many steps of usual length its weight has
/// moved since it was read. C = eta (sqrt(r2) + 1e-8) with r2 a mean square in which each sample counts 0.999
/// of the next. A sample is the gradient or, with momentum, the velocity after an update. The velocity is
/// zero before the first update, and that zero is no sample: the first gradient, which is fresh, is applied
/// as it is.
///
/// Source  Barkai, Hakimi & Schuster, "Gap-aware mitigation of gradient staleness", ICLR 2020,
///         arXiv:1909.10802. Differs: a weight decay that the optimiser adds is not divided.
class gap_aware final : public cure {
public:
  static constexpr cure_form form{"gap-aware", "each element over 1 + |weight now - read| / usual step",
                                  "Barkai et al., ICLR 2020"};
  gap_aware(std::span<const double>, const cure_site& site)
      : rate_(static_cast<float>(site.learning_rate)), mean_square_(site.shard_size * sizeof(float)) {}

  std::string_view name() const noexcept override { return form.text; }
  bool compensates() const noexcept override { return true; }
  bool needs_weights_read() const noexcept override { return true; }
  std::size_t states() const noexcept override { return 1; }
  void compensate(const stale_gradient& g, std::span<float> applied) override {
    constexpr double past = 0.999;
    for (std::size_t k = 0; k < applied.size(); ++k) applied[k] = g.scale * g.values[k];
    const bool updated = std::exchange(updated_, true);
    if (!updated && !g.velocity.empty()) return;
    remembered_ *= past;
    const auto unbiased = static_cast<float>(1 / (1 - remembered_));
    const float* const steps = g.velocity.empty() ? applied.data() : g.velocity.data();
    float* const squares = mean_square_.as<float>().data();
#pragma omp simd
    for (std::size_t k = 0; k < applied.size(); ++k) {
      squares[k] = static_cast<float>(past) * squares[k] + static_cast<float>(1 - past) * steps[k] * steps[k];
      const float usual = rate_ * (std::sqrt(squares[k] * unbiased) + 1e-8F);
      const float gap = std::abs(g.weights[k] - g.weights_read[k]);
      applied[k] /= 1 + (usual > 0 ? gap / usual : 0);
    }
  }

private:
  float rate_;
  bool updated_ = false;  ///< a gradient has been applied before
  double remembered_ = 1; ///< past^t: the part of the mean square that is its first zero
  block mean_square_;
};

} // namespace mailgrad
