#include <mailgrad/actors/worker/device_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

// How a device actor ends: it fails, diverges, leaves, is told to, or has nothing left to do.

namespace mailgrad {
using messaging::send, messaging::watch;

/// Nothing that it had on the card is to be trusted, and nobody takes part from here again.
void device_actor::lose_card(std::uint64_t step, const std::string& why) {
  gate_.end();
  messaging::quit_with_words(self_, fmt::format("its card failed in step {}: {}", step, why));
}

void device_actor::fail(std::uint64_t step, const std::string& why) {
  end_with(worker_failed{report_, step, why});
}

/// Nobody knows what the shards have of a step that was pushed before it failed. Else the batches that the
/// worker has in hand or asked for are for others, or for the run that goes on from here.
void device_actor::fail_by_device(std::uint64_t step, const device_error& e) {
  const bool pushed_end = !runs_ahead_ || gate_.steps().empty() || e.code() == world_errc::out_of_memory;
  worker_failed notice{report_, step, e.what()};
  notice.leaves_all = step > report_.steps && pushed_end && exchange_->only_pushes();
  give_batches_back(); // also for a checkpoint that is under way
  end_with(std::move(notice));
}

/// If the gradient was pushed before, no checkpoint of behind it is of use.
void device_actor::diverge(std::uint64_t step) {
  static_cast<void>(marked_parts_.take(report_.steps));
  end_with(loss_diverged{report_, step});
}

void device_actor::finish(const std::string& why_left) {
  if (gate_.finished()) return;
  end_with(worker_finished{report_, {}, why_left, kept_of_block()});
}

/// Also when the coordinator has ended, so that nobody takes the rest of a timeline.
void device_actor::on_give_up() {
  if (gate_.finished()) return timeline_.give_up();
  finish();
}

void device_actor::give_batches_back() {
  send(self_, options_.feeder, deal_again{options_.worker, options_.life, lines_.trained()});
}

/// The batch that it has in hand or asked for is for others.
void device_actor::leave() {
  give_batches_back();
  tell_owner();
  finish("its owner asked for it");
}

/// That it leaves before the run has ended.
void device_actor::tell_owner() {
  if (owner_) send(self_, owner_, worker_left{options_.worker, options_.life});
}

/// Only the coordinator need wait for this worker any longer, which takes its timeline and then its report. A
/// shard of another process may hear of it from the coordinator first, or not from here at all.
template <class Notice>
void device_actor::end_with(Notice notice) {
  gate_.end();
  notice.life = options_.life;
  if (options_.runner->give_up() == step_state::finished) gate_.steps().clear();
  for (marked_part& part : marked_parts_.take(report_.steps))
    send_part(std::move(part)); // as far as it is known
  notice.report.trace = std::move(options_.trace);
  notice.report.copies = std::move(options_.copies);
  notice.report.stages = options_.runner->stage_reports();
  notices_.notify(options_.time->now(), report_);
  lines_.leave();
  over_shards_->leave();
  send(self_, options_.feeder, worker_left{options_.worker, options_.life});
  timeline_.end([this, notice = std::move(notice)] {
    queued_.when_done([this, notice](const std::exception_ptr&) {
      send(self_, options_.coordinator, notice);
      reported_ = true;
      quit_if_through();
    });
  });
  if (timeline_.is_ending()) watch(self_, options_.coordinator, give_up{});
}

/// Steps that are given up still read the weights that are held here.
void device_actor::quit_if_through() {
  if (reported_ && gate_.steps().empty()) self_->quit();
}

} // namespace mailgrad
