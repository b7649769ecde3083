#include <mailgrad/graph/serial/graph_image.hpp>

#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

namespace {

/// Requires a count that a reader allows, before the entries are read. A writer has no limits.
void require_allowed(const archive& a, const char* what, std::uint64_t found, std::uint64_t most) {
  if (a.reads() && found > most)
    throw graph_error(
        fmt::format("graph: {} {}, where at most {} are allowed (graph_limits)", found, what, most));
}

/// Keeps a list whose memory grows as its entries arrive. keep_entry() keeps one of them.
template <class T, class Keep>
void keep_list(archive& a, const char* name, std::vector<T>& list, std::size_t most, Keep keep_entry) {
  a.group(name, [&] {
    std::uint64_t count = list.size();
    a.field("count", count);
    require_allowed(a, name, count, most);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (a.reads()) list.emplace_back();
      a.group(std::to_string(i), [&] { keep_entry(list[i]); });
    }
  });
}

void keep_text(archive& a, std::string& text, std::size_t most) {
  a.field("text", text);
  require_one_line(text);
  require_allowed(a, "bytes in a text", text.size(), most);
}

} // namespace

void require_one_line(const std::string& text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (std::ranges::any_of(text, is_control))
    throw graph_error(fmt::format("graph: {} is no name that can travel, because of its control characters",
                                  in_quotes(text)));
}

void keep(archive& a, value_type& t) {
  a.choice("type", t.type, dtype::int32);
  a.field("dims", t.dims);
}

void value_image::keep(archive& a) {
  a.field("node", node);
  a.field("output", output);
}

void output_image::keep(archive& a) {
  a.field("name", name);
  a.field("value", what);
}

void place_image::keep(archive& a) {
  a.choice("how", how, kind::beside);
  if (how == kind::device) {
    a.choice("device", where.kind, device_kind::cuda);
    a.field("index", where.index);
    if (where.kind == device_kind::cuda) a.field("lane", where.stream);
  }
  if (how == kind::beside) a.field("node", beside);
}

void node_image::keep(archive& a, const graph_limits& limits) {
  a.choice("what", what, kind::operation);
  a.field("name", name);
  a.field("line", line);
  keep_list(a, "outputs", outputs, limits.entries, [&](value_type& t) { mailgrad::keep(a, t); });
  if (what == kind::variable) {
    a.choice("distribution", first_values.distribution, initialiser::kind::normal);
    a.field("a", first_values.a);
    a.field("b", first_values.b);
  } else if (what == kind::constant && a.reads()) {
    const archived_array& found = a.array("values");
    owner = found.owner;
    values = found.values;
  } else if (what == kind::constant) {
    a.hold("values", owner, values);
  } else if (what == kind::operation) {
    a.field("scope", scope);
    a.field("attributes", attributes);
    require_allowed(a, "bytes of attributes", attributes.size(), limits.attribute_bytes);
    keep_list(a, "operands", operands, limits.entries, [&](value_image& v) { v.keep(a); });
    a.field("place", place);
  }
}

void graph_image::keep(archive& a, const graph_limits& limits) {
  constexpr std::size_t texts_of_node = 3; // its name, its line and its scope
  keep_list(a, "texts", texts, limits.nodes * texts_of_node + limits.entries,
            [&](std::string& text) { keep_text(a, text, limits.text_bytes); });
  keep_list(a, "nodes", nodes, limits.nodes, [&](node_image& n) { n.keep(a, limits); });
  keep_list(a, "outputs", outputs, limits.entries, [&](output_image& o) { o.keep(a); });
}

} // namespace mailgrad
