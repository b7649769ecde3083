#include <mailgrad/actors/run/run_watch.hpp>

namespace mailgrad {

using messaging::send_anonymously, messaging::spawn_apart;

namespace {

/// What the report of an ended run knows of its last line of metrics. A lost shard has no counts any more.
metrics_line known_of(const training_report& r) {
  const gradient_ledger& counts = r.kept_ledger ? r.kept_ledger->counts : r.ledger;
  metrics_line x;
  x.time_s = r.wall_seconds;
  x.steps = r.steps;
  x.updates = r.updates;
  x.samples = r.samples;
  x.computed = counts.produced;
  x.applied = counts.applied;
  x.merged = counts.merged;
  x.discarded = counts.discarded_in_all();
  x.waiting_s = r.waits.barrier + r.waits.bound + r.waits.feeder;
  x.test_loss = r.test_loss;
  x.test_accuracy = r.test_accuracy;
  x.test_rmse = r.test_rmse;
  x.validation_loss = r.validation_loss;
  x.validation_accuracy = r.validation_accuracy;
  x.validation_rmse = r.validation_rmse;
  return x;
}

} // namespace

run_watch::run_watch(caf::actor_system& system) {
  actor_ = spawn_apart<run_observer>(
      system, run_observer_options{[this](const run_event& x) { take(x); }, [this] { ended_.set_value(); }});
}

void run_watch::take(const run_event& what) {
  {
    std::lock_guard guard(mutex_);
    if (const auto* line = std::get_if<metrics_line>(&what)) {
      curve_.add(*line);
      if (file_) file_->add(*line);
      if (board_) board_->add(*line);
    }
    if (board_) add_to_board(what);
    if (const auto* test = std::get_if<evaluation_made>(&what)) {
      ++cost_.count;
      cost_.seconds += test->seconds;
      if (cost_.why_on_host.empty()) cost_.why_on_host = test->why_on_host;
    }
    if (const auto* lacking = std::get_if<test_left_out>(&what)) {
      ++cost_.left_out;
      cost_.why_left_out = lacking->why;
    }
  }
  call_observers(what);
}

/// Without the lock, since an observer may observe more.
void run_watch::call_observers(const run_event& what) {
  std::vector<std::shared_ptr<observer>> all;
  {
    std::lock_guard guard(mutex_);
    all = observers_;
  }
  for (const auto& each : all) {
    std::string why;
    try {
      (*each)(what);
      continue;
    } catch (const std::exception& e) {
      why = e.what();
    } catch (...) {
      why = "an exception that says nothing";
    }
    std::lock_guard guard(mutex_);
    std::erase(observers_, each);
    if (observer_failure_.empty()) observer_failure_ = "an observer of the run threw: " + why;
  }
}

void run_watch::finish(const caf::actor& tracker, training_report& r) {
  if (end_.valid()) {
    send_anonymously(actor_, close_metrics{known_of(r), tracker});
    end_.get();
  }
  add_curve(r);
}

std::string run_watch::failure() const {
  std::lock_guard guard(mutex_);
  std::string all;
  for (const std::string& why :
       {file_ ? file_->failure() : "", board_ ? board_->failure() : "", observer_failure_})
    all += (all.empty() || why.empty() ? "" : "; ") + why;
  return all;
}

} // namespace mailgrad
