#include <mailgrad/actors/remote/message_table.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/net/ending.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <cstring>

namespace mailgrad::remote {

std::string to_string(const actor_address& a) {
  switch (a.what) {
  case duty::nobody:
    return "nobody";
  case duty::host:
    return "the host of the process";
  case duty::coordinator:
    return "the coordinator";
  case duty::feeder:
    return "the feeder";
  case duty::tracker:
    return "the staleness tracker";
  case duty::shard:
    return fmt::format("shard {}", a.number);
  case duty::worker:
    return fmt::format("worker {}", a.number);
  case duty::recorder:
    return "the recorder";
  case duty::evaluator:
    return "the evaluator";
  }
  return "an actor that this build does not know";
}

void field_inspector::field(std::string_view name, caf::actor& x) {
  actor_address a = reads() ? actor_address{} : book_.of(x);
  archive_.group(name, [&] {
    archive_.choice("duty", a.what, last_duty);
    archive_.field("number", a.number);
  });
  if (!reads()) return;
  x = book_.at(a);
  if (!x) throw archive_error(fmt::format("{}: {} is not known here", name, to_string(a)));
}

void field_inspector::field(std::string_view name, snapshot& x) {
  if (!reads()) return archive_.hold(name, nullptr, x ? x.on_host() : std::span<const float>());
  const std::span<const float> told = archive_.array(name).values;
  x = {};
  if (told.empty()) return;
  block copy = block::for_overwrite(told.size_bytes());
  std::memcpy(copy.data(), told.data(), told.size_bytes());
  x = snapshot(std::make_shared<memory>(std::move(copy)));
}

void field_inspector::field(std::string_view name, std::shared_ptr<const saved_fields>& x) {
  archive_.group(name, [&] {
    if (reads())
      x = read_nested(archive_);
    else
      write_nested(archive_, *x);
  });
}

namespace {

/// Some duties, as bits.
constexpr unsigned of(std::same_as<duty> auto... duties) {
  return ((1U << static_cast<unsigned>(duties)) | ...);
}

/// One kind of message. `number` is given away once and for all.
struct table_entry {
  message_kind number;
  std::string_view name;
  unsigned senders, receivers; ///< as of() has them
  bool (*is)(const caf::message&);
  void (*write)(const caf::message&, field_inspector&);
  caf::message (*read)(field_inspector&);
  std::optional<actor_address> (*subject)(const caf::message&);
  message_bound bound;
  /// What it answers; zeros: nothing.
  std::array<message_kind, 2> questions;
};

constexpr message_bound unread{};
constexpr message_bound unanswered(std::uint32_t most) { return {message_bound::of::unanswered, most}; }
constexpr message_bound once{message_bound::of::in_all, 1};

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

/// Without "mailgrad::".
template <class T>
constexpr std::string_view name_of_type = std::string_view(caf::type_name<T>::value).substr(10);

template <class T>
constexpr table_entry whole(message_kind number, unsigned senders, unsigned receivers, message_bound bound,
                            std::array<message_kind, 2> questions = {}) {
  return {number,   name_of_type<T>, senders,       receivers, holds<T>,
          write<T>, read<T>,         subject_of<T>, bound,     questions};
}
/// A message whose values travel beside its fields, by a body_form.
template <class T>
constexpr table_entry with_body(message_kind number, unsigned senders, unsigned receivers,
                                message_bound bound, std::array<message_kind, 2> questions = {}) {
  return {number, name_of_type<T>, senders, receivers, holds<T>, nullptr, nullptr, nullptr, bound, questions};
}

/// A shard gives no answer to a gradient that comes late for a switch of the policy, and sends the weights of
/// the new one instead, which the worker may have by then. So two gradients may lack their answers.
constexpr std::array table = [] {
  using enum duty;
  return std::array{
      // between hosts
      whole<terms_given>(1, of(nobody), of(host), once),
      whole<worker_leaves>(2, of(nobody), of(host), once),
      whole<run_asked>(3, of(nobody), of(host), unanswered(16)),
      whole<run_answered>(4, of(nobody), of(host), unread, {3}),
      whole<shards_ready>(5, of(nobody), of(host), once),
      // from a worker
      whole<worker_joined>(16, of(worker), of(coordinator), once),
      whole<worker_finished>(17, of(worker), of(coordinator), once),
      whole<loss_diverged>(18, of(worker), of(coordinator), once),
      whole<worker_failed>(19, of(worker), of(coordinator), once),
      whole<worker_paused>(20, of(worker), of(coordinator), unread),
      whole<worker_progress>(21, of(worker), of(coordinator, tracker), unread),
      whole<worker_left>(22, of(worker, coordinator, shard), of(coordinator, feeder, shard), unread),
      whole<worker_marked>(23, of(worker), of(feeder), unread),
      whole<worker_books>(24, of(worker), of(coordinator), unread),
      whole<checkpoint_marker>(25, of(worker), of(shard), unread),
      whole<checkpoint_part>(26, of(worker, shard), of(coordinator), unread),
      whole<next_batch>(27, of(worker), of(feeder), unanswered(2)),
      whole<join_shard>(28, of(worker), of(shard), once),
      whole<wait_reason>(29, of(worker, shard), of(coordinator), unread),
      whole<deal_again>(31, of(worker), of(feeder), once),
      whole<trace_reported>(32, of(worker), of(coordinator), unanswered(1)),
      whole<worker_at_end>(33, of(worker), of(coordinator), once),
      with_body<push_gradient>(30, of(worker), of(shard), unanswered(2)),
      // to a worker
      whole<give_up>(48, of(coordinator), of(shard, worker), unread),
      whole<list_wait_reasons>(49, of(coordinator), of(shard, worker), unread),
      whole<pause_worker>(50, of(coordinator), of(worker), unread),
      whole<take_checkpoint>(51, of(coordinator), of(shard, worker), unread),
      whole<copy_books>(52, of(coordinator), of(shard, worker), unread),
      whole<entry_missing>(53, of(shard), of(worker), unread, {30}),
      whole<data_exhausted>(54, of(feeder), of(worker), unread, {27}),
      whole<slot_given>(57, of(coordinator), of(worker), once),
      whole<dealt_samples>(58, of(feeder), of(worker), unread, {27}),
      whole<trace_taken>(59, of(coordinator), of(shard, worker), unread, {32, 73}),
      whole<mark_at_end>(60, of(coordinator), of(worker), unread),
      with_body<dealt_batch>(55, of(feeder), of(worker), unread, {27}),
      with_body<shard_weights>(56, of(shard), of(worker), unread, {30}),
      // from a shard
      whole<staleness_observed>(64, of(shard, worker), of(tracker), unread),
      whole<order_entry>(65, of(shard), of(shard), unread),
      whole<order_noted>(66, of(shard), of(recorder), unread),
      whole<policy_switched>(67, of(shard), of(coordinator), unread),
      whole<shard_report>(68, of(shard), of(coordinator), unread),
      whole<shard_books>(69, of(shard), of(coordinator), unread),
      whole<shard_read>(70, of(shard), of(evaluator), unread, {82}),
      whole<trained_reported>(71, of(shard), of(coordinator), unread),
      whole<worker_lost>(72, of(shard), of(coordinator), unread),
      whole<shard_trace_reported>(73, of(shard), of(coordinator), unanswered(1)),
      whole<recording_marked>(74, of(shard), of(recorder), unread),
      // to a shard
      whole<switch_policy>(80, of(coordinator), of(shard), unread),
      whole<report_shard>(81, of(coordinator), of(shard), unread),
      whole<read_shard>(82, of(evaluator), of(shard), unanswered(2)),
      whole<tell_trained>(83, of(coordinator), of(shard), unread),
      whole<free_credit>(84, of(coordinator), of(shard), unread),
  };
}();

const table_entry* find(message_kind number) {
  for (const table_entry& e : table)
    if (e.number == number) return &e;
  return nullptr;
}

void write_address(net::frame_writer& w, const actor_address& a) {
  w.u8(static_cast<std::uint8_t>(a.what)).u32(a.number);
}

actor_address read_address(net::frame_reader& r) {
  const std::uint8_t what = r.u8();
  if (what > static_cast<std::uint8_t>(last_duty))
    r.fail(fmt::format("expected a duty from 0 to {}, found {}", static_cast<int>(last_duty), what));
  return {static_cast<duty>(what), r.u32()};
}

} // namespace

std::optional<message_kind> kind_of(const caf::message& m) {
  for (const table_entry& e : table)
    if (e.is(m)) return e.number;
  return std::nullopt;
}

std::string_view name_of(message_kind kind) noexcept {
  const table_entry* e = find(kind);
  return e ? e->name : std::string_view{};
}

void write_fields(message_kind kind, const caf::message& m, field_inspector& f) { find(kind)->write(m, f); }

caf::message read_fields(message_kind kind, field_inspector& f) {
  const table_entry* e = find(kind);
  if (!e || !e->read) throw archive_error(fmt::format("message: there is no message of kind {} here", kind));
  return e->read(f);
}

bool may_be_sent_by(message_kind kind, duty sender) noexcept {
  const table_entry* e = find(kind);
  return e && (e->senders & of(sender)) != 0;
}

bool may_be_sent_to(message_kind kind, duty receiver) noexcept {
  const table_entry* e = find(kind);
  return e && (e->receivers & of(receiver)) != 0;
}

message_bound bound_of(message_kind kind) noexcept {
  const table_entry* e = find(kind);
  return e ? e->bound : message_bound{};
}

std::string to_string(message_bound x) {
  switch (x.what) {
  case message_bound::of::unanswered:
    return fmt::format("{} unanswered", x.most);
  case message_bound::of::in_all:
    return fmt::format("{} in all", x.most);
  case message_bound::of::unread:
    break;
  }
  return "unread";
}

bool answers(message_kind answer, message_kind question) noexcept {
  const table_entry* e = find(answer);
  return e && question != 0 && (e->questions[0] == question || e->questions[1] == question);
}

void write_envelope(net::frame_writer& w, const envelope& head) {
  w.u64(head.order);
  write_address(w, head.to);
  write_address(w, head.from);
  w.u16(head.kind).u8(static_cast<std::uint8_t>(head.layout));
}

envelope read_envelope(net::frame_reader& r, bool has_body) {
  envelope head;
  head.order = r.u64();
  head.to = read_address(r);
  head.from = read_address(r);
  head.kind = r.u16();
  head.layout = static_cast<message_layout>(r.u8());
  if ((head.layout == message_layout::fields) == has_body || head.layout > message_layout::fields_in_body)
    r.fail("expected fields that fit how the message came");
  return head;
}

void refuse_message(const std::string& words) { throw net::protocol_error("message: " + words); }

void peer_checks::require_ends(message_kind kind, const actor_address& from, const actor_address& to) const {
  const bool is_nobody = from.what == duty::nobody;
  const bool may =
      is_nobody ? may_be_sent_by(kind, duty::nobody) ||
                      std::ranges::any_of(
                          known_, [kind](const actor_address& a) { return may_be_sent_by(kind, a.what); })
                : known_.contains(from) && may_be_sent_by(kind, from.what);
  const std::string name(name_of(kind)), what = name.empty() ? fmt::format("message of kind {}", kind) : name;
  if (!may) refuse_message(fmt::format("expected no {} from {}, found one", what, to_string(from)));
  if (!may_be_sent_to(kind, to.what))
    refuse_message(fmt::format("expected no {} for {}, found one", what, to_string(to)));
}

void peer_checks::require_subject(message_kind kind, const actor_address& from, const caf::message& m) const {
  const table_entry* e = find(kind);
  const auto about = e && e->subject ? e->subject(m) : std::nullopt;
  if (!about) return;
  if (about->what == from.what && *about != from)
    refuse_message(fmt::format("{}: expected one about {}, which sent it, found one about {}", name_of(kind),
                               to_string(from), to_string(*about)));
  const bool has_such =
      std::ranges::any_of(known_, [&](const actor_address& a) { return a.what == about->what; });
  if (has_such && !known_.contains(*about))
    refuse_message(fmt::format("{}: expected one about an actor of that process, found one about {}",
                               name_of(kind), to_string(*about)));
}

void peer_checks::take(message_kind kind, const actor_address& from, const actor_address& to) {
  const message_bound bound = bound_of(kind);
  if (bound.what == message_bound::of::unread || ++taken_[{from, to, kind}] <= bound.most) return;
  refuse_message(bound.what == message_bound::of::in_all
                     ? fmt::format("expected at most {} {} from {}, found one more", bound.most,
                                   name_of(kind), to_string(from))
                     : fmt::format("expected at most {} {} that {} has not answered, found one more",
                                   bound.most, name_of(kind), to_string(to)));
}

void peer_checks::answer(message_kind kind, const actor_address& from, const actor_address& to) {
  const bool answers_one = kind == kind_of<run_answered>(); // of nobody to a host, as the question
  const auto asker = answers_one ? from : to, asked = answers_one ? to : from;
  for (auto it = taken_.lower_bound({asker, asked, 0}); it != taken_.end(); ++it) {
    if (it->first.from != asker || it->first.to != asked) return;
    if (!answers(kind, it->first.kind)) continue;
    if (!answers_one || --it->second == 0) taken_.erase(it);
    return;
  }
}

} // namespace mailgrad::remote
