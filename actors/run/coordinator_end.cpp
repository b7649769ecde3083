#include <mailgrad/actors/run/coordinator.hpp>

#include <mailgrad/actors/protocol/listed.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

// The end of a run: why it ends, and that everybody reports before it has ended.

namespace mailgrad {
using messaging::send;

namespace {

/// "shard 0 is lost: out of memory"
std::string lost_in_words(const std::string& who, const std::string& why, bool several = false) {
  return who + (several ? " are lost" : " is lost") + (why.empty() ? "" : ": " + why);
}

std::string lost_in_words(std::span<const std::uint32_t> shards, const std::string& why) {
  return lost_in_words(listed("shard", shards), why, shards.size() > 1);
}

} // namespace

/// The first reason counts. Steps that have begun are finished, and their gradients are taken.
void coordinator::end_as(run_outcome::ending how, std::string why) {
  outcome_.how = how;
  outcome_.why = std::move(why);
  if (how != run_outcome::ending::stopped && options_.on_failure) options_.on_failure(outcome_.why);
}

void coordinator::stop(run_outcome::ending how, std::string why) {
  if (outcome_.how == run_outcome::ending::completed) end_as(how, std::move(why));
  checkpointer_.give_up_end();
  if (diverges_as_recorded(how)) return;
  send(self_, options_.feeder, stop_dealing{});
  switcher_.stop();
  refuse_newcomers();
  if (options_.replayed) send_home();
}

/// In the recorded run the other workers finished the batches that they had been dealt, and so they do in the
/// replay.
bool coordinator::diverges_as_recorded(run_outcome::ending how) const {
  return options_.replayed && how == run_outcome::ending::diverged &&
         options_.replayed->end.ended == "diverged";
}

void coordinator::on_shard_lost(const shard_lost& x) {
  if (reported_[x.shard.value]) return; // the shard is no longer needed
  const bool collecting = collecting_;
  reported_[x.shard.value] = true;
  const bool is_told = joins_lost(x);
  const std::string why = lost_in_words(lost_together_, x.why);
  if (!is_told && collecting &&
      outcome_.how == run_outcome::ending::completed) // its weights were still to come
    end_as(run_outcome::ending::failed, outcome_.why.empty() ? why : outcome_.why + "; " + why);
  switcher_.on_shard_lost(x.shard);
  checkpointer_.give_up();
  for (const trained_told& told : shares_.on_shard_lost(x.shard)) note_trained(told);
  books_.on_shard_lost(x.shard, switcher_.done());
  abandon(why);
  if (collecting) ask_for_books();
}

/// A shard says so before its report. If workers had heard of it, the run has failed with the first of them.
void coordinator::on_shard_failed(const shard_failed& x) {
  if (outcome_.how == run_outcome::ending::failed || outcome_.how == run_outcome::ending::diverged) return;
  const std::string why = fmt::format("shard {} has failed: {}", x.shard.value, x.why);
  end_as(run_outcome::ending::failed, outcome_.why.empty() ? why : outcome_.why + "; " + why);
  outcome_.enough = false;
}

/// A process that is gone takes all of its shards with it, which are named together. True if the words of the
/// run's end now name this one, too.
bool coordinator::joins_lost(const shard_lost& x) {
  if (lost_together_.empty() || first_lost_.why != x.why) {
    first_lost_ = x;
    lost_together_ = {x.shard.value};
    return false;
  }
  const std::string before = lost_in_words(lost_together_, x.why);
  lost_together_.push_back(x.shard.value);
  const std::size_t told = outcome_.why.find(before);
  if (told == std::string::npos) return false;
  outcome_.why.replace(told, before.size(), lost_in_words(lost_together_, x.why));
  return true;
}

void coordinator::on_feeder_lost(const feeder_lost& x) {
  outcome_.feeder_lost = true;
  checkpointer_.give_up();
  abandon(lost_in_words("the feeder", x.why));
  end_if_all_reported();
}

/// Workers that wait for weights that will not come are told so; they report and end.
void coordinator::abandon(const std::string& why) {
  if (collecting_) return;
  stop(run_outcome::ending::failed, why);
  send_home();
  collect_if_all_accounted(); // if it waits for a worker
}

/// A replay that ends early calls it as well, since workers could wait for ever for turns that are missing.
void coordinator::send_home() {
  abandoned_ = true;
  to_come_.clear();
  for (std::uint32_t r = 0; r < seats_.used(); ++r)
    if (seats_.device({r})) send(self_, seats_.device({r}), give_up{});
}

void coordinator::collect_if_all_accounted() {
  if (!may_end() || (outcome_.how == run_outcome::ending::completed && waits_for_a_worker())) return;
  outcome_.untrained = undealt_.value_or(0);
  if (outcome_.untrained > 0 && outcome_.how == run_outcome::ending::completed) {
    outcome_.why = nobody_left_in_words();
    if (options_.on_failure) options_.on_failure(outcome_.why); // the report of such a run says "failed"
  }
  const bool all_trained = options_.waits_for_workers > instant{0} && undealt_ == 0U;
  if (seats_.all_lost() && !all_trained)
    stop(run_outcome::ending::failed, "all workers are lost, the last of them " + last_lost_);
  collecting_ = true;
  collects_since_ = options_.time->now();
  if (options_.feeder_traced) send(self_, options_.feeder, report_feeder{});
  switcher_.stop(); // no worker is left, and shards that have reported switch no more
  if (outcome_.how != run_outcome::ending::completed && !keeps_end_of_failed()) return ask_for_books();
  checkpointer_.take_last([this] { ask_for_books(); });
}

/// Asks the first shard first. When it has answered, the other shards know everything that it judged.
void coordinator::ask_for_books() {
  const bool all = options_.shards.empty() || reported_[0];
  for (std::size_t i = 0; i < (all ? reported_.size() : 1); ++i)
    if (!reported_[i]) ask_for_books_of(options_.shards[i]);
  end_if_all_reported();
}

/// A batch that no worker is left to fill is closed first, unless it has a sum with the gradient of a lost
/// worker, which is never whole.
void coordinator::ask_for_books_of(const caf::actor& shard) {
  for (std::uint32_t r = 0; r < seats_.used(); ++r)
    if (!options_.needs_all || !outcome_.lost[r]) send(self_, shard, worker_left{{r}, seats_.life_of({r})});
  send(self_, shard, report_shard{});
}

void coordinator::on_report(const shard_report& x) {
  if (!collecting_ || x.shard.value >= reported_.size()) return; // of a process that is not as it should be
  outcome_.shards[x.shard.value] = x;
  options_.timelines.complete(timeline_teller::of(x.shard));
  reported_[x.shard.value] = true;
  books_.on_reported(x, switcher_.done());
  if (x.shard.value == 0) return ask_for_books();
  end_if_all_reported();
}

void coordinator::end_if_all_reported() {
  if (!collecting_ || !options_.on_end || std::ranges::count(reported_, false) > 0) return;
  if (options_.feeder_traced && !outcome_.feeder_trace && !outcome_.feeder_lost) return;
  if (shares_.awaits_feeder() && !outcome_.feeder_lost) return;
  if (checkpointer_.is_writing() || checkpointer_.has_last_to_take()) return;
  outcome_.workers.resize(seats_.used());
  outcome_.lost.resize(seats_.used());
  outcome_.lost_batches.resize(seats_.used());
  outcome_.switches = switcher_.done();
  outcome_.nonsense_above = options_.divergence.limit();
  outcome_.checkpoints = checkpointer_.account();
  outcome_.checkpoint_timeline = checkpointer_.end_timeline();
  outcome_.told = options_.timelines.placed();
  std::exchange(options_.on_end, nullptr)(std::move(outcome_));
  self_->quit();
}

} // namespace mailgrad
