#include <mailgrad/actors/remote/message_table.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <stdexcept>

namespace mailgrad::remote {

namespace {

/// Whose words a message may be.
constexpr unsigned by(std::same_as<duty> auto... senders) {
  return ((1U << static_cast<unsigned>(senders)) | ...);
}

/// One kind of message. `number` is given away once and for all.
struct table_entry {
  message_kind number;
  std::string_view name;
  unsigned senders; ///< as by() has them
  bool (*is)(const caf::message&);
  void (*write)(const caf::message&, field_inspector&);
  caf::message (*read)(field_inspector&);
  std::optional<actor_address> (*subject)(const caf::message&);
};

/// The shard or the worker that a message is about, if it is about one.
template <class T>
std::optional<actor_address> subject_of(const caf::message& m) {
  [[maybe_unused]] const T& x = m.get_as<T>(0);
  const auto shard = [](shard_index s) { return actor_address{duty::shard, s.value}; };
  const auto worker = [](rank r) { return actor_address{duty::worker, r.value}; };
  if constexpr (requires { x.so_far.shard; })
    return shard(x.so_far.shard);
  else if constexpr (requires { x.shard; })
    return shard(x.shard);
  else if constexpr (requires { x.counts->shard; })
    return x.counts ? std::optional(shard(x.counts->shard)) : std::nullopt;
  else if constexpr (requires { x.report.worker; })
    return worker(x.report.worker);
  else if constexpr (requires { x.so_far.worker; })
    return worker(x.so_far.worker);
  else if constexpr (requires { x.worker; })
    return worker(x.worker);
  else
    return std::nullopt;
}

template <class T>
bool holds(const caf::message& m) {
  return m.size() == 1 && m.match_element<T>(0);
}

template <class T>
void write(const caf::message& m, field_inspector& f) {
  T x = m.get_as<T>(0); // a copy, because inspect() takes what it may also read into
  inspect(f, x);
}

/// No peer may have this process load a library.
void require_harmless(const switch_policy& x) {
  try {
    require_loaded(x.policy);
  } catch (const std::invalid_argument& e) {
    throw archive_error(e.what());
  }
}
template <class T>
void require_harmless(const T&) {}

template <class T>
caf::message read(field_inspector& f) {
  T x{};
  inspect(f, x);
  require_harmless(x);
  return caf::make_message(std::move(x));
}

template <class T>
constexpr table_entry whole(message_kind number, std::string_view name, unsigned senders) {
  return {number, name, senders, holds<T>, write<T>, read<T>, subject_of<T>};
}
/// A message whose values travel beside its fields (body_form.hpp).
template <class T>
constexpr table_entry with_body(message_kind number, std::string_view name, unsigned senders) {
  return {number, name, senders, holds<T>, nullptr, nullptr, nullptr};
}

constexpr std::array table{
    // between hosts
    whole<terms_told>(1, "terms_told", by(duty::nobody)),
    whole<worker_leaves>(2, "worker_leaves", by(duty::nobody)),
    whole<run_asked>(3, "run_asked", by(duty::nobody)),
    whole<run_answered>(4, "run_answered", by(duty::nobody)),
    whole<shards_ready>(5, "shards_ready", by(duty::nobody)),
    // from a worker
    whole<worker_joined>(16, "worker_joined", by(duty::worker)),
    whole<worker_finished>(17, "worker_finished", by(duty::worker)),
    whole<loss_diverged>(18, "loss_diverged", by(duty::worker)),
    whole<worker_failed>(19, "worker_failed", by(duty::worker)),
    whole<worker_paused>(20, "worker_paused", by(duty::worker)),
    whole<worker_progress>(21, "worker_progress", by(duty::worker)),
    whole<worker_left>(22, "worker_left", by(duty::worker, duty::coordinator, duty::shard)),
    whole<worker_marked>(23, "worker_marked", by(duty::worker)),
    whole<worker_books>(24, "worker_books", by(duty::worker)),
    whole<checkpoint_mark>(25, "checkpoint_mark", by(duty::worker)),
    whole<checkpoint_part>(26, "checkpoint_part", by(duty::worker, duty::shard)),
    whole<next_batch>(27, "next_batch", by(duty::worker)),
    whole<join_shard>(28, "join_shard", by(duty::worker)),
    whole<wait_named>(29, "wait_named", by(duty::worker, duty::shard)),
    whole<deal_again>(31, "deal_again", by(duty::worker)),
    whole<trace_told>(32, "trace_told", by(duty::worker)),
    whole<worker_at_end>(33, "worker_at_end", by(duty::worker)),
    with_body<push_gradient>(30, "push_gradient", by(duty::worker)),
    // to a worker
    whole<give_up>(48, "give_up", by(duty::coordinator)),
    whole<name_waits>(49, "name_waits", by(duty::coordinator)),
    whole<pause_worker>(50, "pause_worker", by(duty::coordinator)),
    whole<take_checkpoint>(51, "take_checkpoint", by(duty::coordinator)),
    whole<copy_books>(52, "copy_books", by(duty::coordinator)),
    whole<turn_missing>(53, "turn_missing", by(duty::shard)),
    whole<data_exhausted>(54, "data_exhausted", by(duty::feeder)),
    whole<seat_given>(57, "seat_given", by(duty::coordinator)),
    whole<dealt_samples>(58, "dealt_samples", by(duty::feeder)),
    whole<trace_taken>(59, "trace_taken", by(duty::coordinator)),
    whole<mark_at_end>(60, "mark_at_end", by(duty::coordinator)),
    with_body<dealt_batch>(55, "dealt_batch", by(duty::feeder)),
    with_body<shard_weights>(56, "shard_weights", by(duty::shard)),
    // from a shard
    whole<staleness_observed>(64, "staleness_observed", by(duty::shard, duty::worker)),
    whole<order_entry>(65, "order_entry", by(duty::shard)),
    whole<order_noted>(66, "order_noted", by(duty::shard)),
    whole<policy_switched>(67, "policy_switched", by(duty::shard)),
    whole<shard_report>(68, "shard_report", by(duty::shard)),
    whole<shard_books>(69, "shard_books", by(duty::shard)),
    whole<shard_read>(70, "shard_read", by(duty::shard)),
    whole<trained_told>(71, "trained_told", by(duty::shard)),
    whole<worker_lost>(72, "worker_lost", by(duty::shard)),
    whole<shard_trace_told>(73, "shard_trace_told", by(duty::shard)),
    whole<recording_marked>(74, "recording_marked", by(duty::shard)),
    // to a shard
    whole<switch_policy>(80, "switch_policy", by(duty::coordinator)),
    whole<report_shard>(81, "report_shard", by(duty::coordinator)),
    whole<read_shard>(82, "read_shard", by(duty::evaluator)),
    whole<tell_trained>(83, "tell_trained", by(duty::coordinator)),
    whole<free_credit>(84, "free_credit", by(duty::coordinator)),
};

const table_entry* find(message_kind number) {
  for (const table_entry& e : table)
    if (e.number == number) return &e;
  return nullptr;
}

} // namespace

std::optional<message_kind> kind_of(const caf::message& m) {
  for (const table_entry& e : table)
    if (e.is(m)) return e.number;
  return std::nullopt;
}

template <class Message>
message_kind kind_of() {
  for (const table_entry& e : table)
    if (e.is == &holds<Message>) return e.number;
  throw std::logic_error("a message that stays in its process has no number");
}
template message_kind kind_of<terms_told>();
template message_kind kind_of<worker_leaves>();
template message_kind kind_of<run_asked>();
template message_kind kind_of<run_answered>();
template message_kind kind_of<shards_ready>();
template message_kind kind_of<worker_lost>();
template message_kind kind_of<push_gradient>();
template message_kind kind_of<dealt_batch>();
template message_kind kind_of<shard_weights>();

std::string_view name_of(message_kind kind) noexcept {
  const table_entry* e = find(kind);
  return e ? e->name : std::string_view{};
}

void write_fields(message_kind kind, const caf::message& m, field_inspector& f) { find(kind)->write(m, f); }

caf::message read_fields(message_kind kind, field_inspector& f) {
  const table_entry* e = find(kind);
  if (!e || !e->read) throw archive_error(fmt::format("letter: there is no message of kind {} here", kind));
  return e->read(f);
}

bool may_be_sent_by(message_kind kind, duty sender) noexcept {
  const table_entry* e = find(kind);
  return e && (e->senders & by(sender)) != 0;
}

std::optional<actor_address> subject_of(message_kind kind, const caf::message& m) {
  const table_entry* e = find(kind);
  return e && e->subject ? e->subject(m) : std::nullopt;
}

std::optional<std::uint64_t> step_of(message_kind kind, const caf::message& m) {
  if (kind != kind_of<push_gradient>()) return std::nullopt;
  return m.get_as<push_gradient>(0).header.id.step.value;
}

/// A shard gives no answer to a gradient that comes late for a switch of the policy, and sends the weights of
/// the new one instead, which the worker may have by then. So there may be two.
std::optional<std::uint32_t> most_unanswered(message_kind kind) {
  if (kind == kind_of<push_gradient>() || kind == kind_of<next_batch>()) return 2;
  if (kind == kind_of<run_asked>()) return 16;
  if (kind == kind_of<trace_told>() || kind == kind_of<shard_trace_told>()) return 1;
  return std::nullopt;
}

bool is_answer(message_kind kind) {
  return kind == kind_of<shard_weights>() || kind == kind_of<turn_missing>() ||
         kind == kind_of<dealt_batch>() || kind == kind_of<dealt_samples>() ||
         kind == kind_of<data_exhausted>() || kind == kind_of<trace_taken>() ||
         kind == kind_of<run_answered>();
}

} // namespace mailgrad::remote
