#include <mailgrad/actors/protocol/trace_teller.hpp>

#include <chrono>
#include <utility>

namespace mailgrad {

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
  if (then_) tell_rest();
}

void trace_teller::end(std::function<void()> then) {
  then_ = std::move(then);
  if (!options_.track) return close();
  if (!under_way_) tell_rest();
}

void trace_teller::give_up() {
  if (then_) close();
}

/// The last piece also counts what had no room, so it comes even without events.
void trace_teller::tell_rest() {
  tell();
  if (untold() == 0) close();
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
