#include <mailgrad/tests/fuzz/played_frames.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/hello.hpp>
#include <mailgrad/net/server_end.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace mailgrad::fuzz {

namespace {

using net::frame_decoder;
using net::frame_header;
using net::protocol_error;

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
    switch (in.u8() % 6) {
    case 0:
      reader.u8();
      break;
    case 1:
      reader.u16();
      break;
    case 2:
      reader.u32();
      break;
    case 3:
      reader.u64();
      break;
    case 4:
      net::printable(reader.text());
      break;
    default:
      reader.rest();
    }
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

} // namespace mailgrad::fuzz
