#pragma once

#include <mailgrad/files/digests.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>

namespace mailgrad {

// What stands in the bytes of a graph, field by field. One function of each struct names its fields, for
// writing and for reading. A text is given by its number in the list of all texts.

inline constexpr seal graph_seal{"mgradgrf", 1, "graph"};

struct value_image {
  std::uint32_t node = 0;
  std::uint32_t output = 0;

  void keep(archive& a) {
    a.field("node", node);
    a.field("output", output);
  }
};

struct output_image {
  std::uint32_t name = 0; ///< a text
  value_image what;

  void keep(archive& a) {
    a.field("name", name);
    a.field("value", what);
  }
};

struct place_image {
  enum class kind : std::uint8_t { none, device, beside };

  kind how = kind::none;
  device where{};
  std::uint32_t beside = 0; ///< an earlier node

  void keep(archive& a);
};

struct node_image {
  enum class kind : std::uint8_t { input, variable, constant, operation };

  kind what = kind::input;
  std::uint32_t name = 0; ///< a text: of an input or a variable, or the kind of an operation
  std::uint32_t line = 0; ///< a text
  std::vector<value_type> outputs;
  initialiser first_values;          ///< of a variable
  std::shared_ptr<const void> owner; ///< of the values of a constant
  std::span<const float> values;     ///< of a constant, four bytes each, integers too
  std::uint32_t scope = 0;           ///< a text; of an operation, as all that follows
  std::string attributes;            ///< bytes that byte_archive_writer wrote
  std::vector<value_image> operands;
  place_image place;

  void keep(archive& a, const graph_limits& limits);
};

struct graph_image {
  std::vector<std::string> texts; ///< in the order of their first use, each of them once
  std::vector<node_image> nodes;
  std::vector<output_image> outputs;

  void keep(archive& a, const graph_limits& limits);
};

/// Keeps the extents and the type of the elements.
void keep(archive& a, value_type& t);

} // namespace mailgrad
