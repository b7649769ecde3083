#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/program/trial_run.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/graph/serial/graph_image.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>
#include <mailgrad/tests/graph/serial/sample_graphs.hpp>
#include <mailgrad/tests/support/allocated_bytes.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <cstring>
#include <random>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::throws;
using bytes = std::vector<std::byte>;

// Bytes that nobody has written. They are refused in one line or read as a graph that can be run.

/// Changes some bytes: flips of bits, small and large numbers, cuts, doubled and removed parts.
void damage(std::string& text, std::mt19937_64& draw) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw() % n); };
  for (std::size_t times = 1 + below(3); times > 0 && !text.empty(); --times) {
    const std::size_t at = below(text.size()), length = std::min(below(9), text.size() - at);
    switch (below(7)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 1:
      text[at] = static_cast<char>(below(256));
      break;
    case 2:
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), length, '\xff');
      break;
    case 3: // a huge number in place of a small one
      if ((text[at] & 0xf0) == 0x10 || (text[at] & 0xf0) == 0x50)
        text.replace(at, 1 + static_cast<std::size_t>(text[at] & 0x0f),
                     std::string(1, static_cast<char>((text[at] & 0xf0) | 8)) + std::string(8, '\x7f'));
      break;
    case 4:
      text.erase(at, length);
      break;
    case 5:
      text.insert(at, text.substr(below(text.size()), length));
      break;
    default:
      if (below(10) == 0) text.resize(at);
    }
  }
}

/// The operations of a graph with operands and attributes that somebody else chose. What an operation does
/// not refuse, it has to be able to run.
class forged_operations {
public:
  forged_operations(const graph_image& image, const operation_registry& known, std::mt19937_64& draw)
      : image_(image), known_(known), draw_(draw) {
    for (const node_image& n : image.nodes) made_.push_back(add(n));
  }

  /// Runs some of them, with zeros for inputs. A kernel may refuse values by an exception.
  void run() {
    std::vector<value> wanted;
    for (int i = 0; i < 8; ++i) wanted.push_back(any());
    try {
      trial_run(wanted, {}).run();
    } catch (const std::exception&) {
    }
  }

  std::size_t accepted = 0; ///< operations that were forged and not refused

private:
  static constexpr std::size_t most_bytes = 1 << 16;

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(draw_() % n); }
  const value& any() {
    const auto& outputs = made_[below(made_.size())];
    return outputs[below(outputs.size())];
  }

  std::vector<value> add(const node_image& n) {
    if (n.what == node_image::kind::variable)
      return {g_.variable(image_.texts[n.name], n.outputs[0].dims, n.first_values)};
    if (n.what == node_image::kind::constant) {
      tensor t(n.outputs[0].dims, n.outputs[0].type);
      std::memcpy(t.data(), n.values.data(), n.values.size_bytes());
      return {g_.constant(std::move(t))};
    }
    try {
      return apply(n);
    } catch (const std::exception&) {
      std::vector<value> others;
      for (std::size_t i = 0; i < n.outputs.size(); ++i) others.push_back(any());
      return others;
    }
  }

  std::vector<value> apply(const node_image& n) {
    std::vector<value> operands;
    for (const value_image& v : n.operands) operands.push_back(made_[v.node][v.output]);
    std::string attributes = n.attributes;
    const bool forged = below(20) == 0;
    if (forged) {
      const std::size_t how = below(4);
      if (how == 0) damage(attributes, draw_);
      if (how == 1) operands.pop_back();
      if (how == 2) operands.push_back(any());
      if (how == 3) operands[below(operands.size())] = any();
    }
    byte_archive_reader from(attributes);
    std::vector<value> made = g_.apply(known_.make(image_.texts[n.name], from), std::move(operands),
                                       std::source_location::current());
    for (const value& v : made)
      if (v.dims().size() > most_bytes) throw std::length_error("too large to run");
    if (made.size() < n.outputs.size()) throw std::length_error("too few values for those who read them");
    accepted += forged;
    return made;
  }

  const graph_image& image_;
  const operation_registry& known_;
  std::mt19937_64& draw_;
  graph g_;
  std::vector<std::vector<value>> made_;
};

bytes of_every_operation() {
  test::every_operation all;
  all.differentiate();
  return write_graph(all.g, all.named());
}

bytes of_random_graph(std::uint64_t seed) {
  const test::random_graph drawn(seed);
  return write_graph(drawn.g, drawn.named());
}

/// What sealed bytes hold. Values of constants stay in the bytes.
graph_image image_of(const bytes& there) {
  graph_image image;
  byte_archive_reader from(unsealed(graph_seal, there));
  image.keep(from, {});
  return image;
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
  } catch (const std::exception& e) {
    ++count.refused;
    ASSERT_TRUE(dynamic_cast<const graph_error*>(&e) || dynamic_cast<const archive_error*>(&e)) << e.what();
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
  const graph_image image = image_of(original);
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

TEST(ForgedBytes, AreNamedByNodeAndByWhatWasExpected) {
  graph g;
  const value x = g.input("x", {2, 3}), w = g.variable("w", {2, 3}, {}); // nodes 0 and 1
  const value sum = add(x, w), y = sum * g.constant(2.0F);
  const bytes original = write_graph(g, std::array{named_value{"y", y}});
  const graph_image clean = image_of(original);
  const auto refused = [&](const char* what, const char* says, auto change) {
    graph_image image = clean;
    change(image);
    byte_archive_writer to;
    image.keep(to, {});
    graph copy;
    testing::expect_refused(what, says, [&] { read_graph(copy, sealed(graph_seal, to.bytes()), {}); });
  };
  const auto reading = [](value_image operand) {
    return [operand](auto& i) { i.nodes[2].operands[1] = operand; };
  };
  const auto of_shape = [](std::size_t node, const shape& dims) {
    return [=](auto& i) { i.nodes[node].outputs[0].dims = dims; };
  };
  refused("an operand that is not there", "node 2, 'add' of forged_bytes_test.cpp:", reading({9, 0}));
  refused("an operand that comes later", "reads value 0 of node 3, which is not before it", reading({3, 0}));
  refused("an operation that reads itself", "not before it", reading({2, 0}));
  refused("a second value of a node with one", "reads value 1 of node 1", reading({1, 1}));
  refused("a shape that is not inferred", "gives float32 2x3 here, and float32 3x2 was written",
          of_shape(2, {3, 2}));
  refused("more results than there are", "gives 1 values here, and 2 were written",
          [](auto& i) { i.nodes[2].outputs.push_back({}); });
  refused("a source of two values", "has 2 values", [](auto& i) { i.nodes[0].outputs.push_back({}); });
  refused("a name twice", "another node of this name", [](auto& i) { i.nodes[1].name = i.nodes[0].name; });
  refused("a text that is not there", "expected one of", [](auto& i) { i.nodes[1].name = 99; });
  refused("an integer variable", "is float32 2x3 here, and was int32 2x3",
          [](auto& i) { i.nodes[1].outputs[0].type = dtype::int32; });
  refused("an empty variable", "holds no weights", of_shape(1, {0}));
  refused("a place beside a later node", "runs beside node 2", [](auto& i) {
    i.nodes[2].place = {place_image::kind::beside, {}, 2};
  });
  refused("an output that is not there", "output 'y' is value 0 of node 77", [](auto& i) {
    i.outputs[0].what = {77, 0};
  });
  refused("too few operands", "takes 2 operands, not 1", [](auto& i) { i.nodes[2].operands.pop_back(); });
  refused("attributes of an operation that has none", "expected the end, found 1 more bytes",
          [](auto& i) { i.nodes[2].attributes = "\x10"; });
  refused("a scope that is none", "name scope '/'", [](auto& i) {
    i.texts.push_back("/");
    i.nodes[2].scope = static_cast<std::uint32_t>(i.texts.size() - 1);
  });
  refused("an endless value", "takes more than", of_shape(0, {std::size_t{1} << 40}));
  refused("long axes of no elements", "takes more than", of_shape(0, {std::size_t{1} << 60, 0}));
}

TEST(ForgedBytes, AskForNoMoreThanTheLimits) {
  graph g;
  const value y = relu(g.constant(tensor({64, 64})) + g.input("x", {64, 64}));
  const bytes there = write_graph(g, std::array{named_value{"y", y}});
  const auto read_with = [&](const graph_limits& limits) {
    graph copy;
    read_graph(copy, there, {}, limits);
  };
  EXPECT_THAT([&] { read_with({.nodes = 3}); }, throws<graph_error>("4 nodes, where at most 3"));
  EXPECT_THAT([&] { read_with({.entries = 1}); }, throws<graph_error>("2 operands, where at most 1"));
  EXPECT_THAT([&] { read_with({.text_bytes = 3}); }, throws<graph_error>("bytes in a text"));
  EXPECT_THAT([&] { read_with({.constant_bytes = 64}); },
              throws<graph_error>("constants take more than 64 bytes"));
  EXPECT_THAT([&] { read_with({.value_bytes = 64}); }, throws<graph_error>("more than 64 bytes"));
  EXPECT_NO_THROW(read_with({.nodes = 4, .entries = 2}));
}

} // namespace
} // namespace mailgrad
