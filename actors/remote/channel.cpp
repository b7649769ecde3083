#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/channel.hpp>
#include <mailgrad/files/byte_archive.hpp>

namespace mailgrad::remote {

namespace {

/// Whether the connection by which a message came may bring another one when the receiver has read it.
enum class receipt : std::uint8_t { none, of_message, of_body };

/// CAF answers a request when its handler has returned, and also if its receiver has ended. All requests to
/// actors of this process may have the same number, since nobody looks for the answer by it.
caf::message_id id_of(receipt asked) {
  return asked == receipt::none
             ? caf::make_message_id()
             : caf::message_id{caf::message_id::default_async_value | static_cast<std::uint64_t>(asked)};
}
receipt asked_by(caf::message_id id) { return static_cast<receipt>(id.integer_value() & 3U); }

/// Goes when a message from a third process has left this one, and tells the stand-in for its sender.
std::shared_ptr<const void> receipt_for(const caf::mailbox_element& message) {
  if (!message.mid.is_request() || !message.sender) return nullptr;
  return {nullptr, [to = caf::actor_cast<caf::actor>(message.sender),
                    id = message.mid.response_id()](const void*) { messaging::send_as({}, to, {}, id); }};
}

/// Stands in for an actor of another process: who sends it a message sends it to that one, and who watches it
/// learns when the other process is gone.
///
/// It has no work of its own. A message becomes bytes on the thread of its sender, without a turn of this
/// actor, since a thread of the scheduler may be busy with a step of a model for a long time. A message that
/// it takes for a third process counts as read when that process has given credit for it.
class actor_proxy final : public caf::event_based_actor {
public:
  actor_proxy(caf::actor_config& config, std::shared_ptr<channel> by, actor_address stands_for)
      : caf::event_based_actor(config), by_(std::move(by)), stands_for_(stands_for) {
    tsan_annotations::release(tsan_annotations::tag(this));
  }

  const char* name() const override { return "mailgrad.actor-proxy"; }
  /// It hears the order to end, and nothing else.
  caf::behavior make_behavior() override {
    return {[](const step_ended&) {}};
  }

#if CAF_MAJOR_VERSION >= 1
  bool enqueue(caf::mailbox_element_ptr what, caf::scheduler* scheduler) override {
    return takes(*what) || caf::event_based_actor::enqueue(std::move(what), scheduler);
  }
#else
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override {
    if (!takes(*what)) caf::event_based_actor::enqueue(std::move(what), host);
  }
  ~actor_proxy() override { tsan_annotations::acquire(tsan_annotations::tag(this)); }
  resume_result resume(caf::execution_unit* unit, std::size_t most) override {
    const tsan_annotations::inside_caf hidden;
    return caf::event_based_actor::resume(unit, most);
  }
#endif

private:
  /// What a handler returns for a message comes with the receipt.
  bool takes(const caf::mailbox_element& what) const {
    caf::message m = messaging::content_of(what);
    const auto kind = m.empty() ? std::nullopt : kind_of(m);
    if (kind) by_->post(stands_for_, caf::actor_cast<caf::actor>(what.sender), *kind, m, receipt_for(what));
    if (what.mid.is_response()) by_->was_read(asked_by(what.mid) == receipt::of_body);
    return kind || what.mid.is_response();
  }

  const std::shared_ptr<channel> by_; ///< other threads read it
  actor_address stands_for_;
};

/// The step of a gradient; none of any other message.
std::optional<std::uint64_t> step_of(message_kind kind, const caf::message& m) {
  if (kind != kind_of<push_gradient>()) return std::nullopt;
  return m.get_as<push_gradient>(0).header.id.step.value;
}

/// What may wait for a process that takes nothing, besides four bodies of the largest size. It does so while
/// it is stopped, and its peers write meanwhile what they note anyway.
constexpr std::size_t most_waiting_beside = 64 << 20;

/// Does what the bytes of the other process ask for. If it fails, this ends their session and not this
/// process.
template <class Work>
auto done_or_refused(const Work& work) {
  try {
    return work();
  } catch (const net::protocol_error&) {
    throw;
  } catch (const std::exception& e) {
    refuse_message(e.what());
  }
}

} // namespace

caf::actor channel::add(actor_address a, const std::function<caf::actor()>& spawned) {
  caf::actor made;
  {
    const std::lock_guard lock(mutex_); // whatever the actor posts waits for it
    made = spawned();
    if (!over_) book_.add(a, made);
    if (!holds_messages_) return made;
  }
  ask_for_held_messages();
  return made;
}

caf::actor channel::stand_in(caf::actor_system& system, actor_address a) {
  const messaging::visit here;
  return system.spawn<actor_proxy>(shared_from_this(), a);
}

caf::actor channel::add_far(caf::actor_system& system, actor_address a) {
  const caf::actor made = stand_in(system, a);
  std::optional<std::string> over;
  {
    const std::lock_guard lock(mutex_);
    over = over_;
    if (!over) {
      book_.add(a, made);
      far_[a] = made;
      rules_.add(a);
    }
  }
  if (over) messaging::end_with_words(made, *over);
  return made;
}

channel::outgoing channel::written(const actor_address& to, const caf::actor& from, message_kind kind,
                                   const caf::message& m) {
  outgoing made;
  envelope head{.order = posted_, .to = to, .from = book_.of(from), .kind = kind};
  made.from = head.from;
  made.to = to;
  made.kind = kind;
  byte_archive_writer fields;
  field_inspector inspector(fields, book_);
  const auto form = forms_.find(kind);
  if (form != forms_.end()) {
    head.layout = message_layout::fields_and_values;
    made.body = form->second->write(m, to, inspector);
  } else {
    write_fields(kind, m, inspector);
    if (envelope_bytes + fields.bytes().size() > net::most_message_bytes)
      head.layout = message_layout::fields_in_body;
  }
  made.has_body = head.layout != message_layout::fields;
  net::frame_writer w(made.head);
  write_envelope(w, head);
  made.own_bytes = fields.bytes().size() + sizeof(outgoing);
  if (head.layout == message_layout::fields_in_body) {
    const auto kept = std::make_shared<const std::string>(fields.bytes());
    made.body = {net::as_bytes(*kept), kept};
  } else {
    w.raw(net::as_bytes(fields.bytes()));
  }
  return made;
}

void channel::post(const actor_address& to, const caf::actor& from, message_kind kind, const caf::message& m,
                   std::shared_ptr<const void> receipt) {
  bool takes_nothing = false;
  {
    const std::lock_guard lock(mutex_);
    if (over_ || waiting_bytes_ > most_waiting_) return;
    waiting_.push_back(written(to, from, kind, m));
    waiting_.back().receipt = std::move(receipt);
    waiting_bytes_ += waiting_.back().own_bytes;
    takes_nothing = waiting_bytes_ > most_waiting_;
    ++posted_;
    if (const auto step = step_of(kind, m)) step_ = *step;
    if (std::exchange(flush_asked_, true) && !takes_nothing) return;
  }
  takes_nothing ? end_for_want_of_room() : ask_for_flush();
}

void channel::end_for_want_of_room() {
  on_network([this](net::session& s, net::instant now) {
    s.end({net::end_reason::no_credit, fmt::format("{} takes no messages, and more than {} MiB wait for it",
                                                   s.peer_name(), most_waiting_ >> 20)},
          now);
  });
}

/// On any thread: the last holder of what the other process lends lets it go.
void channel::give_back(std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    returns_.push_back(number);
    if (std::exchange(flush_asked_, true)) return;
  }
  ask_for_flush();
}

void channel::flush() {
  give_back_credit();
  send_what_waits();
  const std::lock_guard lock(mutex_);
  if (!session_) return;
  for_credit_.become(session_->waits(), network_.now());
  session_->set_progress({step_, for_credit_.words});
}

void channel::send_what_waits() {
  for (;;) {
    outgoing message;
    {
      const std::lock_guard lock(mutex_);
      flush_asked_ = false;
      if (!session_) return;
      for (const std::uint64_t number : returns_) session_->give_back(number);
      returns_.clear();
      if (waiting_.empty()) return;
      message = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const bool is_sent = send(message);
    const std::lock_guard lock(mutex_);
    if (is_sent) { // who asks and takes no answers has asked all that it may
      rules_.answer(message.kind, message.from, message.to);
      waiting_bytes_ -= std::min(waiting_bytes_, message.own_bytes);
      continue;
    }
    if (!over_) waiting_.push_front(std::move(message));
    return;
  }
}

/// False if there is no credit.
bool channel::send(outgoing& message) {
  if (session_->now_is() != net::session::state::joined) return false;
  if (message.has_body && message.body.bytes.size() > session_->terms().most_body_bytes) {
    session_->end({net::end_reason::failed,
                   fmt::format("a message of {} MiB is more than the {} MiB that a session carries: "
                               "take more shards",
                               message.body.bytes.size() >> 20, session_->terms().most_body_bytes >> 20)},
                  network_.now());
    return false;
  }
  if (message.has_body) return session_->send_body(message.head, message.body.bytes, message.body.keeps);
  return session_->send(message.head);
}

/// Sending may end the session, and then its owner may let this object go.
void channel::joined(const net::welcome& terms) {
  const auto self = shared_from_this();
  messages_read_.at_once = std::max(1U, terms.messages / 4);
  if (session_->is_client()) bodies_read_.at_once = std::max(1U, terms.bodies / 2);
  {
    const std::lock_guard lock(mutex_);
    most_waiting_ = most_waiting_beside + 4 * static_cast<std::size_t>(terms.most_body_bytes);
  }
  if (events_.on_joined) events_.on_joined(terms);
  flush();
}

/// Reads a message. `place` is null if it came without a body, or gets the place of its body.
channel::incoming channel::opened(net::byte_view message, std::span<std::byte>* place,
                                  const announced& values) {
  net::frame_reader r("message", message);
  const envelope head = read_envelope(r, place != nullptr);
  if (head.order < next_)
    refuse_message(fmt::format("expected number {} or later, found {}", next_, head.order));
  const message_kind kind = head.kind;
  {
    const std::lock_guard lock(mutex_);
    rules_.require_ends(kind, head.from, head.to);
    if (book_.at(head.to)) rules_.take(kind, head.from, head.to);
  }
  incoming came{
      .order = head.order, .to = head.to, .from = head.from, .kind = kind, .had_body = place != nullptr};
  if (head.layout == message_layout::fields_and_values) {
    const std::lock_guard lock(mutex_);
    const auto form = forms_.find(kind);
    if (form == forms_.end()) refuse_message(fmt::format("kind {} has no values that may come now", kind));
    byte_archive_reader fields(net::as_text(r.rest()), std::string(name_of(kind)));
    field_inspector inspector(fields, book_);
    arriving body = form->second->begin(inspector, head.from, head.to, values);
    fields.require_end();
    *place = body.place;
    came.make = std::move(body.finish);
    return came;
  }
  const net::byte_view rest = r.rest();
  const auto text = std::make_shared<std::string>(net::as_text(rest));
  if (head.layout == message_layout::fields_in_body) {
    text->assign(values.bytes, '\0');
    *place = std::as_writable_bytes(std::span(*text));
  }
  came.make = [this, kind, text, from = head.from] {
    byte_archive_reader fields(*text, std::string(name_of(kind)));
    const std::lock_guard lock(mutex_);
    field_inspector inspector(fields, book_);
    caf::message m = read_fields(kind, inspector);
    fields.require_end();
    rules_.require_subject(kind, from, m);
    return m;
  };
  return came;
}

std::span<std::byte> channel::place_of_body(net::byte_view tag, std::uint64_t size) {
  std::span<std::byte> place;
  done_or_refused([&] { body_ = opened(tag, &place, {size}); });
  return place;
}

bool channel::body_lent(net::byte_view tag, const net::borrowed& body, std::uint64_t number) {
  net::borrowed held = body;
  held.keeps = {body.bytes.data(), [self = weak_from_this(), number, keeps = body.keeps](const void*) {
                  if (const auto way = self.lock()) way->give_back(number);
                }};
  done_or_refused([&] {
    std::span<std::byte> place;
    incoming message = opened(tag, &place, {body.bytes.size(), &held});
    std::ranges::copy(body.bytes.first(place.size()), place.begin());
    take(std::move(message));
  });
  return true;
}

/// The two connections are read one apart from the other, so a message may come before one that was sent
/// first. Credit bounds how many wait here.
void channel::take(incoming message) {
  if (!early_.try_emplace(message.order, std::move(message)).second)
    refuse_message("two have the same number");
  for (auto it = early_.find(next_); it != early_.end(); it = early_.find(next_)) {
    const incoming ready = std::move(it->second);
    early_.erase(it);
    ++next_;
    if (!is_held(ready)) hand_out(ready);
    if (!session_) return;
  }
}

/// A message to an actor that is not there yet waits for it, and holds its credit meanwhile. In a resumed run
/// a shard may judge what a checkpoint kept before the server has begun the run, and before the shards that
/// follow it are there.
bool channel::is_held(const incoming& message) {
  {
    const std::lock_guard lock(mutex_);
    if (book_.at(message.to)) return false;
    holds_messages_ = true;
  }
  auto& messages = held_[message.to];
  messages.push_back(message);
  messages.back().make = [m = done_or_refused(message.make)] { return m; };
  return true;
}

void channel::ask_for_held_messages() {
  on_network([this](net::session& s, net::instant now) {
    try {
      hand_out_held();
    } catch (const net::protocol_error& e) {
      if (session_) s.end({e.reason(), e.what()}, now);
    }
  });
}

void channel::hand_out_held() {
  for (auto it = held_.begin(); it != held_.end();) {
    {
      const std::lock_guard lock(mutex_);
      if (!book_.at(it->first)) {
        ++it;
        continue;
      }
      for (const incoming& message : it->second) rules_.take(message.kind, message.from, message.to);
    }
    const std::vector<incoming> messages = std::move(it->second);
    it = held_.erase(it);
    for (const incoming& message : messages) {
      hand_out(message);
      if (!session_) return;
    }
  }
}

bool channel::keeps_credit_of(message_kind kind) const {
  std::function<bool()> asked;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = keeps_credit_.find(kind); found != keeps_credit_.end()) asked = found->second;
  }
  return asked && asked();
}

std::optional<channel::held_out> channel::held_gradient(std::size_t gradients_a_step) const {
  const std::lock_guard lock(mutex_);
  const bool all_came =
      peers_step_ < step_came_ || (peers_step_ == step_came_ && came_of_step_ >= gradients_a_step);
  if (!held_since_ || over_ || peers_step_ == 0 || all_came) return std::nullopt;
  return held_out{peers_step_, (network_.now() - *held_since_).count()};
}

/// True: it has its credit until it is read.
bool channel::hand_to_actor(const incoming& message) {
  caf::message m = done_or_refused(message.make);
  caf::actor to, from;
  {
    const std::lock_guard lock(mutex_);
    to = book_.at(message.to);
    from = book_.at(message.from);
    if (!from && !over_) from = stand_in_for_nobody(to->home_system());
    if (const auto step = step_of(message.kind, m)) {
      if (*step != step_came_) came_of_step_ = 0;
      step_came_ = *step;
      ++came_of_step_;
    }
  }
  const bool counts_unanswered = bound_of(message.kind).what == message_bound::of::unanswered;
  const bool is_receipted = !counts_unanswered && from;
  const receipt asked = message.had_body ? receipt::of_body : receipt::of_message;
  messaging::send_as(from, to, std::move(m), id_of(is_receipted ? asked : receipt::none));
  return is_receipted;
}

void channel::ended(const net::ending& why) {
  last_heard_ = last_heard();
  session_ = nullptr;
  early_.clear();
  held_.clear();
  body_ = {};
  std::map<actor_address, caf::actor> far;
  std::deque<outgoing> unsent; // whose receipts go without the lock
  {
    const std::lock_guard lock(mutex_);
    over_ = why.words;
    is_over_ = true;
    unsent.swap(waiting_);
    for_credit_ = peers_wait_ = {};
    far.swap(far_);
    book_.clear();
  }
  for (const auto& [address, a] : far) messaging::end_with_words(a, why.words);
  if (events_.on_ended) events_.on_ended(why);
}

} // namespace mailgrad::remote
