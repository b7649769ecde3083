#include <mailgrad/optim/cures/heading_correction.hpp>

#include <mailgrad/kernels/vectors.hpp>

#include <array>
#include <cmath>
#include <cstddef>

namespace mailgrad {

heading_correction::heading_correction(std::span<const double> n, const cure_site& site)
    : at_(site.at), keep_(n.empty() ? 0.5 : n[0]), momentum_(outer_momentum(site.optimizer)),
      variables_(site.variables) {
  if (variables_.empty()) variables_.push_back({"all weights", shape{site.shard_size}, 0});
}

void heading_correction::require_fits(std::string_view text, const cure_setting& setting) const {
  require_staleness(text, setting);
  require_outer_steps(text, setting);
  require_outer_momentum(text, setting);
}

void heading_correction::compensate(const stale_gradient& g, std::span<float> applied) {
  map_weights(at_->where(), scaled_copy{g.scale}, std::array{g.values.data()}, std::array{applied.data()},
              applied.size());
  if (g.velocity.empty()) return;
  for (const shard_variable& v : variables_)
    correct(applied.subspan(v.offset, v.dims.size()), g.velocity.subspan(v.offset, v.dims.size()));
}

void heading_correction::correct(std::span<float> u, std::span<const float> v) const {
  double uu = 0, uv = 0, vv = 0;
  for (std::size_t k = 0; k < u.size(); ++k) {
    const double a = u[k], b = v[k];
    uu += a * a, uv += a * b, vv += b * b;
  }
  if (uu == 0 || vv == 0) return;
  const double length = std::sqrt(uu), of_velocity = std::sqrt(vv);
  const double cosine = uv / (length * of_velocity);
  if (cosine >= keep_) return;
  const double confidence = length / (length + (1 - momentum_) * of_velocity);
  double of_u = 1, of_v = 0; // u' = of_u u + of_v v
  if (cosine < 0) {
    of_v = cosine * cosine * confidence * length / of_velocity;
  } else {
    const double turn = (1 - cosine) * confidence;
    const double turned = std::sqrt((1 - turn) * (1 - turn) + turn * turn + 2 * turn * (1 - turn) * cosine);
    of_u = (1 - turn) / turned;
    of_v = turn * length / (of_velocity * turned);
  }
  for (std::size_t k = 0; k < u.size(); ++k) u[k] = static_cast<float>(of_u * u[k] + of_v * v[k]);
}

} // namespace mailgrad
