#include <mailgrad/actors/worker/trace_teller.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <chrono>
#include <utility>

namespace mailgrad {
using messaging::send;

namespace {

constexpr instant pieces_apart = std::chrono::seconds{1};

} // namespace

void trace_teller::begin() {
  if (options_.track) tell();
}

void trace_teller::tell_if_due(instant now) {
  if (!options_.track || under_way_ || untold() == 0) return;
  if (untold() >= trace_piece::most_events || now - told_at_ >= pieces_apart) tell();
}

void trace_teller::on_taken(const trace_taken&) {
  under_way_ = false;
  answered_ = options_.time->now().count();
}

void trace_teller::end() {
  if (!options_.track) return;
  do tell();
  while (untold() > 0);
  options_.track.reset();
}

void trace_teller::tell() {
  told_at_ = options_.time->now();
  under_way_ = true;
  const trace_track& track = *options_.track;
  trace_piece piece{options_.device, told_at_.count(), std::exchange(answered_, std::nullopt),
                    track.left_out(), told_from(track, told_, told_at_)};
  told_ += piece.events.size();
  send(self_, options_.coordinator, trace_told{options_.worker, options_.life, std::move(piece)});
}

} // namespace mailgrad
