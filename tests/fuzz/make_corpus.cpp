#include <mailgrad/tests/fuzz/corpus_writer.hpp>
#include <mailgrad/tests/fuzz/whole_object.hpp>

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

#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Writes inputs of each target that are made of valid bytes, from which a fuzzer begins. Each target says how
// it reads its input.
//
//     fuzz_corpus DIR    usually tests/fuzz/corpus

namespace mailgrad::fuzz {

namespace {

namespace fs = std::filesystem;

fs::path corpus;

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
    write("wire_numbers", name, byte(choice) + byte(0) + two_bytes(x.size()) + message);
    const std::string rows = two_bytes(3) + two_bytes(0) + two_bytes(7) + two_bytes(7);
    write("wire_rows", name, byte(choice) + byte(1) + two_bytes(8) + byte(20) + byte(4) + rows + message);
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
    write("graphs", short_name + "_sealed", byte(0) + bytes);
    write("graphs", short_name, byte(1) + bytes.substr(24));
    write("serialised_models", short_name + "_request", byte(1) + text_of(write_request(request)).substr(24));
    if (graphs.empty()) graphs.push_back({request, write_graph(g, named)});
  }
  write("serialised_models", "model", byte(0) + text_of(write_model(graphs)).substr(24));
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
  write("headers_of_arrays", "safetensors", byte(0) + two_bytes(32) + header);
  write("headers_of_arrays", "npy",
        byte(1) + two_bytes(0) + npy_header_for(npy_number::f32, {3, 4}).substr(npy_preamble));
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
  return byte(static_cast<unsigned>(what)) + two_bytes(worker) + two_bytes(step) + std::string(11, '\0');
}

void write_recordings() {
  using kind = order_entry::kind;
  const auto part = [](unsigned source, const std::string& content) {
    return byte(source) + two_bytes(content.size()) + content;
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
  write("recordings", "whole", byte(1) + whole + part(0xfe, end));
  write("recordings", "killed", byte(1) + whole);
  write("recordings", "raw", byte(0) + std::string("mgradrec\2\0\0\0", 12));
}

} // namespace

void write(const std::string& target, const std::string& name, std::string_view bytes) {
  fs::create_directories(corpus / target);
  std::ofstream(corpus / target / name, std::ios::binary) << bytes;
}

} // namespace mailgrad::fuzz

int main(int count, char** words) {
  using namespace mailgrad::fuzz;
  if (count != 2) {
    std::cerr << "fuzz_corpus: name the folder of the corpus\n";
    return 2;
  }
  try {
    corpus = words[1];
    write_net_corpus();
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
