#include <mailgrad/tests/fuzz/played_frames.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>

#include <mailgrad/net/server_end.hpp>
#include <mailgrad/net/session.hpp>

#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad::fuzz {

namespace {

using namespace std::chrono_literals;
using net::plane;
using net::session;

constexpr std::uint64_t largest_place = 1 << 16;

/// Layers above a session, which hold it to what it guarantees.
struct strict_layers final : net::session_events {
  void joined(const net::welcome& terms) override {
    require(joins++ == 0 && ends == 0, "joined twice, or after the end");
    allowed += terms.messages;
  }
  void message_came(net::byte_view m) override {
    require(is_open(), "a message before it was joined or after the end");
    require(m.size() <= net::most_message_bytes, "a message is too large");
    require(++messages <= allowed, "a message came without credit");
  }
  std::span<std::byte> place_of_body(net::byte_view tag, std::uint64_t size) override {
    require(is_open(), "a body before it was joined or after the end");
    require(tag.size() <= net::most_tag_bytes, "a tag is too large");
    if (size > largest_place) throw net::protocol_error("body: expected a smaller one");
    place.resize(size);
    return place;
  }
  void body_came(net::byte_view) override { require(is_open(), "a body came after the end"); }
  void credit_came() override { require(is_open(), "credit came after the end"); }
  void ended(const net::ending& why) override {
    require(ends++ == 0, "ended twice");
    require(why.words.find('\n') == std::string::npos, "an end is told in more than a line");
  }
  bool is_open() const { return joins == 1 && ends == 0; }

  int joins = 0;
  int ends = 0;
  std::uint64_t messages = 0;
  std::uint64_t allowed = 0;
  net::bytes place;
};

plane plane_of(std::uint8_t choice) { return choice & 0x80 ? plane::bulk : plane::control; }

/// One session and all that may be done to it.
class played_session {
public:
  played_session(session& s, strict_layers& above, bool is_client)
      : s_(s), above_(above), is_client_(is_client) {
    s_.attach(plane::control, now_);
  }

  void step(fuzz_input& in) {
    const std::uint8_t choice = in.u8();
    const plane p = plane_of(choice);
    switch (choice & 0x0f) {
    case 0:
      return attach_bulk();
    case 1:
      stands_[p == plane::bulk] = false;
      return s_.lose(p, "connection reset", now_);
    case 2:
      now_ += std::chrono::milliseconds{in.u8() * 10};
      return s_.tick(now_);
    case 3:
      return speak(p);
    case 4:
      return allow(in);
    case 5:
      return say(in);
    case 6:
      return s_.set_progress({in.u8(), std::string(as_text(in.take(in.u16())))});
    case 7:
      return s_.leave("enough", now_);
    case 8:
      if (stands_[p == plane::bulk]) s_.receive(p, in.take(in.u8()), now_); // no frame but by luck
      return;
    default:
      if (stands_[p == plane::bulk]) hear(p, in);
    }
  }

private:
  void attach_bulk() {
    if (attached_ || (is_client_ && !s_.wants_bulk())) return;
    attached_ = stands_[1] = true;
    s_.attach(plane::bulk, now_);
  }
  void allow(fuzz_input& in) {
    const std::uint8_t messages = in.u8();
    above_.allowed += messages;
    s_.allow(messages, in.u8() % 4);
  }
  void speak(plane p) {
    for (int i = 0; i < 8; ++i) {
      const auto frame = s_.next(p, now_);
      if (!frame) return;
      const net::frame_header h = net::decode_header(frame->header);
      net::check_payload(h, frame->content());
    }
  }
  void say(fuzz_input& in) {
    if (s_.now_is() != session::state::joined) return;
    const std::span<const std::byte> piece = in.take(in.u8());
    if (piece.size() % 2 == 0) {
      s_.send({piece.begin(), piece.end()});
    } else if (s_.terms().most_body_bytes >= piece.size()) {
      const auto keeps = std::make_shared<net::bytes>(piece.begin(), piece.end());
      s_.send_body({}, *keeps, keeps);
    }
  }
  /// A frame arrives in two cuts, the second of which may go to the place of a body.
  void hear(plane p, fuzz_input& in) {
    std::uint64_t& sequence = sequences_[p == plane::bulk];
    const net::bytes frame =
        frames_.next(in, {.run = s_.terms().run, .session = s_.terms().session, .sequence = sequence++});
    const std::size_t cut = std::min<std::size_t>(net::frame_header_bytes, frame.size());
    s_.receive(p, net::byte_view(frame).first(cut), now_);
    net::byte_view rest = net::byte_view(frame).subspan(cut);
    if (const std::span<std::byte> to = s_.place(p); to.size() == rest.size() && !to.empty()) {
      std::ranges::copy(rest, to.begin());
      return s_.filled(p, rest.size(), now_);
    }
    s_.receive(p, rest, now_);
  }

  session& s_;
  strict_layers& above_;
  bool is_client_;
  played_frames frames_;
  bool attached_ = false;       ///< the bulk connection, once
  bool stands_[2]{true, false}; ///< by plane
  std::uint64_t sequences_[2]{};
  net::instant now_ = 10s;
};

constexpr net::welcome terms{.run = 7,
                             .session = 9,
                             .you = {net::role::worker, 2},
                             .incarnation = 3,
                             .messages = 4,
                             .bodies = 2,
                             .bodies_of_client = 2,
                             .most_body_bytes = largest_place};

/// Lets everybody in, and holds each session to what it guarantees.
struct open_acceptor final : net::doorkeeper {
  net::session_events& let_in(session&, const std::string&) override { return layers.emplace_back(); }
  void turned_away(const net::refusal& why, const std::string&) override {
    require(why.words().find('\n') == std::string::npos, "a refusal is more than a line");
  }

  std::list<strict_layers> layers;
};

net::server_options server_of(std::uint64_t& drawn) {
  net::server_options o;
  o.demands = net::demands_of({{"protocol", "1"}, {"run", net::key_text(7)}, {"model", "m"}},
                              {net::role::worker, net::role::watcher}, {"float32"});
  o.slots = {{net::role::worker, 2}, {net::role::watcher, 1}};
  o.run = 7;
  o.messages = 4;
  o.bodies = 2;
  o.most_body_bytes = largest_place;
  o.most_connections = 4;
  o.draw = [&drawn] { return ++drawn; };
  return o;
}

/// A server and eight peers, which come and go.
class played_server {
public:
  void step(fuzz_input& in) {
    const std::uint8_t choice = in.u8();
    peer& p = peers_[choice >> 5];
    switch (choice & 0x0f) {
    case 0:
      return open(p);
    case 1:
      return close(p);
    case 2:
      now_ += std::chrono::milliseconds{in.u8() * 10};
      return server_.tick(now_);
    case 3:
      return server_.leave_all("enough", now_);
    case 4:
      return hear(p, in.take(in.u8()));
    case 5:
      return speak(p);
    default:
      return hear(p, frames_.next(in, usual(p, choice & 0x10 ? 1 : 2)));
    }
  }

private:
  struct peer {
    net::connection_id id{};
    bool stands = false;
    std::uint64_t sequence = 0;
  };

  void open(peer& p) {
    close(p);
    p = {{++opened_}, true, 0};
    server_.opened(p.id, "somewhere", now_);
  }
  void close(peer& p) {
    if (p.stands) server_.closed(p.id, "reset", now_);
    p.stands = false;
  }
  void hear(const peer& p, net::byte_view data) {
    if (!p.stands) return;
    if (const std::span<std::byte> to = server_.place(p.id); !to.empty() && to.size() <= data.size()) {
      std::copy_n(data.begin(), to.size(), to.begin());
      server_.filled(p.id, to.size(), now_);
      data = data.subspan(to.size());
    }
    server_.received(p.id, data, now_);
  }
  void speak(peer& p) {
    for (int i = 0; p.stands && i < 8; ++i) {
      const auto frame = server_.next(p.id, now_);
      if (!frame) break;
      net::check_payload(net::decode_header(frame->header), frame->content());
    }
    if (p.stands && server_.is_through(p.id)) close(p);
  }
  /// A hello knows no run and no session yet. The first session is 1, the second 2.
  static net::frame_header usual(peer& p, std::uint64_t session) {
    const bool is_hello = p.sequence == 0;
    return {.run = is_hello ? 0U : 7U, .session = is_hello ? 0 : session, .sequence = p.sequence++};
  }

  open_acceptor acceptor_;
  std::uint64_t drawn_ = 0;
  net::server_end server_{server_of(drawn_), acceptor_};
  net::instant now_ = 10s;
  played_frames frames_;
  std::uint64_t opened_ = 0;
  peer peers_[8]{};
};

} // namespace

/// The first byte chooses the side. Then come steps: what the peer sends, what the owner of the connections
/// tells, and what the layers above do.
void sessions(std::span<const std::byte> input) {
  fuzz_input in(input);
  strict_layers above;
  const bool is_client = in.u8() % 2 == 0;
  session client{net::hello{}, above, 10s};
  session server{terms, above, 10s};
  played_session played(is_client ? client : server, above, is_client);
  for (int steps = 0; steps < 256 && !in.is_empty(); ++steps) played.step(in);
}

/// Steps of eight connections to one server.
void servers(std::span<const std::byte> input) {
  fuzz_input in(input);
  played_server played;
  for (int steps = 0; steps < 256 && !in.is_empty(); ++steps) played.step(in);
}

} // namespace mailgrad::fuzz
