#pragma once

#include <mailgrad/actors/remote/message_table.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/net/network.hpp>

#include <atomic>

namespace mailgrad::remote {

/// What the owner of a channel is told. All of it is called on the network's thread and must not block.
struct channel_events {
  std::function<void(const net::welcome& terms)> on_joined{};
  /// The last event.
  std::function<void(const net::ending& why)> on_ended{};
};

/// The channel between the actors of two processes, seen from one of them: what stands above a session.
///
/// A message that an actor sends to an actor_proxy becomes bytes: an envelope with the addresses of receiver
/// and sender and the kind of message, and then its fields. They go by the control connection. Values such as
/// those of a gradient go beside them, by the bulk connection, or stay where they are if both processes see
/// that memory. In the other process the message is handed to the actor that it is addressed to, and its
/// sender is the actor_proxy of who sent it.
///
/// Guarantees  messages are handed out in the order in which they were sent, whichever connection they came
///             by; so a message cannot overtake another one, as between actors of one process. A message that
///             finds no credit waits here and not at its sender. What waits is bounded: if the other process
///             takes nothing for so long that more would, this ends the session. A message that came holds
///             its credit until its receiver has read it, unless another bound counts it (message_table.hpp).
/// Threads     attach(), last_heard(), give_up() and session_events: the network's. The rest: any.
class channel final : public net::session_events, public std::enable_shared_from_this<channel> {
public:
  channel(net::network& by, channel_events events) : network_(by), events_(std::move(events)) {}

  /// Sets what is below, before anything is posted or comes.
  void attach(net::endpoint& end, net::session& s) {
    endpoint_ = &end;
    session_ = &s;
  }

  /// Lets messages reach an actor of this process, and names it in envelopes.
  void add(actor_address a, const caf::actor& handle) {
    add(a, [&] { return handle; });
  }
  /// The same for an actor that speaks as soon as it is spawned: `spawned` returns it, and nothing that it
  /// says leaves before its address is known.
  caf::actor add(actor_address a, const std::function<caf::actor()>& spawned);
  /// Makes an actor that stands in for one of the other process. It ends when the session does, with the
  /// words of its end.
  caf::actor add_far(caf::actor_system& system, actor_address a);
  /// Sets how values of such messages travel. Without it, none may come or go.
  void take_form(message_kind kind, std::unique_ptr<body_form> form) {
    const std::lock_guard lock(mutex_);
    forms_[kind] = std::move(form);
  }

  /// Asks whether the credit of a body of this kind is kept when it is handed out, to be given by allow().
  /// Without it, it is given back.
  void keep_credit(message_kind kind, std::function<bool()> whether) {
    const std::lock_guard lock(mutex_);
    keeps_credit_[kind] = std::move(whether);
  }
  /// Gives the other process credit for so many bodies more. On any thread, as give_back(). It takes no lock:
  /// whoever reads a gradient that is refused lets its credit go with the channel's lock held, and the next
  /// one gets it.
  void allow(std::uint32_t bodies) {
    if (!is_over_) on_network([bodies](net::session& s, auto) { s.allow(0, bodies); });
  }

  /// Sends a message. Never waits. `receipt` goes when it has credit.
  void post(const actor_address& to, const caf::actor& from, message_kind kind, const caf::message& m,
            std::shared_ptr<const void> receipt = nullptr);
  /// To the host of the other process, from nobody.
  template <class Message>
  void tell_host(Message m) {
    post({duty::host}, {}, kind_of<Message>(), caf::make_message(std::move(m)));
  }
  /// A message that was handed out has been read. On any thread, and without a lock, as allow(). Most credit
  /// goes back with the next message. Without one it goes when a part of the window has been read; what is
  /// left of the window then is no reason to wait.
  void was_read(bool had_body) {
    if (!(had_body ? bodies_read_ : messages_read_).is_due() || is_over_) return;
    on_network([this](auto&, auto) { give_back_credit(); });
  }
  /// Both below.
  std::vector<wait_reason> waits() const {
    std::vector<wait_reason> all;
    for (auto& wait : {own_wait(), peers_wait()})
      if (wait) all.push_back(*wait);
    return all;
  }
  /// That messages wait here for credit.
  std::optional<wait_reason> own_wait() const {
    const std::lock_guard lock(mutex_);
    return for_credit_.told(network_.now());
  }
  /// What the other process waits for by its last heartbeat, and the step of its last gradient.
  std::optional<wait_reason> peers_wait() const {
    const std::lock_guard lock(mutex_);
    return peers_wait_.told(network_.now());
  }
  std::uint64_t peers_step() const {
    const std::lock_guard lock(mutex_);
    return peers_step_;
  }
  /// A gradient that the other process has sent and that is not read for want of room.
  struct held_out {
    std::uint64_t step = 0;
    std::int64_t span = 0; ///< ns since its bodies are not read
  };
  /// Of a worker that sends so many gradients in a step. None also before a heartbeat has told of the step.
  std::optional<held_out> held_gradient(std::size_t gradients_a_step) const;
  /// When the last byte of the other process came, also after the end.
  net::instant last_heard() const { return session_ ? session_->last_heard() : last_heard_; }
  /// Ends the session; what has not left yet is lost. leave(): of one's own will; fail(): this process cannot
  /// go on, which is no goodbye; lose(): another connection broke without which it is of no use.
  void end(net::ending why) {
    on_network([why = std::move(why)](net::session& s, net::instant now) { s.end(why, now); });
  }
  void leave(std::string words) { end({net::end_reason::left, std::move(words)}); }
  void fail(std::string words) { end({net::end_reason::failed, std::move(words)}); }
  void lose(std::string words) { end({net::end_reason::lost, std::move(words)}); }
  /// Ends what stands above the session, if ended() has not. For an owner whose network calls nothing more.
  void give_up(std::string words) {
    if (session_) ended({net::end_reason::left, std::move(words)});
  }

  // -- session_events

  void joined(const net::welcome& terms) override;
  void message_came(net::byte_view message) override { take(opened(message, nullptr, {})); }
  std::span<std::byte> place_of_body(net::byte_view tag, std::uint64_t size) override;
  void body_came(net::byte_view) override { take(std::exchange(body_, {})); }
  bool body_lent(net::byte_view tag, const net::borrowed& body, std::uint64_t number) override;
  void progress_reported(const net::progress& p) override {
    const std::lock_guard lock(mutex_);
    peers_step_ = p.step;
    peers_wait_.become(p.waits_for, network_.now());
  }
  void held(bool is_held) override {
    const std::lock_guard lock(mutex_);
    held_since_ = is_held ? std::optional(network_.now()) : std::nullopt;
  }
  void credit_came() override {
    const auto self = shared_from_this();
    flush();
  }
  void ended(const net::ending& why) override;

private:
  /// A message to send.
  struct outgoing {
    actor_address from, to;
    message_kind kind{};
    net::bytes head;
    attached body{};
    bool has_body = false;
    std::size_t own_bytes = 0; ///< what it takes of memory, without values that others have anyway
    std::shared_ptr<const void> receipt{};
  };
  /// A message that has arrived.
  struct incoming {
    std::uint64_t order = 0;
    actor_address to, from;
    message_kind kind{};
    std::function<caf::message()> make{}; ///< may throw what comes of bytes that make none
    bool had_body = false;
  };

  /// Does it on the network's thread, if the session has not ended by then.
  template <class Work>
  void on_network(Work work) {
    network_.post(*endpoint_, [self = shared_from_this(), work = std::move(work)](net::instant now) {
      if (self->session_) work(*self->session_, now);
    });
  }
  outgoing written(const actor_address& to, const caf::actor& from, message_kind kind, const caf::message& m);
  bool send(outgoing& message);
  void end_for_want_of_room();
  void flush();
  void send_what_waits();
  void ask_for_flush() {
    on_network([this](auto&, auto) { flush(); });
  }
  void give_back(std::uint64_t number);
  incoming opened(net::byte_view message, std::span<std::byte>* place, const announced& body);
  void take(incoming message);
  bool keeps_credit_of(message_kind kind) const;
  void give_back_credit() {
    const std::uint32_t messages = messages_read_.count.exchange(0), bodies = bodies_read_.count.exchange(0);
    if (session_ && messages + bodies > 0) session_->allow(messages, bodies);
  }
  bool is_held(const incoming& message);
  void ask_for_held_messages();
  void hand_out_held();
  /// Messages that came before for the same actor go first.
  void hand_out(const incoming& message) {
    if (held_.contains(message.to)) hand_out_held();
    if (!session_) return;
    if (hand_to_actor(message) || (message.had_body && keeps_credit_of(message.kind))) return;
    message.had_body ? session_->allow(0, 1) : session_->allow(1, 0);
  }
  bool hand_to_actor(const incoming& message);
  caf::actor stand_in(caf::actor_system& system, actor_address a);
  /// Hears that messages which name no sender are read. The caller holds the mutex.
  caf::actor stand_in_for_nobody(caf::actor_system& system) {
    caf::actor& nobody = far_[actor_address{}];
    if (!nobody) nobody = stand_in(system, {});
    return nobody;
  }

  net::network& network_;
  net::endpoint* endpoint_ = nullptr;
  channel_events events_;
  net::session* session_ = nullptr; ///< null after its end
  net::instant last_heard_{0};      ///< set at its end
  std::uint64_t next_ = 0;          ///< the order of the message to hand out next
  std::map<std::uint64_t, incoming> early_;
  std::map<actor_address, std::vector<incoming>> held_; ///< for actors that are not there yet
  incoming body_;                                       ///< whose bytes are arriving

  /// What is waited for, and since when; empty words: nothing.
  struct timed_words {
    std::string words{};
    net::instant since{0};

    void become(std::string what, net::instant now) {
      if (what != words) *this = {std::move(what), now};
    }
    std::optional<wait_reason> told(net::instant now) const {
      return words.empty() ? std::nullopt : std::optional(wait_reason{words, (now - since).count()});
    }
  };

  mutable std::mutex mutex_; ///< guards the members below
  address_book book_;
  std::map<actor_address, caf::actor> far_; ///< made by this channel; the book may also name some of others
  peer_checks rules_;                       ///< of the actors that these stand in for
  std::map<message_kind, std::unique_ptr<body_form>> forms_;
  std::map<message_kind, std::function<bool()>> keeps_credit_;
  std::deque<outgoing> waiting_;
  std::size_t waiting_bytes_ = 0, most_waiting_ = std::numeric_limits<std::size_t>::max();
  std::vector<std::uint64_t> returns_; ///< values of the other process that are needed no more
  std::uint64_t posted_ = 0;
  bool flush_asked_ = false;
  bool holds_messages_ = false;            ///< or did
  std::uint64_t step_ = 0;                 ///< of the last gradient that was posted
  std::uint64_t peers_step_ = 0;           ///< the same of the other process, as it says
  std::uint64_t step_came_ = 0;            ///< of the last gradient that came
  std::size_t came_of_step_ = 0;           ///< how many came of that step
  std::optional<net::instant> held_since_; ///< when bodies were last read, if they are not
  timed_words for_credit_;                 ///< of this side
  timed_words peers_wait_;                 ///< as it says
  std::optional<std::string> over_;        ///< the words of the end
  std::atomic<bool> is_over_ = false;      ///< the same, for allow()

  /// What has been read and whose credit is still to be given back.
  struct unreturned {
    std::atomic<std::uint32_t> count{0};
    std::atomic<std::uint32_t> at_once{1}; ///< are given back, if no message takes them along before

    bool is_due() noexcept { return ++count >= at_once; }
  };
  unreturned messages_read_, bodies_read_;
};

} // namespace mailgrad::remote
