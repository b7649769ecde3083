#include <mailgrad/engine/delays/changing_delay.hpp>

#include <mailgrad/data/batch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace mailgrad {

double markov_delay::seconds(std::uint64_t step, double) {
  const double both = terms_.to_slow + terms_.to_fast;
  if (known_ == 0) {
    slow_ = both > 0 && step_draws(who_.seed, who_.worker, 0).uniform() < terms_.to_slow / both;
    known_ = 1;
  }
  for (; known_ < step; ++known_) {
    const double u = step_draws(who_.seed, who_.worker, known_).uniform();
    if (u < (slow_ ? terms_.to_fast : terms_.to_slow)) slow_ = !slow_;
  }
  return std::min(terms_.time * (slow_ ? terms_.factor : 1), longest);
}

outage_delay::outage_delay(drawn_worker who, const terms& t)
    : terms_(t), phase_(t.every * step_draws(who.seed, who.worker, 0).uniform()) {}

/// A period is time to work and then an outage.
double outage_delay::seconds(std::uint64_t, double begins) {
  const double works = terms_.every - terms_.lasts;
  const double at = std::fmod(begins + phase_, terms_.every);
  const double before = at < works ? 0 : terms_.every - at; // until the outage that it begins in has passed
  const double left = at < works ? works - at : works;      // until the next one
  const double outages = terms_.time <= left ? 0 : std::ceil((terms_.time - left) / works);
  return std::min(before + terms_.time + outages * terms_.lasts, longest);
}

double traced_delay::seconds(std::uint64_t, double begins) {
  while (present_ + 1 < rows_->size() && (*rows_)[present_ + 1].at <= begins) ++present_;
  return (*rows_)[present_].takes;
}

double listed_delay::seconds(std::uint64_t step, double) {
  return std::min((*seconds_)[(first_ + step - 1) % seconds_->size()], longest);
}

double class_delay::seconds(std::uint64_t, double) {
  return std::accumulate(seconds_->begin(), seconds_->end(), 0.0) / static_cast<double>(seconds_->size());
}

double class_delay::seconds_on(const batch& inputs, std::uint64_t, double) {
  double sum = 0;
  for (const std::int32_t label : inputs.labels.values<std::int32_t>())
    sum += seconds_->at(static_cast<std::size_t>(label));
  return std::min(sum / static_cast<double>(inputs.size), longest);
}

double slowed_delay::seconds(std::uint64_t step, double begins) {
  return std::min(factor_ * law_->seconds(step, begins), longest);
}

double slowed_delay::seconds_on(const batch& inputs, std::uint64_t step, double begins) {
  return std::min(factor_ * law_->seconds_on(inputs, step, begins), longest);
}

} // namespace mailgrad
