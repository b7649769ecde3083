#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/account/tensorboard_file.hpp>

namespace mailgrad {

struct run_observer_options {
  std::function<void(const run_event&)> on_event; ///< called by the observer for each event; may block
  std::function<void()> on_end;                   ///< called once, when nothing more will come
};

/// Hands the events of a run to a program that may take its time: files, callbacks. It needs a thread of its
/// own.
///
///     observing --event_noted--> observing --close_metrics--> closing --end_events--> ended
/// Guarantees  on_end is called once after close_metrics, also if the tracker dies.
class run_observer : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.run-observer";

  run_observer(caf::event_based_actor* self, run_observer_options options)
      : actor_part(self), options_(std::move(options)) {}
  caf::behavior make_behavior() {
    return {
        on([this](const event_noted& x) { options_.on_event(x.what); }),
        on([this](const close_metrics& x) {
          watch(x.tracker, end_events{});
          send(x.tracker, x);
        }),
        on([this](const end_events&) {
          options_.on_end();
          self_->quit();
        }),
        on([this](const give_up&) { self_->quit(); }),
    };
  }

private:
  run_observer_options options_;
};

/// The files that grow while a run goes on; an empty path: no such file.
struct watch_files {
  std::string metrics{};
  std::string tensorboard{}; ///< a folder
  board_start begins{};      ///< the events in it
};

/// What is done with the events of a run: the observer's thread writes them to files, keeps a curve, and
/// calls whoever observes.
/// Threads observe(), tell() and add_curve(): any; finish(): the owner's.
class run_watch {
public:
  using observer = std::function<void(const run_event&)>;

  /// It must outlive the actors of `system`.
  explicit run_watch(caf::actor_system& system);

  /// Opens the files, before the first event.
  /// Errors  as metrics_file and tensorboard_file.
  void open(const watch_files& files) {
    std::lock_guard guard(mutex_);
    if (!files.metrics.empty()) file_.emplace(files.metrics);
    if (!files.tensorboard.empty()) board_.emplace(files.tensorboard, files.begins);
  }

  const caf::actor& actor() const noexcept { return actor_; }

  /// Calls `what` for each event from now on. One that throws is called no more.
  void observe(observer what) {
    std::lock_guard guard(mutex_);
    observers_.push_back(std::make_shared<observer>(std::move(what)));
  }
  /// Tells an event that no actor has noted.
  void tell(const run_event& what) const { messaging::send_anonymously(actor_, event_noted{what}); }

  /// Adds the curve so far and what evaluations have cost to `r`.
  void add_curve(training_report& r) const {
    std::lock_guard guard(mutex_);
    r.curve = curve_.lines();
    r.evaluations = cost_;
  }

  /// Makes the last line by what `r` knows, and waits until every observer has been told. Adds the curve and
  /// what evaluations cost to `r`.
  void finish(const caf::actor& tracker, training_report& r);

  /// What went wrong with the files or an observer; empty if nothing did. Known after finish().
  std::string failure() const;

private:
  void take(const run_event& what);
  /// Lines apart. The caller holds the lock.
  void add_to_board(const run_event& what) {
    if (const auto* gaps = std::get_if<gaps_measured>(&what)) board_->add(*gaps);
    if (const auto* policy = std::get_if<policy_switch>(&what)) board_->add(*policy);
    if (const auto* members = std::get_if<members_changed>(&what)) board_->add(*members);
  }
  void call_observers(const run_event& what);

  mutable std::mutex mutex_; ///< guards the members up to `observers_`
  std::optional<metrics_file> file_;
  std::optional<tensorboard_file> board_;
  metrics_curve curve_;
  evaluation_cost cost_;
  std::string observer_failure_;
  std::vector<std::shared_ptr<observer>> observers_;

  std::promise<void> ended_;
  std::future<void> end_ = ended_.get_future();
  caf::actor actor_;
};

} // namespace mailgrad
