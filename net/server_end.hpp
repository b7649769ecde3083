#pragma once

#include <mailgrad/net/session.hpp>

#include <variant>

namespace mailgrad::net {

class shared_heap;

/// A connection among those of one endpoint, numbered by the network that makes it.
struct connection_id {
  std::uint64_t value = 0;

  friend auto operator<=>(const connection_id&, const connection_id&) = default;
};

/// One side of a network: what a network tells about its connections, and asks to send. The server has one
/// for all its peers, a client has one for itself. Neither knows which network it is.
/// Threads that of the network.
class endpoint {
public:
  virtual ~endpoint() = default;

  /// A connection stands. `from` says to people who is at its other end, such as "10.0.0.3:51234".
  virtual void opened(connection_id c, std::string_view from, instant now) = 0;
  /// Whether the connection shall be read now. If not, what its peer has sent stays with the peer, and the
  /// network asks again when it has done some work for this endpoint.
  virtual bool reads([[maybe_unused]] connection_id c, [[maybe_unused]] instant now) { return true; }
  /// Whether reads() may hold of any connection that was not read for want of room.
  virtual bool reads_others() { return true; }
  /// Whether what comes behind place() may be read with it, which may be a body that has no room yet.
  virtual bool reads_behind([[maybe_unused]] connection_id c) { return true; }
  virtual void received(connection_id c, byte_view data, instant now) = 0;
  /// Where the next bytes of a body belong, to be told by filled(); empty if something else comes next.
  virtual std::span<std::byte> place(connection_id c) = 0;
  virtual void filled(connection_id c, std::size_t count, instant now) = 0;
  /// The connection closed, or could not be made. The endpoint has no more to do with it.
  virtual void closed(connection_id c, std::string_view words, instant now) = 0;

  virtual std::optional<outgoing> next(connection_id c, instant now) = 0;
  /// Whether its session has ended, so that a last word is all that may still be said.
  virtual bool has_ended(connection_id c) const = 0;
  /// Whether there is nothing more to say or to hear: the network closes the connection when all has been
  /// sent.
  virtual bool is_through(connection_id c) const = 0;

  /// On this connection bytes can be lent, which some networks tell right after opened().
  virtual void shares(connection_id c, std::shared_ptr<common_memory> memory) = 0;
  /// Where bodies lie that are to be lent where the network allows it; null: none are.
  void lend_from(std::shared_ptr<shared_heap> heap) noexcept { heap_ = std::move(heap); }
  const std::shared_ptr<shared_heap>& heap() const noexcept { return heap_; }

  virtual void tick(instant now) = 0;
  /// When tick() must be called at the latest.
  virtual instant deadline() const = 0;

private:
  std::shared_ptr<shared_heap> heap_;
};

/// Remembers the highest incarnation of every member, so that nobody comes back from the dead as who it was.
///
/// A process that was taken for dead may still live, frozen or cut off. What it sends then belongs to an
/// older incarnation and counts no more; it may join again under a higher one.
/// Threads one caller at a time.
class fence {
public:
  /// More incarnations than this between two that come are no accident: who asked for the last there can be
  /// would shut the slot for good.
  static constexpr std::uint32_t most_missed = 10'000;

  /// Lets the next incarnation in: the one that is wanted, or by 0 the one after the highest. Those before it
  /// are no more from here on.
  /// Returns the incarnation, or the refusal of one that is not higher than all before it, or much too high.
  std::variant<std::uint32_t, refusal> admit(const member& m, std::uint32_t wanted);

  /// Whether it is the highest of its member.
  bool is_current(const member& m, std::uint32_t incarnation) const noexcept {
    return incarnation > 0 && highest(m) == incarnation;
  }
  /// 0 for a member that was never here.
  std::uint32_t highest(const member& m) const noexcept {
    const auto found = highest_.find(m);
    return found == highest_.end() ? 0 : found->second;
  }

private:
  std::map<member, std::uint32_t> highest_;
};

/// A connection of which nothing is known yet: it may say one hello of at most 4 KiB within its time, and
/// gets no memory for anything else.
/// Threads one caller at a time.
class arrival final : frame_sink {
public:
  explicit arrival(instant late_at) : decoder_(*this), late_at_(late_at) {}
  arrival(const arrival&) = delete;
  arrival& operator=(const arrival&) = delete;

  /// Takes bytes up to the end of the hello and returns how many. Those behind it belong to whoever takes the
  /// peer in.
  /// Errors  protocol_error if they are no hello.
  std::size_t receive(byte_view data);
  /// What it said; none while the hello is not whole.
  const std::optional<hello>& said() const noexcept { return said_; }
  instant late_at() const noexcept { return late_at_; }
  /// It gets so much more time.
  void excuse(instant span) noexcept { late_at_ += span; }

private:
  std::span<std::byte> place_of(const frame_header& h) override;
  void take(const frame_header& h, byte_view payload) override;

  frame_decoder decoder_;
  instant late_at_;
  std::optional<hello> said_;
};

/// What a server expects and allows.
struct server_options {
  std::string name = "server"; ///< as people call it
  std::vector<demand> demands{};
  std::map<role, std::uint32_t> slots{}; ///< how many members of each role it takes; those not named: none
  std::uint64_t run = 0;
  timing times{};
  std::uint32_t messages = 64; ///< first credit, of each peer and in both directions
  std::uint32_t bodies = 4;
  /// The first bodies that a worker may send; empty: as many. 0: session::allow() says when it may.
  std::optional<std::uint32_t> bodies_of_worker{};
  std::uint64_t most_body_bytes = std::uint64_t{1} << 30;
  std::uint32_t devices = 1; ///< that each worker brings
  std::size_t most_connections = 1024;
  std::function<std::uint64_t()> draw{}; ///< gives numbers that nobody can guess, for sessions
  /// Whether there is memory for another body that this member sends; empty: always. While there is none, it
  /// begins no body. Who makes room posts something to this server by its network.
  std::function<bool(const member&)> has_room{};
  /// Whether there is room for another body of anybody at all; empty: there may be. Saves asking for each.
  std::function<bool()> has_any_room{};
};

/// Who decides what becomes of a peer that fits.
class doorkeeper {
public:
  virtual ~doorkeeper() = default;

  /// A member is let in, whose control connection comes from there, as the network says it to people. The
  /// events are those of its session, which outlives this call; they must live until ended() of them has been
  /// called.
  virtual session_events& let_in(session& s, const std::string& from) = 0;
  /// Somebody was not taken in. The peer is told the same reason.
  virtual void turned_away(const refusal& why, const std::string& from) = 0;
};

/// The server's side of a network: hears who arrives, lets in who fits, and fences off older incarnations.
/// Threads that of the network.
class server_end final : public endpoint {
public:
  /// Errors  std::invalid_argument if there is nothing to draw from.
  server_end(server_options options, doorkeeper& keeper);

  void opened(connection_id c, std::string_view from, instant now) override;
  void shares(connection_id c, std::shared_ptr<common_memory> memory) override {
    if (connection* to = at(c)) to->memory = std::move(memory);
  }
  bool reads(connection_id c, instant now) override;
  bool reads_others() override { return !options_.has_any_room || options_.has_any_room(); }
  bool reads_behind(connection_id c) override;
  void received(connection_id c, byte_view data, instant now) override;
  std::span<std::byte> place(connection_id c) override;
  void filled(connection_id c, std::size_t count, instant now) override;
  void closed(connection_id c, std::string_view words, instant now) override;
  std::optional<outgoing> next(connection_id c, instant now) override;
  bool has_ended(connection_id c) const override;
  bool is_through(connection_id c) const override;
  void tick(instant now) override;

  /// Another connection is to be opened. Where there are as many as it takes, the one that has waited longest
  /// without saying who it is gives way, so that nobody keeps others out by saying nothing. Returns that one.
  std::optional<connection_id> give_way();
  /// The keys of this peer are not those of a parameter host, so it is refused if it says that it is one.
  void bar_from_serving(connection_id id) {
    if (connection* c = at(id)) c->may_serve = false;
  }
  /// Turns away a connection of which nothing is known yet, for a reason that the network found.
  void refuse(connection_id c, const refusal& why);
  instant deadline() const override;

  /// The live session of a member; none if there is none.
  session* find(const member& m) noexcept;
  /// Ends every session of this role.
  void end(role part, const ending& why, instant now);
  /// Ends every session of its own will.
  void leave_all(std::string_view words, instant now);
  const fence& incarnations() const noexcept { return fence_; }
  const timing& times() const noexcept { return options_.times; }
  std::size_t connections() const noexcept { return connections_.size(); }

private:
  struct admitted_peer {
    admitted_peer(const welcome& terms, instant now, const features& says) : its(terms, now, says) {}

    session its;
    bool has_bulk = false;
  };
  struct connection {
    std::string from{};                 ///< who is at its other end, for people
    std::unique_ptr<arrival> unknown{}; ///< until the hello is whole
    std::shared_ptr<admitted_peer> known{};
    plane part = plane::control;
    std::shared_ptr<common_memory> memory{};
    std::optional<bytes> refusal_frame{};
    bool refused = false, may_serve = true;
  };

  /// Null if it has closed.
  connection* at(connection_id c) {
    const auto found = connections_.find(c);
    return found == connections_.end() ? nullptr : &found->second;
  }
  const connection* at(connection_id c) const { return const_cast<server_end*>(this)->at(c); }
  void refuse(connection& c, const refusal& why);
  refusal full() const {
    return {refusal_code::full, fmt::format("at most {}", options_.most_connections), "one more"};
  }
  void judge(connection& c, const hello& said, instant now);
  std::optional<refusal> taken(const hello& said, const member& wanted, instant now);
  std::optional<refusal> find_slot(const hello& said, member& found, instant now);
  void admit_control(connection& c, const hello& said, instant now);
  void attach_bulk(connection& c, const hello& said, instant now);

  server_options options_;
  doorkeeper* keeper_;
  fence fence_;
  own_pauses pauses_{instant{0}};
  std::map<connection_id, connection> connections_;
  std::map<member, std::shared_ptr<admitted_peer>> admitted_;
};

} // namespace mailgrad::net
