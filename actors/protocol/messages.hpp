#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/actors/protocol/checkpoint_messages.hpp>
#include <mailgrad/actors/protocol/feeder_messages.hpp>
#include <mailgrad/actors/protocol/metrics_messages.hpp>
#include <mailgrad/actors/protocol/run_messages.hpp>
#include <mailgrad/actors/protocol/shard_messages.hpp>
#include <mailgrad/actors/protocol/stage_messages.hpp>

// All messages of a run, with the number by which CAF knows each. The headers above describe them, and
// docs/protocol.md has their rules. Fractions travel as bits, because CAF 0.17 cannot encode every float. A
// MAILGRAD_LOCAL_MESSAGE holds memory or statistics and cannot leave the process.

// In CAF 0.17 each source that sends a message would compile the code that copies, prints and serialises it,
// which took a third of the time of our sources. So messages.cpp does so for all.
// MAILGRAD_MESSAGE_CODE(type) declares the functions that need this code. messages.cpp sets the
// following macro to nothing and so defines them.
#ifndef MAILGRAD_EXTERN
#define MAILGRAD_EXTERN extern
#endif

#if CAF_MAJOR_VERSION >= 1
#define MAILGRAD_MESSAGE_CODE(type)
#else
#define MAILGRAD_MESSAGE_CODE(type)                                                                          \
  MAILGRAD_MESSAGE_CODE_FROM(type&&)                                                                         \
  MAILGRAD_MESSAGE_CODE_FROM(type&)                                                                          \
  MAILGRAD_MESSAGE_CODE_FROM(const type&)
#define MAILGRAD_MESSAGE_CODE_FROM(argument)                                                                 \
  MAILGRAD_EXTERN template caf::message caf::make_message(argument);                                         \
  MAILGRAD_EXTERN template caf::mailbox_element_ptr caf::make_mailbox_element(                               \
      caf::strong_actor_ptr, caf::message_id, caf::mailbox_element::forwarding_stack, argument);
#endif

#define MAILGRAD_PART_OF_MESSAGES(name) CAF_ADD_TYPE_ID(mailgrad, (mailgrad::name))
#define MAILGRAD_MESSAGE(name)                                                                               \
  CAF_ADD_TYPE_ID(mailgrad, (mailgrad::name)) MAILGRAD_MESSAGE_CODE(mailgrad::name)
#define MAILGRAD_LOCAL_MESSAGE(name) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(mailgrad::name) MAILGRAD_MESSAGE(name)

CAF_BEGIN_TYPE_ID_BLOCK(mailgrad, first_custom_type_id)

MAILGRAD_PART_OF_MESSAGES(rank)
MAILGRAD_PART_OF_MESSAGES(shard_index)
MAILGRAD_PART_OF_MESSAGES(step_number)
MAILGRAD_PART_OF_MESSAGES(version_number)
MAILGRAD_PART_OF_MESSAGES(policy_epoch)
MAILGRAD_PART_OF_MESSAGES(run_id)
MAILGRAD_PART_OF_MESSAGES(incarnation_number)
MAILGRAD_PART_OF_MESSAGES(gradient_id)
MAILGRAD_PART_OF_MESSAGES(gradient_times)
MAILGRAD_PART_OF_MESSAGES(sum_tag)
MAILGRAD_PART_OF_MESSAGES(gradient_header)
MAILGRAD_PART_OF_MESSAGES(gradient_payload)
MAILGRAD_PART_OF_MESSAGES(stay_at_shard)
MAILGRAD_PART_OF_MESSAGES(weights_header)
MAILGRAD_PART_OF_MESSAGES(weights_payload)
MAILGRAD_PART_OF_MESSAGES(order_entry::kind)

MAILGRAD_MESSAGE(join_shard)
MAILGRAD_MESSAGE(push_gradient)
MAILGRAD_MESSAGE(shard_weights)
MAILGRAD_MESSAGE(predict_verdict)
MAILGRAD_MESSAGE(verdict_predicted)
MAILGRAD_MESSAGE(worker_left)
MAILGRAD_MESSAGE(tell_trained)
MAILGRAD_MESSAGE(trained_reported)
MAILGRAD_MESSAGE(order_entry)
MAILGRAD_MESSAGE(order_noted)
MAILGRAD_MESSAGE(recording_marked)
MAILGRAD_MESSAGE(mark_recording)
MAILGRAD_MESSAGE(recorder_lost)
MAILGRAD_LOCAL_MESSAGE(end_recording)
MAILGRAD_LOCAL_MESSAGE(switch_noted)
MAILGRAD_MESSAGE(entry_missing)
MAILGRAD_MESSAGE(shard_failed)
MAILGRAD_MESSAGE(request_switch)
MAILGRAD_MESSAGE(pause_worker)
MAILGRAD_MESSAGE(worker_paused)
MAILGRAD_MESSAGE(switch_policy)
MAILGRAD_MESSAGE(free_credit)
MAILGRAD_MESSAGE(policy_switched)
MAILGRAD_MESSAGE(watch_holds)
MAILGRAD_MESSAGE(step_reached)
MAILGRAD_MESSAGE(go_on_dealing)
MAILGRAD_MESSAGE(next_batch)
MAILGRAD_LOCAL_MESSAGE(dealt_batch)
MAILGRAD_MESSAGE(dealt_samples)
MAILGRAD_MESSAGE(data_exhausted)
MAILGRAD_MESSAGE(switch_ahead)
MAILGRAD_MESSAGE(share_lost)
MAILGRAD_MESSAGE(deal_again)
MAILGRAD_MESSAGE(share_ended)
MAILGRAD_MESSAGE(count_undealt)
MAILGRAD_MESSAGE(undealt_counted)
MAILGRAD_MESSAGE(stop_dealing)
MAILGRAD_MESSAGE(worker_progress)
MAILGRAD_LOCAL_MESSAGE(staleness_observed)
MAILGRAD_MESSAGE(watch_signals)
MAILGRAD_LOCAL_MESSAGE(signals_observed)
MAILGRAD_MESSAGE(worker_joined)
MAILGRAD_LOCAL_MESSAGE(slot_given)
MAILGRAD_MESSAGE(leave_run)
MAILGRAD_MESSAGE(bring_worker)
MAILGRAD_MESSAGE(wait_over)
MAILGRAD_LOCAL_MESSAGE(worker_finished)
MAILGRAD_LOCAL_MESSAGE(loss_diverged)
MAILGRAD_LOCAL_MESSAGE(worker_failed)
MAILGRAD_MESSAGE(worker_lost)
MAILGRAD_LOCAL_MESSAGE(trace_reported)
MAILGRAD_LOCAL_MESSAGE(shard_trace_reported)
MAILGRAD_MESSAGE(trace_taken)
MAILGRAD_MESSAGE(shard_lost)
MAILGRAD_MESSAGE(feeder_lost)
MAILGRAD_MESSAGE(give_up)
MAILGRAD_MESSAGE(report_shard)
MAILGRAD_LOCAL_MESSAGE(shard_report)
MAILGRAD_MESSAGE(report_feeder)
MAILGRAD_LOCAL_MESSAGE(feeder_report)
MAILGRAD_MESSAGE(stop_training)
MAILGRAD_MESSAGE(list_wait_reasons)
MAILGRAD_MESSAGE(wait_reason)
MAILGRAD_LOCAL_MESSAGE(compute_step)
MAILGRAD_LOCAL_MESSAGE(values_computed)
MAILGRAD_MESSAGE(values_used)
MAILGRAD_LOCAL_MESSAGE(step_computed)
MAILGRAD_LOCAL_MESSAGE(stage_failed)
MAILGRAD_MESSAGE(stage_lost)
MAILGRAD_MESSAGE(verdict_asked)
MAILGRAD_MESSAGE(go_on)
MAILGRAD_MESSAGE(step_ended)
MAILGRAD_MESSAGE(message_due)
MAILGRAD_MESSAGE(batch_copied)
MAILGRAD_MESSAGE(weights_copied)
MAILGRAD_MESSAGE(window_over)
MAILGRAD_MESSAGE(gradients_summed)
MAILGRAD_LOCAL_MESSAGE(help_update)
MAILGRAD_MESSAGE(update_helped)
MAILGRAD_MESSAGE(update_failed)
MAILGRAD_MESSAGE(watch_checkpoints)
MAILGRAD_MESSAGE(checkpoint_due)
MAILGRAD_MESSAGE(request_checkpoint)
MAILGRAD_MESSAGE(take_checkpoint)
MAILGRAD_MESSAGE(hold_for_checkpoint)
MAILGRAD_MESSAGE(block_copied)
MAILGRAD_MESSAGE(worker_at_end)
MAILGRAD_MESSAGE(mark_at_end)
MAILGRAD_MESSAGE(checkpoint_marker)
MAILGRAD_MESSAGE(worker_marked)
MAILGRAD_LOCAL_MESSAGE(checkpoint_part)
MAILGRAD_MESSAGE(checkpoint_failed)
MAILGRAD_LOCAL_MESSAGE(write_checkpoint)
MAILGRAD_MESSAGE(checkpoint_written)
MAILGRAD_LOCAL_MESSAGE(event_noted)
MAILGRAD_LOCAL_MESSAGE(close_metrics)
MAILGRAD_MESSAGE(end_events)
MAILGRAD_MESSAGE(watch_tests)
MAILGRAD_MESSAGE(stop_by)
MAILGRAD_MESSAGE(test_weights)
MAILGRAD_LOCAL_MESSAGE(weights_tested)
MAILGRAD_LOCAL_MESSAGE(tests_judged)
MAILGRAD_MESSAGE(read_shard)
MAILGRAD_LOCAL_MESSAGE(shard_read)
MAILGRAD_MESSAGE(gather_books)
MAILGRAD_MESSAGE(tell_books)
MAILGRAD_MESSAGE(copy_books)
MAILGRAD_LOCAL_MESSAGE(shard_books)
MAILGRAD_LOCAL_MESSAGE(worker_books)
MAILGRAD_MESSAGE(terms_given)
MAILGRAD_MESSAGE(shards_ready)
MAILGRAD_MESSAGE(worker_leaves)
MAILGRAD_MESSAGE(shards_unreachable)
MAILGRAD_MESSAGE(run_asked)
MAILGRAD_MESSAGE(run_answered)

CAF_END_TYPE_ID_BLOCK(mailgrad)

namespace mailgrad {

/// Registers every message of Mailgrad. It must be called in the config's constructor, before any actor
/// system exists.
void register_messages(caf::actor_system_config& config);

} // namespace mailgrad
