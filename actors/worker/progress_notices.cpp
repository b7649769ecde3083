#include <mailgrad/actors/worker/progress_notices.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <bit>
#include <utility>

namespace mailgrad {
using messaging::send;

progress_notices::progress_notices(caf::event_based_actor* self, caf::actor tracker, caf::actor coordinator,
                                   rank worker, notice_pace pace)
    : self_(self), tracker_(std::move(tracker)), coordinator_(std::move(coordinator)), pace_(pace) {
  unreported_.worker = worker;
}

void progress_notices::count(std::size_t samples, std::optional<float> loss) {
  ++unreported_.steps;
  if (!loss) return;
  unreported_.samples += samples;
  loss_sum_ += static_cast<double>(*loss) * static_cast<double>(samples);
}

void progress_notices::notify_if_due(instant now, const worker_sums& so_far) {
  const bool is_first = !has_told_ && unreported_.samples > 0;
  if (!is_first && !pace_.due(now - last_, unreported_.steps)) return;
  const auto news = take(now, so_far);
  if (!news) return;
  send(self_, tracker_, *news);
  send(self_, coordinator_, *news);
}

void progress_notices::notify(instant now, const worker_sums& so_far) {
  if (const auto news = take(now, so_far)) send(self_, tracker_, *news);
}

std::optional<worker_progress> progress_notices::take(instant now, const worker_sums& so_far) {
  if (unreported_.steps == 0) return std::nullopt;
  unreported_.span = (now - last_).count();
  unreported_.sums = so_far.since(told_);
  if (unreported_.samples > 0) has_told_ = true;
  last_ = now;
  told_ = so_far;
  unreported_.loss_sum_bits = std::bit_cast<std::uint64_t>(std::exchange(loss_sum_, 0.0));
  worker_progress next;
  next.worker = unreported_.worker;
  return std::exchange(unreported_, next);
}

} // namespace mailgrad
