#include <mailgrad/graph/travel/graph_bytes.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/travel/graph_image.hpp>

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>

namespace mailgrad {

namespace {

/// "huber_operation"
std::string type_in_words(const operation& op) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(op).name(), nullptr, nullptr, &status), &std::free);
  return name ? name.get() : typeid(op).name();
}

/// Draws the image of a graph, node by node.
class image_drawing {
public:
  explicit image_drawing(const graph& g) : graph_(g) {
    for (const node& n : g.nodes()) add(n);
  }

  void add_output(const named_value& v) {
    if (!graph_.has(v.what))
      throw graph_error(
          fmt::format("write_graph: output '{}' is a value of another graph, or of none", v.name));
    image_.outputs.push_back({text(v.name), {v.what.node(), v.what.output()}});
  }

  graph_image& image() { return image_; }

private:
  void add(const node& n) {
    node_image& drawn = image_.nodes.emplace_back();
    drawn.line = text(line_of(n));
    drawn.outputs = n.outputs;
    std::visit([&](const auto& what) { draw(drawn, n, what); }, n.what);
  }

  void draw(node_image& drawn, const node& n, const input_node&) { drawn.name = text(n.name); }

  void draw(node_image& drawn, const node& n, const variable_node& v) {
    drawn.what = node_image::kind::variable;
    drawn.name = text(n.name);
    drawn.first_values = v.first_values;
  }

  void draw(node_image& drawn, const node& n, const constant_node& c) {
    drawn.what = node_image::kind::constant;
    drawn.name = text(n.name);
    drawn.owner = c.values;
    drawn.values = c.values->values<float>();
  }

  void draw(node_image& drawn, const node& n, const operation_node& op) {
    const auto* form = dynamic_cast<const travelling_form*>(op.get());
    if (!form)
      throw graph_error(
          fmt::format("{}: {} cannot travel to another process: its class {} has no travelling_form; "
                      "derive it from travelling<...> too",
                      line_of(n), op->name(), type_in_words(*op)));
    drawn.what = node_image::kind::operation;
    drawn.name = text(std::string(form->kind()));
    drawn.scope = text(n.scope);
    byte_archive_writer attributes;
    form->write_attributes(attributes);
    drawn.attributes = attributes.bytes();
    for (const value& v : n.inputs) drawn.operands.push_back({v.node(), v.output()});
    if (const auto* d = std::get_if<device>(&n.place)) drawn.place = {place_image::kind::device, *d, 0};
    if (const auto* b = std::get_if<beside>(&n.place)) drawn.place = {place_image::kind::beside, {}, b->node};
  }

  std::uint32_t text(const std::string& words) {
    const auto [found, is_new] = numbers_.emplace(words, static_cast<std::uint32_t>(image_.texts.size()));
    if (is_new) image_.texts.push_back(words);
    return found->second;
  }

  const graph& graph_;
  graph_image image_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

} // namespace

std::vector<std::byte> write_graph(const graph& g, std::span<const named_value> outputs) {
  image_drawing d(g);
  for (const named_value& v : outputs) d.add_output(v);
  byte_archive_writer to;
  d.image().keep(to, graph_limits{});
  return sealed(graph_seal, to.bytes());
}

} // namespace mailgrad
