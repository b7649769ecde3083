#include <mailgrad/engine/account/divergence.hpp>

#include <mailgrad/data/dataset.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mailgrad {

namespace {

constexpr double least_measure = 1;
constexpr const char* what_to_do =
    "take a smaller --lr, --clip-norm or a cure of staleness, or train on by --on-divergence go-on";

} // namespace

double chance_loss(const dataset& samples) {
  if (!samples.has_targets())
    return std::log(static_cast<double>(std::max<std::size_t>(1, samples.classes())));
  double sum = 0;
  for (const float target : samples.targets()) sum += static_cast<double>(target) * target;
  return samples.targets().empty() ? 0 : sum / static_cast<double>(samples.targets().size());
}

std::string loss_in_words(double loss) {
  constexpr double most_with_digits = 1e6;
  return std::abs(loss) < most_with_digits ? fmt::format("{:.4f}", loss) : fmt::format("{:.2g}", loss);
}

divergence_watch::divergence_watch(double chance, std::uint32_t workers)
    : chance_(chance), workers_(std::max(1U, workers)) {}

std::optional<std::string> divergence_watch::take(std::uint64_t steps, std::uint64_t samples,
                                                  double loss_sum) {
  if (!chance_ || samples == 0) return std::nullopt;
  const double loss = loss_sum / static_cast<double>(samples);
  if (std::isinf(limit_)) limit_ = factor * std::max({least_measure, *chance_, std::abs(loss)});
  if (!(loss > limit_)) {
    notices_ = steps_ = 0;
    return std::nullopt;
  }
  least_ = notices_ == 0 ? loss : std::min(least_, loss);
  ++notices_;
  steps_ += steps;
  if (notices_ < notices_each * workers_ || steps_ < std::max(least_steps, steps_each * workers_)) return {};
  if (std::exchange(told_, true)) return std::nullopt;
  return fmt::format(
      "the loss has grown to nonsense: {} or more in {} steps in a row, above the limit of {:.4g}; {}",
      loss_in_words(least_), steps_, limit_, what_to_do);
}

std::string ended_in_nonsense(const std::string& whose, double loss, double limit) {
  if (!std::isfinite(loss)) return fmt::format("the loss of {} is no finite number", whose);
  if (loss <= limit) return {};
  return fmt::format("the loss has grown to nonsense: that of {} is {}, above the limit of {:.4g}; {}", whose,
                     loss_in_words(loss), limit, what_to_do);
}

} // namespace mailgrad
