#include <mailgrad/engine/worker/gradient_comparison.hpp>

#include <mailgrad/optim/distance.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mailgrad {

namespace {

std::span<const std::int32_t> used_rows(const gradient_rows& part) {
  const auto end = std::ranges::find_if(part.rows, [](std::int32_t row) { return row < 0; });
  return part.rows.first(static_cast<std::size_t>(end - part.rows.begin()));
}

std::span<const float> used_values(const gradient_rows& part) {
  return part.values.first(used_rows(part).size() * part.width);
}

} // namespace

std::optional<double> cosine(const gradient& a, const gradient& b) {
  if (a.sparse.size() != b.sparse.size()) return std::nullopt;
  double product = 0;
  double squares_a = 0;
  double squares_b = 0;
  const auto add = [&](std::span<const float> x, std::span<const float> y) {
    product += inner_product(x, y);
    squares_a += inner_product(x, x);
    squares_b += inner_product(y, y);
  };
  add(whole_dense(a), whole_dense(b));
  for (std::size_t i = 0; i < a.sparse.size(); ++i) {
    if (!std::ranges::equal(used_rows(a.sparse[i]), used_rows(b.sparse[i]))) return std::nullopt;
    add(used_values(a.sparse[i]), used_values(b.sparse[i]));
  }
  const double both =
      std::sqrt(squares_a * squares_b); // not a product of roots, which is not exact for equals
  if (!std::isfinite(both) || both == 0) return std::nullopt;
  return product / both;
}

void gradient_comparison::begin(std::uint64_t step, std::shared_ptr<const gradient> stale) {
  forget();
  step_ = step;
  stale_ = std::move(stale);
}

void gradient_comparison::take(std::uint32_t shard, std::uint64_t step,
                               std::shared_ptr<const block> weights) {
  if (!stale_ || step != step_ || weights_[shard]) return;
  weights_[shard] = std::move(weights);
  --missing_;
}

void gradient_comparison::forget() {
  stale_.reset();
  for (auto& held : weights_) held.reset();
  missing_ = weights_.size();
}

void gradient_comparison::compare(const gradient& fresh) {
  if (const auto found = cosine(*stale_, fresh)) cosines_.add(*found);
  forget();
}

} // namespace mailgrad
