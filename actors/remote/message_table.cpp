#include <mailgrad/actors/remote/message_table.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace mailgrad::remote {

namespace {

/// One kind of message. `number` is given away once and for all.
struct table_entry {
  message_kind number;
  std::string_view name;
  bool (*is)(const caf::message&);
  void (*write)(const caf::message&, field_inspector&);
  caf::message (*read)(field_inspector&);
  std::optional<shard_index> (*shard)(const caf::message&);
};

/// The shard that a message is about, if it is about one.
template <class T>
std::optional<shard_index> shard_in(const caf::message& m) {
  const T& x = m.get_as<T>(0);
  if constexpr (requires { x.so_far.shard; })
    return x.so_far.shard;
  else if constexpr (requires { x.shard; })
    return x.shard;
  else if constexpr (requires { x.counts->shard; })
    return x.counts ? std::optional(x.counts->shard) : std::nullopt;
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
  if (!plugins_of_policy(x.policy).empty())
    throw archive_error(fmt::format(
        "policy '{}': a plug-in is loaded by the process that names it, and by no other", x.policy));
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
constexpr table_entry whole(message_kind number, std::string_view name) {
  return {number, name, holds<T>, write<T>, read<T>, shard_in<T>};
}
/// A message whose values travel beside its fields (bodies.hpp).
template <class T>
constexpr table_entry with_body(message_kind number, std::string_view name) {
  return {number, name, holds<T>, nullptr, nullptr, nullptr};
}

constexpr std::array table{
    // between hosts
    whole<terms_told>(1, "terms_told"),
    whole<worker_leaves>(2, "worker_leaves"),
    whole<run_asked>(3, "run_asked"),
    whole<run_answered>(4, "run_answered"),
    whole<shards_ready>(5, "shards_ready"),
    // from a worker
    whole<worker_joined>(16, "worker_joined"),
    whole<worker_finished>(17, "worker_finished"),
    whole<loss_diverged>(18, "loss_diverged"),
    whole<worker_failed>(19, "worker_failed"),
    whole<worker_paused>(20, "worker_paused"),
    whole<worker_progress>(21, "worker_progress"),
    whole<worker_left>(22, "worker_left"),
    whole<worker_marked>(23, "worker_marked"),
    whole<worker_books>(24, "worker_books"),
    whole<checkpoint_mark>(25, "checkpoint_mark"),
    whole<checkpoint_part>(26, "checkpoint_part"),
    whole<next_batch>(27, "next_batch"),
    whole<join_shard>(28, "join_shard"),
    whole<wait_named>(29, "wait_named"),
    whole<deal_again>(31, "deal_again"),
    with_body<push_gradient>(30, "push_gradient"),
    // to a worker
    whole<give_up>(48, "give_up"),
    whole<name_waits>(49, "name_waits"),
    whole<pause_worker>(50, "pause_worker"),
    whole<take_checkpoint>(51, "take_checkpoint"),
    whole<copy_books>(52, "copy_books"),
    whole<turn_missing>(53, "turn_missing"),
    whole<data_exhausted>(54, "data_exhausted"),
    whole<seat_given>(57, "seat_given"),
    with_body<dealt_batch>(55, "dealt_batch"),
    with_body<shard_weights>(56, "shard_weights"),
    // from a shard
    whole<staleness_observed>(64, "staleness_observed"),
    whole<order_entry>(65, "order_entry"),
    whole<order_noted>(66, "order_noted"),
    whole<policy_switched>(67, "policy_switched"),
    whole<shard_report>(68, "shard_report"),
    whole<shard_books>(69, "shard_books"),
    whole<shard_read>(70, "shard_read"),
    whole<trained_told>(71, "trained_told"),
    whole<worker_lost>(72, "worker_lost"),
    // to a shard
    whole<switch_policy>(80, "switch_policy"),
    whole<report_shard>(81, "report_shard"),
    whole<read_shard>(82, "read_shard"),
    whole<tell_trained>(83, "tell_trained"),
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

std::optional<shard_index> shard_of(message_kind kind, const caf::message& m) {
  const table_entry* e = find(kind);
  return e && e->shard ? e->shard(m) : std::nullopt;
}

} // namespace mailgrad::remote
