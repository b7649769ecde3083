#include <mailgrad/actors/protocol/notices.hpp>

#include <bit>

namespace mailgrad {

void order_log::flush() {
  if (notes_.entries.empty() && notes_.deals.empty()) return;
  order_noted told{notes_.shard, {}, {}};
  told.entries.swap(notes_.entries);
  told.deals.swap(notes_.deals);
  send(recorder_, std::move(told));
}

progress_notices::progress_notices(caf::event_based_actor* self, caf::actor tracker, caf::actor coordinator,
                                   rank worker, notice_pace pace)
    : actor_part(self), tracker_(std::move(tracker)), coordinator_(std::move(coordinator)), pace_(pace) {
  unreported_.worker = worker;
}

void progress_notices::notify_if_due(instant now, const worker_sums& so_far) {
  const bool is_first = !has_told_ && unreported_.samples > 0;
  if (!is_first && !pace_.due(now - last_, unreported_.steps)) return;
  const auto news = take(now, so_far);
  if (!news) return;
  send(tracker_, *news);
  send(coordinator_, *news);
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

void trace_teller::close() {
  options_.track.reset();
  std::exchange(then_, nullptr)();
}

void trace_teller::tell() {
  told_at_ = options_.time->now();
  under_way_ = true;
  trace_piece piece{options_.device, told_at_.count(), std::exchange(answered_, std::nullopt),
                    options_.track->left_out()};
  tell_from(*options_.track, told_, piece);
  told_ += piece.events.size();
  options_.tell(std::move(piece));
}

} // namespace mailgrad
