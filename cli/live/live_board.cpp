#include <mailgrad/cli/live/live_board.hpp>

#include <utility>
#include <variant>

namespace mailgrad {

void live_board::describe(live_beginning what) {
  std::lock_guard guard(mutex_);
  known_ = std::move(what);
}

void live_board::open(http_server& server) {
  std::lock_guard guard(mutex_);
  server_ = &server;
}

void live_board::close() {
  std::lock_guard guard(mutex_);
  server_ = nullptr;
}

/// Switches and waits come with the next state.
void live_board::take(const run_event& e) {
  const auto* line = std::get_if<metrics_line>(&e);
  if (!line) return;
  std::lock_guard guard(mutex_);
  curve_.add(*line);
  last_ = *line;
  publish("line", to_json(*line));
}

void live_board::show(std::string state) {
  std::lock_guard guard(mutex_);
  if (ended_) return;
  known_.state = std::move(state);
  publish("state", known_.state);
}

void live_board::end(std::string state) {
  std::lock_guard guard(mutex_);
  ended_ = true;
  known_.state = std::move(state);
  publish("end", known_.state);
}

void live_board::publish(std::string_view name, const std::string& data) const {
  if (server_ && server_->viewers() > 0) server_->publish(server_sent_event(name, data));
}

std::string live_board::beginning() const {
  std::lock_guard guard(mutex_);
  live_beginning all = known_;
  all.curve = curve_.lines();
  std::string events = server_sent_event("begin", begin_event(all));
  if (ended_) events += server_sent_event("end", known_.state);
  return events;
}

std::optional<metrics_line> live_board::last_line() const {
  std::lock_guard guard(mutex_);
  return last_;
}

std::string live_board::model() const {
  std::lock_guard guard(mutex_);
  return known_.model;
}

} // namespace mailgrad
