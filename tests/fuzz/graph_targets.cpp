#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/graph/serial/graph_image.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>
#include <mailgrad/tests/fuzz/fuzz_input.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>
#include <mailgrad/tests/fuzz/whole_object.hpp>

namespace mailgrad::fuzz {

namespace {

std::string written(whole_object& x) {
  byte_archive_writer out;
  out.field("x", x);
  return out.bytes();
}

/// None if the bytes are refused.
std::optional<whole_object> read_object(std::string_view bytes) {
  try {
    byte_archive_reader in(bytes, "object");
    whole_object x;
    in.field("x", x);
    in.require_end();
    return x;
  } catch (const archive_error& e) {
    require_one_line(e);
    return std::nullopt;
  }
}

constexpr graph_limits small_limits{.nodes = 512,
                                    .entries = 256,
                                    .text_bytes = 256,
                                    .attribute_bytes = 4096,
                                    .constant_bytes = 1 << 18,
                                    .value_bytes = 1 << 24};

const operation_registry& known_operations() {
  static const operation_registry known;
  return known;
}

/// The bytes of the graph that was read; none if they are refused.
std::optional<std::vector<std::byte>> passed_on(std::span<const std::byte> bytes) {
  graph g;
  named_values outputs{};
  try {
    outputs = read_graph(g, bytes, known_operations(), small_limits);
  } catch (const archive_error& e) {
    require_one_line(e);
    return std::nullopt;
  } catch (const graph_error& e) {
    require_one_line(e);
    return std::nullopt;
  }
  return write_graph(g, outputs.all());
}

} // namespace

void byte_archives(std::span<const std::byte> input) {
  std::optional<whole_object> x = read_object(as_text(input));
  if (!x) return;
  const std::string bytes = written(*x);
  std::optional<whole_object> again = read_object(bytes);
  require(again && written(*again) == bytes, "an object changes on its way");
}

/// The first byte says whether the rest is sealed or gets a seal.
void graphs(std::span<const std::byte> input) {
  fuzz_input in(input);
  const bool is_sealed = in.u8() % 4 == 0;
  const auto rest = in.rest();
  const auto first =
      passed_on(is_sealed ? std::vector(rest.begin(), rest.end()) : sealed(graph_seal, as_text(rest)));
  if (!first) return;
  const auto second = passed_on(*first);
  require(second && *second == *first, "a graph changes on its way");
}

/// The first byte chooses a request or a model, the rest is its content.
void serialised_models(std::span<const std::byte> input) {
  fuzz_input in(input);
  const bool is_model = in.u8() % 2 == 0;
  const auto rest = in.rest();
  try {
    if (is_model) {
      const auto graphs = read_model(sealed({"mgradmod", 1, "model"}, as_text(rest)));
      require(read_model(write_model(graphs)).size() == graphs.size(), "a model changes on its way");
    } else {
      const model_request request = read_request(sealed({"mgradreq", 1, "model request"}, as_text(rest)));
      const auto bytes = write_request(request);
      require(write_request(read_request(bytes)) == bytes, "a request changes on its way");
    }
  } catch (const archive_error& e) {
    require_one_line(e);
  }
}

} // namespace mailgrad::fuzz
