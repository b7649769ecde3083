#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/record/recording_file.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/npy_file.hpp>
#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>
#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/hello.hpp>
#include <mailgrad/net/memory/shared_region.hpp>
#include <mailgrad/tests/fuzz/whole_object.hpp>

#include <cmath>
#include <concepts>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>

// Writes inputs of each target that are made of valid bytes, from which a fuzzer begins. Each target says how
// it reads its input.
//
//     fuzz_corpus DIR    usually tests/fuzz/corpus

namespace mailgrad::fuzz {
namespace {

std::filesystem::path corpus;

void append(std::string& to, std::string_view bytes) { to += bytes; }
void append(std::string& to, std::integral auto byte) { to += static_cast<char>(byte); }

/// Joins texts, and numbers that are a byte each.
template <class... Parts>
std::string joined(const Parts&... parts) {
  std::string all;
  (append(all, parts), ...);
  return all;
}

/// Writes one input of a target to the folder of all inputs.
template <class... Parts>
void write(const std::string& target, const std::string& name, const Parts&... parts) {
  std::filesystem::create_directories(corpus / target);
  std::ofstream(corpus / target / name, std::ios::binary) << joined(parts...);
}

template <class Bytes>
std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(std::data(bytes)), std::size(bytes)};
}

std::string two_bytes(std::size_t n) { return joined(n & 0xff, n >> 8 & 0xff); }

/// A frame as played_frames reads it.
std::string played(net::frame_kind kind, std::string_view payload) {
  return joined(static_cast<unsigned>(kind), 0, two_bytes(payload.size()), payload);
}

net::hello some_hello(net::plane plane, std::uint64_t session) {
  return {.says = {{"wire", "float32"}, {"model", "m"}, {"run", net::key_text(7)}},
          .part = net::role::worker,
          .number = 1,
          .connection = plane,
          .session = session};
}

std::string payload_of(const net::hello& h) { return text_of(net::encode(net::to_features(h))); }

template <class Write>
std::string fields_of(Write fields) {
  net::bytes to;
  net::frame_writer writer{to};
  fields(writer);
  return text_of(to);
}

using net::frame_kind;

// Payloads.
const std::string hello = payload_of(some_hello(net::plane::control, 0));
const std::string hello_of_bulk = payload_of(some_hello(net::plane::bulk, 9));
const std::string welcome = text_of(net::encode(net::welcome{.run = 7,
                                                             .session = 9,
                                                             .you = {net::role::worker, 2},
                                                             .incarnation = 3,
                                                             .messages = 4,
                                                             .bodies = 2,
                                                             .bodies_of_client = 2}));
const std::string heartbeat =
    fields_of([](net::frame_writer& w) { w.u64(17).text("worker 1 at the barrier of step 17"); });
const std::string credit = fields_of([](net::frame_writer& w) { w.u64(8).u64(3); });
const std::string body = fields_of([](net::frame_writer& w) { w.u64(5).raw(net::as_bytes("tag")); });
const std::string goodbye = fields_of([](net::frame_writer& w) { w.u8(1).text("enough"); });

std::string refusal(const char* ours, const char* theirs) {
  return text_of(net::encode(net::refusal{net::refusal_code::model, ours, theirs}));
}

void write_greetings() {
  write("greetings", "hello", 0, hello);
  write("greetings", "hello_of_bulk", 0, hello_of_bulk);
  write("greetings", "welcome", 1, welcome);
  write("greetings", "refusal", 2, refusal("12ab", "34cd"));
  write("arrivals", "hello", 1, 9, played(frame_kind::hello, hello));
  write("arrivals", "message", 1, 9, played(frame_kind::message, "early"));
  write("arrivals", "raw_hello", 0, 20,
        text_of(net::whole_frame({.kind = frame_kind::hello}, net::as_bytes(hello))));
}

void write_frames() {
  std::string all, raw;
  net::frame_header h{.run = 7, .session = 9};
  unsigned kind = 0;
  for (const std::string& payload : {hello, welcome, std::string(), heartbeat, std::string("a message"),
                                     credit, body, std::string("piece"), goodbye}) {
    h.kind = static_cast<frame_kind>(++kind);
    all += played(h.kind, payload);
    raw += text_of(net::whole_frame(h, net::as_bytes(payload)));
    ++h.sequence;
  }
  write("frames", "one_of_each", 1, 6, all);
  write("frames", "raw", 0, 40, raw);
  write("frame_fields", "numbers", 5, std::string("\0\1\2\3\4", 5), std::string(11, '\0'),
        fields_of([](net::frame_writer& w) { w.u8(1).u16(2).u32(3).u64(4).text("five"); }));
}

/// The steps of played_session.
void write_sessions() {
  constexpr unsigned attach = 0, lose = 1, tick = 2, speak = 3, allow = 4, say = 5, leave = 7, hear = 9,
                     bulk = 0x80;
  const std::string welcomed = played(frame_kind::welcome, welcome);
  const std::string talk = joined(
      hear, played(frame_kind::heartbeat, heartbeat), hear, played(frame_kind::message, "hello"), hear,
      played(frame_kind::credit, credit), bulk | hear, played(frame_kind::body, body), bulk | hear,
      played(frame_kind::piece, "piece"), say, 4, "four", say, 5, "fifth", speak, bulk | speak, allow, 2, 1);
  // A server has read both hellos: its peer's next frames have number 1.
  const std::string hellos = joined(hear, 4, 16 | 1, 9, two_bytes(0), two_bytes(0));
  write("sessions", "client", 0, speak, hear, welcomed, attach, bulk | speak, bulk | hear, welcomed, talk,
        hear, played(frame_kind::goodbye, goodbye));
  write("sessions", "refused_client", 0, hear, played(frame_kind::refusal, refusal("a", "b")));
  write("sessions", "server", 1, attach, speak, talk, leave, speak);
  write("sessions", "server_that_loses", 1, attach, talk, bulk | lose, tick, 90);
  write("sessions", "damaged", 1, hellos);
}

/// The steps of played_server, with two peers, of which the second is the first one's bulk connection.
void write_servers() {
  constexpr unsigned open = 0, shut = 1, tick = 2, leave = 3, speak = 5, hear = 6, first = 0x10,
                     second = 1 << 5;
  const std::string bulk = payload_of(some_hello(net::plane::bulk, 1));
  const std::string join = joined(open, hear, played(frame_kind::hello, hello), speak, second | open,
                                  second | hear, played(frame_kind::hello, bulk), second | speak);
  const std::string talk =
      joined(first | hear, played(frame_kind::message, "hello"), second | first | hear,
             played(frame_kind::body, body), second | first | hear, played(frame_kind::piece, "piece"),
             first | hear, played(frame_kind::heartbeat, heartbeat));
  write("servers", "joined", join, talk, speak, leave, speak);
  write("servers", "frozen", join, tick, 200, speak, second | shut, shut);
  write("servers", "again", join, join);
  net::hello other = some_hello(net::plane::control, 0);
  other.says["model"] = "other";
  write("servers", "of_another_model", open, hear, played(frame_kind::hello, payload_of(other)), speak);
}

/// The steps of hostile_ring.
void write_rings() {
  constexpr unsigned put = 0, get = 1, set_written = 2, set_taken = 3, add = 4, flags = 5, call = 6,
                     spoil = 7;
  const std::string talk = joined(put, 60, call, get, 20, put, 90, flags, 1, get, 200, call);
  const std::string most(8, '\xff');
  write("rings", "offer", 0, text_of(net::encode(net::region_offer{1 << 18})));
  write("rings", "talk", 100, talk, talk, put, 255, call);
  write("rings", "written_by_force", 100, talk, add, 7, get, 9);
  write("rings", "written_too_much", 100, talk, set_written, most, get, 9);
  write("rings", "taken_too_much", 100, talk, set_taken, most, put, 9);
  write("rings", "spoilt", 7, put, 5, spoil, 3, 66, get, 5);
}

void write_wire() {
  std::vector<float> x(70);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const std::pair<std::string, unsigned> formats[] = {{"float32", 0},        {"float16", 1},
                                                      {"bfloat16", 2},       {"int8:block=16", 3},
                                                      {"top-k:0.015625", 4}, {"1-bit:block=16", 5}};
  for (const auto& [text, choice] : formats) {
    const std::string name = text.substr(0, text.find(':'));
    const wire_format f = parse_wire_format(text);
    std::vector<float> residual(is_lossy(f) ? x.size() : 0);
    std::vector<std::byte> bytes(encoded_bytes(f, x.size()));
    if (!encode_numbers(f, x, residual, bytes)) continue;
    const std::string message = text_of(bytes);
    write("wire_numbers", name, choice, 0, two_bytes(x.size()), message);
    write("wire_rows", name, choice, 1, two_bytes(8), 20, 4, two_bytes(3), two_bytes(0), two_bytes(7),
          two_bytes(7), message);
  }
}

model_request some_request(shape dims) {
  model_request r{.sample_dims = std::move(dims)};
  r.batch = 2;
  r.classes = 3;
  return r;
}

void write_graphs() {
  std::vector<model_graph> graphs;
  for (const auto& [name, dims] : {std::pair{"mlp:hidden=4", shape{3}}, std::pair{"softmax", shape{3}},
                                   std::pair{"lenet", shape{28, 28, 1}}}) {
    const model_request request = some_request(dims);
    graph g;
    const model_outputs outputs = build_model(find_model(name), g, request);
    const auto slopes = gradients(outputs.loss, g.variables());
    std::vector<named_value> named{{"loss", outputs.loss}, {"logits", outputs.logits}};
    const std::string bytes = text_of(write_graph(g, named));
    const std::string short_name = std::string(name).substr(0, 3);
    write("graphs", short_name + "_sealed", 0, bytes);
    write("graphs", short_name, 1, bytes.substr(24));
    write("serialised_models", short_name + "_request", 1, text_of(write_request(request)).substr(24));
    if (graphs.empty()) graphs.push_back({request, write_graph(g, named)});
  }
  write("serialised_models", "model", 0, text_of(write_model(graphs)).substr(24));
}

void write_objects() {
  whole_object x{.flag = true,
                 .below = -3,
                 .most = 1ULL << 40,
                 .small = 0.5F,
                 .text = "some text",
                 .list = {{1, 0.5}, {2, {}}},
                 .flags = {true, false},
                 .both = {3, "three"},
                 .named = {{"late", 4}},
                 .three = {1, 2, 3},
                 .weights = {1, 2, 3, 4},
                 .any = {5, 6}};
  byte_archive_writer out;
  out.field("x", x);
  write("byte_archives", "object", out.bytes());
  whole_object empty;
  byte_archive_writer without;
  without.field("x", empty);
  write("byte_archives", "empty", without.bytes());
}

template <class T>
void write_kept(const std::string& name, T x) {
  saved_fields out;
  out.field("x", x);
  write("kept_fields", name, out.text());
}

void write_files() {
  const std::string header =
      R"({"__metadata__":{"format":"x"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";
  write("headers_of_arrays", "safetensors", 0, two_bytes(32), header);
  write("headers_of_arrays", "npy", 1, two_bytes(0),
        npy_header_for(npy_number::f32, {3, 4}).substr(npy_preamble));
  write_kept("card", checkpoint_card{.workers = 2,
                                     .shards = 1,
                                     .facts = {{"seed", "1"}},
                                     .words = {"--seed=1"},
                                     .steps = 20,
                                     .elapsed = 5,
                                     .present = {true, false},
                                     .counted = {true, true},
                                     .lost = {false, true}});
  write_kept("schedule",
             kept_schedule{.policy = "async",
                           .planned = {{9, "sync"}},
                           .asked = {{"ssp:1", "by hand"}},
                           .done = {{.step = 3, .from = "sync", .to = "async", .why = "planned"}}});
  write_kept("feeder", feeder_position{.trained = {3, 4}, .switches = 1});
  write_kept("tests", judged_tests{.steps = 20, .worse = 1, .lowest_loss = 0.5, .lowest_at = 10});
  model_card card;
  card.model = "mlp:hidden=4";
  card.request = some_request({3});
  card.class_names = {"a", "b", "c"};
  card.divisors = {255};
  write("model_cards", "mlp", to_json(card));
  card.table = {.columns = {{"key", column_kind::left_out, {}},
                            {"colour", column_kind::category, {"blue", "red"}},
                            {"size", column_kind::number, {}}},
                .label = 3};
  card.divisors = {};
  write("model_cards", "table", to_json(card));
}

/// A turn as recording_writer lays it out.
std::string entry(order_entry::kind what, unsigned worker, unsigned step) {
  return joined(static_cast<unsigned>(what), two_bytes(worker), two_bytes(step), std::string(11, '\0'));
}

void write_recordings() {
  using kind = order_entry::kind;
  const auto part = [](unsigned source, const std::string& content) {
    return joined(source, two_bytes(content.size()), content);
  };
  const std::string header =
      recording_file::text_of(recording_header{1, 1, {{"batch", "4"}, {"policy", "async"}}, {"--batch=4"}});
  const std::string entries = entry(kind::joined, 0, 0) + entry(kind::gradient, 0, 1) +
                              entry(kind::switched, 0, 0) + entry(kind::gradient, 0, 2) +
                              entry(kind::left, 0, 0);
  const std::string deals = std::string(8, '\0') + two_bytes(0) + two_bytes(1) + std::string(4, '\0');
  const std::string change = recording_file::text_of(recorded_switch{"sync", "planned", {1}, {1}});
  const std::string end =
      recording_file::text_of(recording_end{"completed", "", {}, {}, std::string(64, 'a')});
  const std::string whole =
      two_bytes(header.size()) + header + part(0xfd, change) + part(0, entries) + part(0xff, deals);
  write("recordings", "whole", 1, whole, part(0xfe, end));
  write("recordings", "killed", 1, whole);
  write("recordings", "raw", 0, std::string("mgradrec\2\0\0\0", 12));
}

} // namespace
} // namespace mailgrad::fuzz

int main(int count, char** words) {
  using namespace mailgrad::fuzz;
  if (count != 2) {
    std::cerr << "fuzz_corpus: name the folder of the corpus\n";
    return 2;
  }
  try {
    corpus = words[1];
    write_greetings();
    write_frames();
    write_sessions();
    write_servers();
    write_rings();
    write_wire();
    write_graphs();
    write_objects();
    write_files();
    write_recordings();
  } catch (const std::exception& e) {
    std::cerr << "fuzz_corpus: " << e.what() << '\n';
    return 1;
  }
}
