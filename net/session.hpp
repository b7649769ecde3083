#pragma once

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/loan.hpp>

#include <deque>

namespace mailgrad::net {

/// How far a process has come, in its own words. A heartbeat carries it, so that one which lives and does not
/// get on can be told from one that works.
struct progress {
  std::uint64_t step = 0;
  std::string waits_for; ///< empty if it works; "worker 1 at the barrier of step 17"

  friend bool operator==(const progress&, const progress&) = default;
};

/// What the layers above a session are told.
/// Errors  message_came(), place_of_body(), body_came() and body_lent() may throw, which ends the session:
///         protocol_error if the peer is wrong, and anything else if this process fails.
/// Threads that of the session.
class session_events {
public:
  virtual ~session_events() = default;

  /// Both connections stand, and the terms are those of the server.
  virtual void joined(const welcome& terms) = 0;
  /// A message, valid until the call returns. session::allow() gives its credit back.
  virtual void message_came(byte_view message) = 0;
  /// A body begins: where shall its bytes go? Exactly `size` of them, into memory that stays until
  /// body_came() or ended(). `size` is at most what the welcome allows; 0 bytes have any place.
  virtual std::span<std::byte> place_of_body(byte_view tag, std::uint64_t size) = 0;
  /// The body is whole, and every checksum was right. session::allow() gives its credit back.
  virtual void body_came(byte_view tag) = 0;
  /// The same for a body that stays where it lies, in memory of the peer. True: it is kept, and
  /// session::give_back() must be told its number when it is needed no more. Here it is copied.
  /// Errors  as place_of_body().
  virtual bool body_lent(byte_view tag, const borrowed& body, [[maybe_unused]] std::uint64_t number) {
    std::ranges::copy(body.bytes, place_of_body(tag, body.bytes.size()).begin());
    body_came(tag);
    return false;
  }
  /// A heartbeat said something else than the one before.
  virtual void progress_reported([[maybe_unused]] const progress& p) {}
  /// Bodies of the peer are not read from now on for want of room, or are read again.
  virtual void held([[maybe_unused]] bool is_held) {}
  /// There is credit again, after a send that was refused.
  virtual void credit_came() = 0;
  /// The last event. What has not arrived whole never will.
  virtual void ended(const ending& why) = 0;
};

/// A frame to send: the header, a payload that belongs to it, and bytes of a body that lie elsewhere. One of
/// the two is empty.
struct outgoing {
  header_bytes header{};
  bytes payload;
  byte_view body;
  std::shared_ptr<const void> keeps; ///< what `body` lies in

  byte_view content() const noexcept { return body.empty() ? byte_view{payload} : body; }
};

/// One incarnation of a member and its server, seen from one of the two: a state machine of two connections
/// with one fate. It has no socket, no thread and no clock: whoever owns the connections tells it what came
/// and when, and asks it what to send.
///
///     greeting --both connections stand--> joined --any reason--> ended
///                  `------------any reason------------------------^
///
/// The server is joined when it has read the hello of the bulk connection, and then answers by a welcome. The
/// client is joined by the first thing that it hears from a server that is: this welcome, or any frame on the
/// control connection, which may overtake it. So whatever is sent finds the other side joined.
/// Guarantees  frames of a connection are handed on in the order in which they were sent, each once, and none
///             of another session. A message or body without credit ends the session before memory is taken
///             for it.
/// Units   moments are those of one clock; the session only compares them.
/// Errors  none: what a peer does wrong ends the session, and ended() of the events says why.
/// Threads one caller at a time, and the events are called from within. They may call the session again, but
///         must not destroy it.
class session final : frame_sink {
public:
  enum class state : std::uint8_t { greeting, joined, ended };

  /// The client's side, before anything has been sent.
  session(hello says, session_events& events, instant now);
  /// The server's side, for a peer that it takes in by these terms.
  session(const welcome& terms, session_events& events, instant now, features peer = {})
      : session(terms, now, std::move(peer)) {
    tell(events);
  }
  /// The same, if tell() says to whom before anything happens.
  session(const welcome& terms, instant now, features peer);
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void tell(session_events& events) noexcept { events_ = &events; }

  // What the owner of the connections tells.
  /// A connection stands. Of a server: its hello has been read already, so the bulk connection is the last to
  /// come.
  void attach(plane p, instant now);
  /// Both processes see this memory, so bodies that lie in it are lent and not moved. Told before any body
  /// is sent.
  void share(std::shared_ptr<common_memory> memory) noexcept { memory_ = std::move(memory); }
  /// What people call the server of this session, where it is not that of the run.
  void call_server(std::string name) { server_name_ = std::move(name); }
  /// Waits as long as timing::patience() says to be taken in, by a server that may stand still.
  void greet_patiently() noexcept { greets_patiently_ = true; }
  /// Whether the bulk connection is to be read: always while a body is under way on it, and else where there
  /// is room for another. What stays unread is no silence of the peer, which the control connection tells.
  /// Nor does silence count for as long again, since the system tries what was not taken ever more seldom.
  bool reads_bulk(bool has_room, instant now);
  /// Bytes came, in any cuts.
  void receive(plane p, byte_view data, instant now);
  /// Where the next bytes of a body belong, to be told by filled(); empty if something else comes next, or
  /// after the end. Saves a copy.
  std::span<std::byte> place(plane p) noexcept {
    frame_decoder& d = line_of(p).decoder;
    return state_ != state::ended && d.is_placed() ? d.room() : std::span<std::byte>{};
  }
  /// Whether the place on the bulk connection reaches to the end of a body.
  bool is_last_place() noexcept {
    const std::span<std::byte> left = place(plane::bulk);
    return body_in_ && !left.empty() && left.data() + left.size() == body_in_->data() + body_in_->size();
  }
  void filled(plane p, std::size_t count, instant now);
  /// The connection closed, or could not be made; the words say what the system said.
  void lose(plane p, std::string_view words, instant now);
  /// How long it may take to join.
  instant longest_greeting() const noexcept {
    return patient_ || greets_patiently_ ? terms_.times.patience() : terms_.times.hello();
  }
  /// Whether tick() would end it now because it has not joined within its time.
  bool is_overdue(instant now) {
    excuse_own_pause(now);
    return state_ == state::greeting && now >= began_ + longest_greeting();
  }
  /// Time has passed. Asked for at deadline() at the latest.
  void tick(instant now);

  // What it asks of that owner.
  /// The next frame to send; none if there is nothing to say now.
  std::optional<outgoing> next(plane p, instant now);
  /// The moment by which tick() and next() must be asked again, although nothing came.
  instant deadline() const noexcept;
  bool is_client() const noexcept { return is_client_; }
  /// Of a client: the control connection is welcome, so the bulk connection may be made.
  bool wants_bulk() const noexcept { return state_ == state::greeting && is_client_ && terms_.session != 0; }
  /// Whether it has ended and next() has given its last frame.
  bool is_through() const noexcept { return state_ == state::ended && !goodbye_due_; }

  // What the layers above say.
  /// Sends a message. False, and nothing is sent, if there is no credit; credit_came() of the events then
  /// says when there is.
  /// Errors  std::length_error above most_message_bytes. std::logic_error unless joined.
  bool send(bytes message);
  /// Sends a body: in pieces, or as a loan if the peer sees its memory. It is not copied: `keeps` must hold
  /// its memory until it is let go.
  /// Errors  as send(), for a tag above most_tag_bytes and a body above the largest that the welcome allows.
  bool send_body(bytes tag, byte_view body, std::shared_ptr<const void> keeps);
  /// A body that body_lent() of the events kept is needed no more. Nothing happens after the end.
  void give_back(std::uint64_t number) {
    if (state_ == state::joined) returns_.push_back(number);
  }
  /// There is room for so many more messages and bodies, since that many have been worked off.
  void allow(std::uint32_t messages, std::uint32_t bodies);
  /// What the next heartbeats tell. Words beyond 512 bytes are cut.
  void set_progress(progress p);
  void leave(std::string_view words, instant now) { end({end_reason::left, std::string(words)}, now, true); }
  /// Ends it, and tells the peer.
  void end(const ending& why, instant now) { end(why, now, true); }

  // What it knows.
  state now_is() const noexcept { return state_; }
  /// Why it ended; none before.
  const std::optional<ending>& outcome() const noexcept { return outcome_; }
  /// As the welcome says; its session is 0 before a client has read it.
  const welcome& terms() const noexcept { return terms_; }
  /// "worker 2 (incarnation 3)"
  std::string self_name() const;
  std::string peer_name() const;
  /// Of a server: what the peer has said of itself. Nothing of it is checked but what the server demands.
  const features& peer_says() const noexcept { return peer_says_; }
  const progress& peer_progress() const noexcept { return peer_progress_; }
  /// When the last byte came, on whichever connection.
  instant last_heard() const noexcept { return std::max(lines_[0].heard, lines_[1].heard); }
  /// "worker 2 waits for credit of server: 64 messages are under way"; empty if it does not wait.
  std::string waits() const;
  std::uint64_t duplicates() const noexcept { return duplicates_; }

private:
  /// One connection.
  struct line {
    explicit line(frame_sink& sink) : decoder(sink) {}

    frame_decoder decoder;
    bool attached = false;
    bool greeted = false;          ///< hello or welcome has been sent
    bool welcome = false;          ///< of a client: has read the welcome
    std::uint64_t in = 0, out = 0; ///< numbers of the next frames
    instant heard{0}, said{0};
    bool heartbeat_due = false;
    bool held = false;            ///< is not read, for want of room
    std::optional<instant> since; ///< when it was held first after the last byte came
    instant excused{0};           ///< until then it may be silent
  };
  struct body_out {
    bytes tag;
    byte_view data;
    std::shared_ptr<const void> keeps;
    std::size_t sent = 0;
    bool begun = false;
    std::optional<lending> lent{}; ///< where the peer reads it
  };
  /// A body that the peer reads.
  struct lent_out {
    std::shared_ptr<const void> keeps;
    lending what; ///< ends before its memory may be lent again
  };
  /// Cumulative counts of what may be sent and what was.
  struct credit {
    std::uint64_t allowed = 0, used = 0;
    bool wanted = false; ///< a send was refused
    bool empty() const noexcept { return used >= allowed; }
    /// Uses one of it, if there is one.
    bool take() noexcept {
      wanted = empty();
      if (!wanted) ++used;
      return !wanted;
    }
    /// Whether a send waited for it that may be tried again now.
    bool raise(std::uint64_t to) noexcept {
      allowed = to;
      return !empty() && std::exchange(wanted, false);
    }
  };

  std::span<std::byte> place_of(const frame_header& h) override;
  void take(const frame_header& h, byte_view payload) override;
  line& line_of(plane p) noexcept { return lines_[static_cast<std::size_t>(p)]; }
  const line& line_of(plane p) const noexcept { return lines_[static_cast<std::size_t>(p)]; }
  void check_identity(const frame_header& h) const;
  void check_plane(frame_kind k) const;
  std::span<std::byte> piece_place(std::uint32_t length) const;
  void take_greeting(const frame_header& h, byte_view payload);
  void take_credit(byte_view payload);
  void take_body(byte_view payload);
  void take_piece(std::size_t length);
  void take_lent(byte_view payload);
  void take_returned(byte_view payload);
  void take_heartbeat(byte_view payload);
  void take_goodbye(byte_view payload);
  void join(instant now);
  void end(ending why, instant now, bool tell);
  template <class Read>
  void guarded(plane p, instant now, Read read);
  instant longest_silence() const noexcept {
    return patient_ ? terms_.times.patience() : terms_.times.silence();
  }
  void excuse_own_pause(instant now);
  outgoing frame_of(plane p, frame_kind k, bytes payload, instant now);
  void seal(outgoing& frame, plane p, frame_kind k, instant now);
  std::optional<outgoing> next_of_body(instant now);
  outgoing next_loan(instant now);
  bytes greeting(plane p) const;

  session_events* events_ = nullptr;
  bool is_client_;
  bool patient_ = false; ///< of a parameter host and its server, who need each other
  bool greets_patiently_ = false, goodbye_due_ = false, credit_due_ = false;
  std::string server_name_ = "server";
  hello says_;         ///< of a client: how it greets the server
  features peer_says_; ///< of a server: what the client's hello said
  welcome terms_;
  state state_ = state::greeting;
  std::optional<ending> outcome_;
  instant began_;
  own_pauses pauses_;
  std::array<line, 2> lines_;
  plane reading_ = plane::control; ///< whose bytes are being read
  instant now_{0};                 ///< when they came
  std::optional<instant> bulk_lost_;
  std::string bulk_words_;

  std::deque<bytes> messages_;
  std::deque<body_out> bodies_;
  credit messages_out_, bodies_out_; ///< as the peer allows
  credit messages_in_, bodies_in_;   ///< as this side allows
  std::uint64_t told_messages_ = 0;  ///< of messages_in_.allowed, what the peer knows

  std::shared_ptr<common_memory> memory_;  ///< null: bodies are moved
  std::map<std::uint64_t, lent_out> lent_; ///< by number; both sides count loans from 0
  std::uint64_t loans_out_ = 0, loans_in_ = 0;
  std::deque<std::uint64_t> returns_; ///< of the peer's loans, to be told

  std::optional<std::span<std::byte>> body_in_; ///< the place of the body that is arriving
  bytes tag_in_;
  std::size_t body_in_count_ = 0;

  progress mine_, peer_progress_;
  std::string told_wait_; ///< of mine_, as the peer knows it
  std::uint64_t duplicates_ = 0;
};

} // namespace mailgrad::net
