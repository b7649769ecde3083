#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/hello.hpp>
#include <mailgrad/net/memory/shared_region.hpp>
#include <mailgrad/net/server_end.hpp>
#include <mailgrad/net/session.hpp>
#include <mailgrad/tests/fuzz/fuzz_input.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>

#include <algorithm>
#include <chrono>
#include <list>

namespace mailgrad::fuzz {
namespace {

using namespace std::chrono_literals;
using net::frame_decoder;
using net::frame_header;
using net::plane;
using net::protocol_error;
using net::session;

/// Makes frames of an input. A fuzzer finds no checksum by chance, so each frame gets the right one, unless
/// the input wants a bit of it flipped.
class played_frames {
public:
  /// The next frame, which may be damaged. What the input does not choose is as `usual`.
  ///
  ///     kind: u8  changes: u8  length: u16  payload
  net::bytes next(fuzz_input& in, net::frame_header usual) {
    const std::uint8_t kind = in.u8();
    const std::uint8_t changes = in.u8();
    usual.kind = static_cast<net::frame_kind>(kind % 10); // 0 is none
    if (changes & 1) usual.sequence += static_cast<std::uint64_t>(in.u8()) - 8;
    if (changes & 2) usual.run = in.u8();
    if (changes & 4) usual.session = in.u8();
    if (changes & 8) usual.version = in.u8();
    const std::span<const std::byte> payload = in.take(in.u16());
    const std::size_t most = net::most_payload_bytes(usual.kind);
    usual.length = static_cast<std::uint32_t>(payload.size());
    usual.checksum = net::checksum_of(payload);
    net::bytes frame;
    const net::header_bytes header = net::encode(usual);
    frame.insert(frame.end(), header.begin(), header.end());
    frame.insert(frame.end(), payload.begin(), payload.end());
    if (changes & 16) frame[in.u16() % frame.size()] ^= std::byte{1};
    is_right_ = (changes & 24) == 0 && kind % 10 != 0 && payload.size() <= most;
    return frame;
  }
  /// Whether a decoder must take the last frame, if its sequence is of no concern.
  bool is_right() const noexcept { return is_right_; }

private:
  bool is_right_ = false;
};

/// Keeps every frame, and gives a place to one payload in two.
struct keeping_sink final : net::frame_sink {
  std::span<std::byte> place_of(const frame_header& h) override {
    require(h.length <= net::most_payload_bytes(h.kind), "a payload is longer than its kind allows");
    if (h.length % 2 == 0) return {};
    place.resize(h.length);
    return place;
  }
  void take(const frame_header& h, net::byte_view payload) override {
    require(payload.size() == h.length, "a payload is not as long as its header says");
    kept.emplace_back(h, std::string(as_text(payload)));
  }

  net::bytes place;
  std::vector<std::pair<frame_header, std::string>> kept;
};

/// What a decoder made of a stream: its frames, and whether it refused the rest. Its words may quote what has
/// come so far, which is another thing in other cuts.
struct decoded_stream {
  std::vector<std::pair<frame_header, std::string>> frames;
  bool refused = false;

  friend bool operator==(const decoded_stream&, const decoded_stream&) = default;
};

/// Feeds a stream in pieces of at most `piece` bytes.
decoded_stream decoded(net::byte_view stream, std::size_t piece) {
  keeping_sink sink;
  frame_decoder decoder(sink);
  decoded_stream result;
  try {
    for (; !stream.empty(); stream = stream.subspan(std::min(piece, stream.size()))) {
      decoder.feed(stream.first(std::min(piece, stream.size())));
      require(decoder.memory_bytes() <= net::most_piece_bytes + 2 * net::frame_header_bytes,
              "a decoder holds more than a frame");
    }
  } catch (const protocol_error& e) {
    require_one_line(e);
    result.refused = true;
  }
  result.frames = std::move(sink.kept);
  return result;
}

/// What the input reads of a payload, one field after the other.
void read_fields(fuzz_input& in, net::frame_reader& reader) {
  for (std::uint8_t count = in.u8() % 16; count > 0; --count) {
    const unsigned field = in.u8() % 6;
    if (field == 0) reader.u8();
    if (field == 1) reader.u16();
    if (field == 2) reader.u32();
    if (field == 3) reader.u64();
    if (field == 4) net::printable(reader.text());
    if (field == 5) reader.rest();
  }
  reader.end();
}

} // namespace

/// The first bytes say what to read of the rest.
void frame_fields(std::span<const std::byte> input) {
  fuzz_input in(input);
  fuzz_input fields(in.take(17));
  const net::byte_view payload = in.rest();
  net::frame_reader reader{"frame", payload};
  try {
    read_fields(fields, reader);
  } catch (const protocol_error& e) {
    require_one_line(e);
  }
  require(reader.left() <= payload.size(), "more is left than there was");
}

/// The first byte chooses a stream of made frames or the bytes as they are, the second the cuts.
void frames(std::span<const std::byte> input) {
  fuzz_input in(input);
  const bool as_they_are = in.u8() % 4 == 0;
  const std::size_t piece = in.u8() + 1U;
  net::bytes stream;
  played_frames played;
  std::size_t right = 0;
  bool all_right = !as_they_are;
  frame_header usual;
  while (!as_they_are && !in.is_empty()) {
    const net::bytes frame = played.next(in, usual);
    stream.insert(stream.end(), frame.begin(), frame.end());
    all_right = all_right && played.is_right();
    right += all_right ? 1 : 0;
    ++usual.sequence;
  }
  if (as_they_are) {
    const auto rest = in.rest();
    stream.assign(rest.begin(), rest.end());
  }
  const decoded_stream whole = decoded(stream, stream.size() + 1);
  require(whole == decoded(stream, piece), "the cuts of a stream change what it says");
  require(whole.frames.size() >= right, "a right frame was not taken");
  require(!all_right || !whole.refused, "a stream of right frames was refused");
}

/// The first byte chooses the frame, the rest is its payload.
void greetings(std::span<const std::byte> input) {
  fuzz_input in(input);
  const std::uint8_t which = in.u8() % 3;
  const net::byte_view payload = in.rest();
  try {
    if (which == 0) {
      const net::features said = net::decode_features("hello", payload);
      require(net::decode_features("hello", net::encode(said)) == said, "features change on their way");
      const net::features all = to_features(net::to_hello(said));
      require(to_features(net::to_hello(all)) == all, "a hello changes on its way");
    } else if (which == 1) {
      const net::welcome said = net::decode_welcome(payload);
      require(net::decode_welcome(net::encode(said)) == said, "a welcome changes on its way");
    } else {
      const net::refusal said = net::decode_refusal(payload);
      const net::bytes again = net::encode(said);
      require(again.size() <= net::most_payload_bytes(net::frame_kind::refusal),
              "a refusal fits into no frame");
      require(said.words().find('\n') == std::string::npos, "a refusal is more than a line");
    }
  } catch (const protocol_error& e) {
    require_one_line(e);
  }
}

/// The first byte is that of frames(), the second the cuts.
void arrivals(std::span<const std::byte> input) {
  fuzz_input in(input);
  const bool as_they_are = in.u8() % 4 == 0;
  const std::size_t piece = in.u8() + 1U;
  net::bytes made;
  played_frames played;
  if (!as_they_are) made = played.next(in, {});
  net::byte_view stream = as_they_are ? in.rest() : net::byte_view(made);
  net::arrival a(std::chrono::seconds{2});
  try {
    while (!stream.empty() && !a.said()) {
      const net::byte_view next = stream.first(std::min(piece, stream.size()));
      const std::size_t taken = a.receive(next);
      require(taken <= next.size(), "more was taken than came");
      require(taken == next.size() || a.said(), "bytes were left although no hello was whole");
      stream = stream.subspan(next.size());
    }
  } catch (const protocol_error& e) {
    require_one_line(e);
  }
}

namespace {

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
    bool& stands = stands_[p == plane::bulk];
    const unsigned what = choice & 0x0f;
    if (what == 0) attach_bulk();
    if (what == 1) {
      stands = false;
      s_.lose(p, "connection reset", now_);
    }
    if (what == 2) s_.tick(now_ += std::chrono::milliseconds{in.u8() * 10});
    if (what == 3) speak(p);
    if (what == 4) allow(in);
    if (what == 5) say(in);
    if (what == 6) s_.set_progress({in.u8(), std::string(as_text(in.take(in.u16())))});
    if (what == 7) s_.leave("enough", now_);
    if (what == 8 && stands) s_.receive(p, in.take(in.u8()), now_); // no frame but by luck
    if (what > 8 && stands) hear(p, in);
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
    const unsigned what = choice & 0x0f;
    if (what == 0) open(p);
    if (what == 1) close(p);
    if (what == 2) server_.tick(now_ += std::chrono::milliseconds{in.u8() * 10});
    if (what == 3) server_.leave_all("enough", now_);
    if (what == 4) hear(p, in.take(in.u8()));
    if (what == 5) speak(p);
    if (what > 5) hear(p, frames_.next(in, usual(p, choice & 0x10 ? 1 : 2)));
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

/// A ring whose other side is hostile: it writes into the memory whatever the input says.
class hostile_ring {
public:
  explicit hostile_ring(std::size_t size)
      : data_(size), writer_({&counters_, data_}), reader_({&counters_, data_}) {}

  void play(fuzz_input& input) {
    const unsigned what = input.u8() % 8;
    if (what == 0) write(input.u8());
    if (what == 1) read(input.u8());
    if (what == 2) counters_.written = input.u64();
    if (what == 3) counters_.taken = input.u64();
    if (what == 4) counters_.written += input.u8();
    if (what == 5) counters_.calls_for_input = counters_.calls_for_room = input.u8();
    if (what == 6) call();
    if (what == 7) data_[input.u8() % data_.size()] = std::byte{input.u8()};
  }

private:
  void write(std::size_t size) {
    std::vector<std::byte> from(size);
    const std::vector<iovec> parts{{from.data(), size / 2}, {from.data() + size / 2, size - size / 2}};
    require(writer_.write(parts) <= std::min(size, data_.size()), "more was written than there is room for");
  }
  void read(std::size_t size) {
    std::vector<std::byte> to(size);
    const std::vector<iovec> parts{{to.data(), size / 2}, {to.data() + size / 2, size - size / 2}};
    require(reader_.read(parts) <= std::min(size, data_.size()), "more was read than was asked for");
  }
  void call() {
    require(reader_.call() == reader_.has_input(), "a reader would sleep though there is something");
    require(writer_.call() == writer_.has_room(), "a writer would sleep though there is room");
    (void)reader_.is_called();
    (void)writer_.is_called();
  }

  net::ring_counters counters_;
  net::bytes data_;
  net::ring_writer writer_;
  net::ring_reader reader_;
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

/// The first byte: 0 is an offer, else the size of a ring; behind it stands what happens to the ring.
void rings(std::span<const std::byte> bytes) {
  fuzz_input input(bytes);
  const std::size_t size = input.u8();
  try {
    if (size == 0) {
      const net::bytes offer =
          encode(net::decode_region_offer(bytes.subspan(std::min<std::size_t>(1, bytes.size()))));
      require(as_text(offer) == as_text(bytes.subspan(1)), "an offer that is written again reads otherwise");
      return;
    }
    for (hostile_ring ring(size); !input.is_empty();) ring.play(input);
  } catch (const net::protocol_error& e) {
    require_one_line(e);
  }
}

} // namespace mailgrad::fuzz
