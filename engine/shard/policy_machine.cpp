#include <mailgrad/engine/shard/policy_machine.hpp>

namespace mailgrad {

waits_in policy_machine::place(verdict what) const {
  if (what == verdict::defer) return waits_in::next_round;
  if (rule_->has_rounds()) return waits_in::round;
  return rule_->takes_first() > 0 ? waits_in::queue : waits_in::batch;
}

void policy_machine::take_lost(verdict what) {
  add_lost(what);
  if (what == verdict::merge) update_if_due();
  if (what == verdict::apply) of_.update_of_nothing();
}

void policy_machine::add_lost(verdict what) {
  if (what == verdict::merge || what == verdict::defer) of_.add_lost(place(what));
}

void policy_machine::update_if_due() {
  const bool several = place() != waits_in::batch;
  while (rule_->batch_complete() && !of_.is_updating() && !(several && of_.nothing_waits())) {
    update();
    if (!several) return;
  }
}

void policy_machine::update() {
  if (of_.update(place(), rule_->takes_first())) updated();
}

void policy_machine::end_update() {
  updated();
  if (place() != waits_in::batch) update_if_due();
}

void policy_machine::updated() {
  rule_->batch_applied();
  begin_round();
}

void policy_machine::begin_round() {
  if (rule_->has_rounds()) of_.begin_round(rule_->rounds_over());
}

void policy_machine::leave(rank worker) {
  rule_->leave(worker);
  begin_round();
  update_if_due();
}

void policy_machine::close() {
  rule_->close();
  update_if_due();
}

void policy_machine::finish() {
  while (!of_.nothing_waits()) {
    of_.skip_to_waiting();
    update();
  }
  of_.clear_rounds();
}

} // namespace mailgrad
