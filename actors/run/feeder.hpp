#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/order_log.hpp>
#include <mailgrad/data/dealer.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/record/recorded_batches.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>

namespace mailgrad {

struct feeder_options {
  std::shared_ptr<const dataset> samples;
  dealer_options deal;
  std::size_t nonzeros = 0;            ///< room in a batch of a sparse set
  std::deque<std::uint64_t> hold_at{}; ///< ascending: after so many batches deal no more until told to go on
  caf::actor recorder{};               ///< gets what is dealt to whom, if anybody does
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat: deals and holds are as they were in it
  std::shared_ptr<const time_source> time{};   ///< of the timeline and the recording, if there is one
  std::shared_ptr<trace_track> trace{};        ///< to record into; nobody else holds it once the actor lives
};

/// Deals mini-batches to the workers that ask, and knows what it dealt to whom.
///
/// Workers ask one batch ahead, so the next is made while they compute on the last.
/// Guarantees  every sample is dealt once an epoch, over all workers; the order depends on the seed alone.
/// Never       reuses the memory of a batch that somebody holds.
///
///     dealing --stop_dealing--> exhausted
///        ^  \--the step to hold at--> holding --go_on_dealing--+
///        +-----------------------------------------------------+
///
/// In a replay each worker is held by itself, at the batch before which it was paused for a switch.
class feeder {
public:
  static constexpr const char* name = "mailgrad.feeder";

  feeder(caf::event_based_actor* self, feeder_options options);
  caf::behavior make_behavior() { return dealing(); }

private:
  caf::behavior dealing();
  caf::behavior exhausted();
  void on_next(rank worker, const caf::actor& device);
  std::optional<deal> deal_to(rank worker);
  void on_leave(rank worker);
  void hold_if_reached();
  void tell_if_all_at_switch();
  void end(const end_recording& x);
  void go_on(const go_on_dealing& x);
  void trace_wait(trace_kind what);
  void stop();

  caf::event_based_actor* self_;
  feeder_options options_;
  dealer dealer_;
  std::uint64_t dealt_ = 0; ///< batches
  caf::actor who_watches_;
  std::optional<std::uint64_t> holding_; ///< at this step
  std::map<rank, caf::actor> hungry_;    ///< who asked meanwhile
  object_pool<batch> batches_;
  order_log log_;
  std::optional<recorded_batches> replayed_;
};

} // namespace mailgrad
