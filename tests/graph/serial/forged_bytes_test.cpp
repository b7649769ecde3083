#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/graph/serial/graph_image.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/tests/graph/serial/every_operation.hpp>
#include <mailgrad/tests/graph/serial/forged_operations.hpp>
#include <mailgrad/tests/graph/serial/random_graph.hpp>
#include <mailgrad/tests/support/allocated_bytes.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>

// Bytes that nobody has written. They are refused in one line or read as a graph that can be run.

namespace mailgrad {
namespace {

using test::damage;
using test::forged_operations;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using bytes = std::vector<std::byte>;

bytes of_every_operation() {
  test::every_operation all;
  all.differentiate();
  return write_graph(all.g, all.named());
}

bytes of_random_graph(std::uint64_t seed) {
  const test::random_graph drawn(seed);
  return write_graph(drawn.g, drawn.named());
}

struct tally {
  std::size_t read = 0, refused = 0;
};

/// Reads forged bytes. A refusal is one line, and takes memory in proportion to the bytes.
void read_forged(const bytes& forged, tally& count) {
  static const operation_registry known;
  graph g;
  testing::take_asked_bytes();
  try {
    read_graph(g, forged, known);
    ++count.read;
  } catch (const graph_error& e) {
    ++count.refused;
    ASSERT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
  } catch (const archive_error& e) {
    ++count.refused;
    ASSERT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
  }
  const testing::asked_bytes asked = testing::take_asked_bytes();
  ASSERT_LT(asked.largest, 16384 + 64 * forged.size());
  ASSERT_LT(asked.total, 65536 + 512 * forged.size());
}

TEST(ForgedBytes, AreRefusedInOneLineWithoutMuchMemory) {
  const testing::slice seeds = testing::slice_of(100'000);
  tally count;
  for (const std::uint64_t i : seeds) {
    std::mt19937_64 draw(i);
    static const std::vector<bytes> originals{of_random_graph(1), of_random_graph(4), of_random_graph(9)};
    std::string content(unsealed(graph_seal, originals[i % originals.size()]));
    damage(content, draw);
    ASSERT_NO_FATAL_FAILURE(read_forged(sealed(graph_seal, content), count)) << "forgery " << i;
  }
  EXPECT_GT(count.refused, seeds.size() / 2);
  EXPECT_GT(count.read, seeds.size() / 100) << "some forgeries are graphs";
}

TEST(ForgedBytes, ThatAreOperationsRunWithinTheirMemory) {
  const testing::slice seeds = testing::slice_of(3000);
  const bytes original = of_every_operation();
  graph_image image;
  byte_archive_reader from(unsealed(graph_seal, original));
  image.keep(from, {});
  const operation_registry known;
  std::size_t accepted = 0;
  for (const std::uint64_t seed : seeds) {
    std::mt19937_64 draw(seed);
    forged_operations forged(image, known, draw);
    accepted += forged.accepted;
    forged.run();
  }
  EXPECT_GT(accepted, seeds.size());
}

TEST(ForgedBytes, OfModelsAndRequestsAreRefused) {
  model_request r;
  r.sample_dims = {3};
  r.inputs = {{"features", {{3}, dtype::float32}}};
  r.categories = {3, 4};
  const model_graph g = graph_for(*built_in_model("softmax"), {.sample_dims = {3}});
  const bytes request = write_request(r), model = write_model(std::array{g});
  std::mt19937_64 draw(3);
  for (int i = 0; i < 20'000; ++i) {
    bytes forged = i % 2 == 0 ? request : model;
    forged[static_cast<std::size_t>(draw() % forged.size())] ^= std::byte{1} << draw() % 8;
    EXPECT_THROW(i % 2 == 0 ? (void)read_request(forged) : (void)read_model(forged), archive_error);
  }
}

struct refusal {
  const char* what;
  std::function<void(graph_image&)> change;
  const char* says;
};

TEST(ForgedBytes, AreNamedByNodeAndByWhatWasExpected) {
  graph g;
  const value x = g.input("x", {2, 3});
  const value w = g.variable("w", {2, 3}, {});
  const value sum = add(x, w);
  const value y = sum * g.constant(2.0F);
  const bytes original = write_graph(g, std::array{named_value{"y", y}});
  graph_image clean;
  byte_archive_reader from(unsealed(graph_seal, original));
  clean.keep(from, {});
  const std::vector<refusal> refusals{
      {"an operand that is not there",
       [](graph_image& i) {
         i.nodes[2].operands[1] = {9, 0};
       },
       "node 2, 'add' of forged_bytes_test.cpp:"},
      {"an operand that comes later",
       [](graph_image& i) {
         i.nodes[2].operands[1] = {3, 0};
       },
       "reads value 0 of node 3, which is not before it"},
      {"an operation that reads itself",
       [](graph_image& i) {
         i.nodes[2].operands[1] = {2, 0};
       },
       "not before it"},
      {"a second value of a node with one",
       [](graph_image& i) {
         i.nodes[2].operands[1] = {1, 1};
       },
       "reads value 1 of node 1"},
      {"a shape that is not inferred",
       [](graph_image& i) {
         i.nodes[2].outputs[0].dims = {3, 2};
       },
       "gives float32 2x3 here, and float32 3x2 was written"},
      {"more results than there are", [](graph_image& i) { i.nodes[2].outputs.push_back({}); },
       "gives 1 values here, and 2 were written"},
      {"a source of two values", [](graph_image& i) { i.nodes[0].outputs.push_back({}); }, "has 2 values"},
      {"a name twice", [](graph_image& i) { i.nodes[1].name = i.nodes[0].name; },
       "another node of this name"},
      {"a text that is not there", [](graph_image& i) { i.nodes[1].name = 99; }, "expected one of"},
      {"an integer variable", [](graph_image& i) { i.nodes[1].outputs[0].type = dtype::int32; },
       "is float32 2x3 here, and was int32 2x3"},
      {"an empty variable", [](graph_image& i) { i.nodes[1].outputs[0].dims = {0}; }, "holds no weights"},
      {"a place beside a later node",
       [](graph_image& i) {
         i.nodes[2].place = {place_image::kind::beside, {}, 2};
       },
       "runs beside node 2"},
      {"an output that is not there",
       [](graph_image& i) {
         i.outputs[0].what = {77, 0};
       },
       "output 'y' is value 0 of node 77"},
      {"too few operands", [](graph_image& i) { i.nodes[2].operands.pop_back(); }, "takes 2 operands, not 1"},
      {"attributes of an operation that has none", [](graph_image& i) { i.nodes[2].attributes = "\x10"; },
       "expected the end, found 1 more bytes"},
      {"a scope that is none",
       [](graph_image& i) {
         i.texts.push_back("/");
         i.nodes[2].scope = static_cast<std::uint32_t>(i.texts.size() - 1);
       },
       "name scope '/'"},
      {"an endless value", [](graph_image& i) { i.nodes[0].outputs[0].dims = {std::size_t{1} << 40}; },
       "takes more than"},
      {"long axes of no elements",
       [](graph_image& i) {
         i.nodes[0].outputs[0].dims = {std::size_t{1} << 60, 0};
       },
       "takes more than"},
  };
  for (const refusal& r : refusals) {
    SCOPED_TRACE(r.what);
    graph_image image = clean;
    r.change(image);
    byte_archive_writer to;
    image.keep(to, {});
    graph copy;
    EXPECT_THAT([&] { read_graph(copy, sealed(graph_seal, to.bytes()), {}); },
                ThrowsMessage<std::exception>(HasSubstr(r.says)));
  }
}

TEST(ForgedBytes, AskForNoMoreThanTheLimits) {
  graph g;
  const value y = relu(g.constant(tensor({64, 64})) + g.input("x", {64, 64}));
  const bytes there = write_graph(g, std::array{named_value{"y", y}});
  const auto read_with = [&](const graph_limits& limits) {
    graph copy;
    read_graph(copy, there, {}, limits);
  };
  EXPECT_THAT([&] { read_with({.nodes = 3}); },
              ThrowsMessage<graph_error>(HasSubstr("4 nodes, where at most 3")));
  EXPECT_THAT([&] { read_with({.entries = 1}); },
              ThrowsMessage<graph_error>(HasSubstr("2 operands, where at most 1")));
  EXPECT_THAT([&] { read_with({.text_bytes = 3}); },
              ThrowsMessage<graph_error>(HasSubstr("bytes in a text")));
  EXPECT_THAT([&] { read_with({.constant_bytes = 64}); },
              ThrowsMessage<graph_error>(HasSubstr("constants take more than 64 bytes")));
  EXPECT_THAT([&] { read_with({.value_bytes = 64}); },
              ThrowsMessage<graph_error>(HasSubstr("more than 64 bytes")));
  EXPECT_NO_THROW(read_with({.nodes = 4, .entries = 2}));
}

} // namespace
} // namespace mailgrad
