#include <mailgrad/tests/fuzz/corpus_writer.hpp>

#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/hello.hpp>
#include <mailgrad/net/memory/shared_region.hpp>

#include <cstdint>
#include <iterator>

namespace mailgrad::fuzz {

namespace {

/// A frame as played_frames reads it.
std::string played(net::frame_kind kind, std::string_view payload) {
  return byte(static_cast<unsigned>(kind)) + byte(0) + two_bytes(payload.size()) + std::string(payload);
}

net::hello some_hello(net::plane plane, std::uint64_t session) {
  return {.says = {{"wire", "float32"}, {"model", "m"}, {"run", net::key_text(7)}},
          .part = net::role::worker,
          .number = 1,
          .connection = plane,
          .session = session};
}

std::string payload_of(const net::hello& h) { return text_of(net::encode(net::to_features(h))); }

net::welcome some_welcome() {
  return {.run = 7,
          .session = 9,
          .you = {net::role::worker, 2},
          .incarnation = 3,
          .messages = 4,
          .bodies = 2,
          .bodies_of_client = 2};
}

template <class Write>
std::string fields_of(Write fields) {
  net::bytes to;
  net::frame_writer writer{to};
  fields(writer);
  return text_of(to);
}

using net::frame_kind;

std::string heartbeat() {
  return fields_of([](net::frame_writer& w) { w.u64(17).text("worker 1 at the barrier of step 17"); });
}
std::string credit() {
  return fields_of([](net::frame_writer& w) { w.u64(8).u64(3); });
}
std::string body(std::uint64_t size) {
  return fields_of([&](net::frame_writer& w) { w.u64(size).raw(net::as_bytes("tag")); });
}
std::string goodbye() {
  return fields_of([](net::frame_writer& w) { w.u8(1).text("enough"); });
}

void write_greetings() {
  const std::string hello = payload_of(some_hello(net::plane::control, 0));
  const std::string welcome = text_of(net::encode(some_welcome()));
  const std::string refusal = text_of(net::encode(net::refusal{net::refusal_code::model, "12ab", "34cd"}));
  write("greetings", "hello", byte(0) + hello);
  write("greetings", "hello_of_bulk", byte(0) + payload_of(some_hello(net::plane::bulk, 9)));
  write("greetings", "welcome", byte(1) + welcome);
  write("greetings", "refusal", byte(2) + refusal);
  write("arrivals", "hello", byte(1) + byte(9) + played(frame_kind::hello, hello));
  write("arrivals", "message", byte(1) + byte(9) + played(frame_kind::message, "early"));
  write("arrivals", "raw_hello",
        byte(0) + byte(20) + text_of(net::whole_frame({.kind = frame_kind::hello}, net::as_bytes(hello))));
}

void write_frames() {
  std::string all;
  std::string raw;
  const std::string payloads[] = {payload_of(some_hello(net::plane::control, 0)),
                                  text_of(net::encode(some_welcome())),
                                  "",
                                  heartbeat(),
                                  "a message",
                                  credit(),
                                  body(5),
                                  "piece",
                                  goodbye()};
  net::frame_header h{.run = 7, .session = 9};
  for (std::size_t i = 0; i < std::size(payloads); ++i) {
    h.kind = static_cast<frame_kind>(i + 1);
    all += played(h.kind, payloads[i]);
    raw += text_of(net::whole_frame(h, net::as_bytes(payloads[i])));
    ++h.sequence;
  }
  write("frames", "one_of_each", byte(1) + byte(6) + all);
  write("frames", "raw", byte(0) + byte(40) + raw);
  write("frame_fields", "numbers",
        byte(5) + std::string("\0\1\2\3\4", 5) + std::string(11, '\0') +
            fields_of([](net::frame_writer& w) { w.u8(1).u16(2).u32(3).u64(4).text("five"); }));
}

/// The steps of session_targets.cpp.
void write_sessions() {
  constexpr unsigned attach = 0, lose = 1, tick = 2, speak = 3, allow = 4, say = 5, leave = 7, hear = 9,
                     bulk = 0x80;
  const std::string welcome = played(frame_kind::welcome, text_of(net::encode(some_welcome())));
  const std::string talk =
      byte(hear) + played(frame_kind::heartbeat, heartbeat()) + byte(hear) +
      played(frame_kind::message, "hello") + byte(hear) + played(frame_kind::credit, credit()) +
      byte(bulk | hear) + played(frame_kind::body, body(5)) + byte(bulk | hear) +
      played(frame_kind::piece, "piece") + byte(say) + byte(4) + "four" + byte(say) + byte(5) + "fifth" +
      byte(speak) + byte(bulk | speak) + byte(allow) + byte(2) + byte(1);
  // A server has read both hellos: its peer's next frames have number 1.
  const std::string hellos = byte(hear) + byte(4) + byte(16 | 1) + byte(9) + two_bytes(0) + two_bytes(0);
  write("sessions", "client",
        byte(0) + byte(speak) + byte(hear) + welcome + byte(attach) + byte(bulk | speak) + byte(bulk | hear) +
            welcome + talk + byte(hear) + played(frame_kind::goodbye, goodbye()));
  write("sessions", "refused_client",
        byte(0) + byte(hear) +
            played(frame_kind::refusal,
                   text_of(net::encode(net::refusal{net::refusal_code::model, "a", "b"}))));
  write("sessions", "server", byte(1) + byte(attach) + byte(speak) + talk + byte(leave) + byte(speak));
  write("sessions", "server_that_loses",
        byte(1) + byte(attach) + talk + byte(bulk | lose) + byte(tick) + byte(90));
  write("sessions", "damaged", byte(1) + hellos);
}

/// The steps of session_targets.cpp, with two peers, of which the second is the first one's bulk connection.
void write_servers() {
  constexpr unsigned open = 0, shut = 1, tick = 2, leave = 3, speak = 5, hear = 6, first = 0x10,
                     second = 1 << 5;
  const std::string join =
      byte(open) + byte(hear) + played(frame_kind::hello, payload_of(some_hello(net::plane::control, 0))) +
      byte(speak) + byte(second | open) + byte(second | hear) +
      played(frame_kind::hello, payload_of(some_hello(net::plane::bulk, 1))) + byte(second | speak);
  const std::string talk = byte(first | hear) + played(frame_kind::message, "hello") +
                           byte(second | first | hear) + played(frame_kind::body, body(5)) +
                           byte(second | first | hear) + played(frame_kind::piece, "piece") +
                           byte(first | hear) + played(frame_kind::heartbeat, heartbeat());
  write("servers", "joined", join + talk + byte(speak) + byte(leave) + byte(speak));
  write("servers", "frozen", join + byte(tick) + byte(200) + byte(speak) + byte(second | shut) + byte(shut));
  write("servers", "again", join + join);
  net::hello other = some_hello(net::plane::control, 0);
  other.says["model"] = "other";
  write("servers", "of_another_model",
        byte(open) + byte(hear) + played(frame_kind::hello, payload_of(other)) + byte(speak));
}

/// The steps of memory_targets.cpp.
void write_rings() {
  constexpr unsigned put = 0, get = 1, set_written = 2, set_taken = 3, add = 4, flags = 5, call = 6,
                     spoil = 7;
  const std::string talk = byte(put) + byte(60) + byte(call) + byte(get) + byte(20) + byte(put) + byte(90) +
                           byte(flags) + byte(1) + byte(get) + byte(200) + byte(call);
  const std::string most(8, '\xff');
  write("rings", "offer", byte(0) + text_of(net::encode(net::region_offer{1 << 18})));
  write("rings", "talk", byte(100) + talk + talk + byte(put) + byte(255) + byte(call));
  write("rings", "written_by_force", byte(100) + talk + byte(add) + byte(7) + byte(get) + byte(9));
  write("rings", "written_too_much", byte(100) + talk + byte(set_written) + most + byte(get) + byte(9));
  write("rings", "taken_too_much", byte(100) + talk + byte(set_taken) + most + byte(put) + byte(9));
  write("rings", "spoilt",
        byte(7) + byte(put) + byte(5) + byte(spoil) + byte(3) + byte(66) + byte(get) + byte(5));
}

} // namespace

void write_net_corpus() {
  write_greetings();
  write_frames();
  write_sessions();
  write_servers();
  write_rings();
}

} // namespace mailgrad::fuzz
