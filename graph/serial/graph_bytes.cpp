#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/graph/serial/graph_image.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <set>
#include <typeinfo>

namespace mailgrad {
namespace {

/// Requires a count that a reader allows, before the entries are read. A writer has no limits.
void require_allowed(const archive& a, const char* what, std::uint64_t found, std::uint64_t most) {
  if (a.reads() && found > most)
    fail_with<graph_error>("graph: {} {}, where at most {} are allowed (graph_limits)", found, what, most);
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

/// Refuses a control character, with which an error would not be one line.
void require_one_line(const std::string& text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (std::ranges::any_of(text, is_control))
    fail_with<graph_error>("graph: {} is no name that can travel, because of its control characters",
                           in_quotes(text));
}

void keep_text(archive& a, std::string& text, std::size_t most) {
  a.field("text", text);
  require_one_line(text);
  require_allowed(a, "bytes in a text", text.size(), most);
}

std::string format_type(const operation& op) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(op).name(), nullptr, nullptr, &status), &std::free);
  return name ? name.get() : typeid(op).name();
}

class image_drawing {
public:
  explicit image_drawing(const graph& g) : graph_(g) {
    for (const node& n : g.nodes()) add(n);
  }

  void add_output(const named_value& v) {
    if (!graph_.has(v.what))
      fail_with<graph_error>("write_graph: output '{}' is a value of another graph, or of none", v.name);
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
    const auto* form = dynamic_cast<const serial_form*>(op.get());
    if (!form)
      fail_with<graph_error>("{}: {} cannot travel to another process: its class {} has no serial_form; "
                             "derive it from serialisable<...> too",
                             line_of(n), op->name(), format_type(*op));
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

/// During its lifetime nodes that are added name a line of another program.
class line_restored {
public:
  explicit line_restored(graph& g) : graph_(g), before_(g.line()) {}
  ~line_restored() { graph_.set_line(std::move(before_)); }
  line_restored(const line_restored&) = delete;
  line_restored& operator=(const line_restored&) = delete;

private:
  graph& graph_;
  std::string before_;
};

class building {
public:
  building(graph& into, const graph_image& image, const operation_registry& known, const graph_limits& limits,
           const device_map& devices)
      : graph_(into), image_(image), known_(known), limits_(limits), devices_(devices) {}

  void add_all() {
    const line_restored line(graph_);
    for (const node_image& n : image_.nodes) {
      number_ = made_.size();
      graph_.set_line(text(n.line));
      made_.push_back(add(n));
    }
  }

  named_values outputs() {
    std::vector<named_value> named;
    for (const output_image& o : image_.outputs) {
      if (o.what.node >= made_.size() || o.what.output >= made_[o.what.node].size())
        fail_with<graph_error>("graph: output '{}' is value {} of node {}, which is not there", text(o.name),
                               o.what.output, o.what.node);
      named.push_back({text(o.name), made_[o.what.node][o.what.output]});
    }
    return named_values(std::move(named));
  }

private:
  /// Throws `what` with the number, the line and the name of the present node.
  [[noreturn]] void refuse(const std::string& what) const {
    const node_image& n = image_.nodes[number_];
    fail_with<graph_error>("graph: node {}, '{}' of {}: {}", number_, text(n.name), text(n.line), what);
  }

  const std::string& text(std::uint32_t number) const {
    if (number < image_.texts.size()) return image_.texts[number];
    fail_with<graph_error>("graph: node {}: expected one of {} texts, found number {}", number_,
                           image_.texts.size(), number);
  }

  std::vector<value> add(const node_image& n) {
    require_small(n);
    if (n.what == node_image::kind::operation) return add_operation(n);
    if (n.outputs.size() != 1) refuse(fmt::format("has {} values, where one is needed", n.outputs.size()));
    const value made = add_source(n, n.outputs[0]);
    if (made.type() != n.outputs[0])
      refuse(fmt::format("is {} here, and was {} where it was written", to_string(made.type()),
                         to_string(n.outputs[0])));
    return {made};
  }

  /// A shape without elements may not have large extents either, since kernels may count along them.
  void require_small(const node_image& n) const {
    for (const value_type& t : n.outputs) {
      double bytes = static_cast<double>(byte_size(t.type));
      for (const std::size_t extent : t.dims) bytes *= static_cast<double>(std::max<std::size_t>(extent, 1));
      if (bytes > static_cast<double>(limits_.value_bytes))
        refuse(fmt::format("{} takes more than {} bytes (graph_limits)", to_string(t), limits_.value_bytes));
    }
  }

  value add_source(const node_image& n, const value_type& type) {
    if (n.what == node_image::kind::constant) return graph_.constant(values_of(n, type));
    const std::string& name = text(n.name);
    if (!name.empty() && !names_.insert(name).second) refuse("there is another node of this name before it");
    if (n.what == node_image::kind::input) return graph_.input(name, type.dims, type.type);
    return graph_.variable(name, type.dims, n.first_values);
  }

  tensor values_of(const node_image& n, const value_type& type) {
    if (n.values.size() != type.dims.size())
      refuse(fmt::format("expected {} values for {}, found {}", type.dims.size(), to_string(type),
                         n.values.size()));
    constant_bytes_ += n.values.size_bytes();
    if (constant_bytes_ > limits_.constant_bytes)
      refuse(fmt::format("constants take more than {} bytes (graph_limits)", limits_.constant_bytes));
    tensor values(type.dims, type.type);
    if (!n.values.empty()) std::memcpy(values.data(), n.values.data(), n.values.size_bytes());
    return values;
  }

  std::vector<value> add_operation(const node_image& n) {
    const operation_node op = operation_of(n);
    const place_scope here(graph_, place_of(n.place));
    std::optional<name_scope> scope;
    if (!text(n.scope).empty()) scope.emplace(graph_, text(n.scope));
    std::vector<value> made = graph_.apply(op, operands_of(n), std::source_location::current());
    const auto same = [](const value& v, const value_type& t) { return v.type() == t; };
    if (made.size() != n.outputs.size())
      refuse(fmt::format("gives {} values here, and {} were written", made.size(), n.outputs.size()));
    if (const auto [v, t] = std::ranges::mismatch(made, n.outputs, same); v != made.end())
      refuse(fmt::format("gives {} here, and {} was written", to_string(v->type()), to_string(*t)));
    return made;
  }

  operation_node operation_of(const node_image& n) const {
    const std::string kind = text(n.name);
    byte_archive_reader attributes(n.attributes,
                                   fmt::format("graph: node {}, '{}': attributes", number_, kind));
    try {
      operation_node op = known_.make(kind, attributes);
      attributes.require_end();
      return op;
    } catch (const std::invalid_argument& e) { // of the registry, or a shape that cannot be
      refuse(e.what());
    }
  }

  std::vector<value> operands_of(const node_image& n) const {
    std::vector<value> operands;
    for (const value_image& v : n.operands) {
      if (v.node >= made_.size() || v.output >= made_[v.node].size())
        refuse(fmt::format("reads value {} of node {}, which is not before it", v.output, v.node));
      operands.push_back(made_[v.node][v.output]);
    }
    return operands;
  }

  /// What has no place of its own takes that of the scope in which the graph is read.
  node_place place_of(const place_image& p) const {
    if (p.how == place_image::kind::none) return graph_.place();
    if (p.how == place_image::kind::device) return devices_ ? devices_(p.where) : p.where;
    if (p.beside >= made_.size())
      refuse(fmt::format("runs beside node {}, which is not before it", p.beside));
    return beside{made_[p.beside].front().node()};
  }

  graph& graph_;
  const graph_image& image_;
  const operation_registry& known_;
  const graph_limits& limits_;
  const device_map& devices_;
  std::vector<std::vector<value>> made_; ///< by node of the image
  std::set<std::string> names_;
  std::uint64_t constant_bytes_ = 0;
  std::size_t number_ = 0; ///< of the present node
};

} // namespace

void keep(archive& a, value_type& t) {
  a.choice("type", t.type, dtype::int32);
  a.field("dims", t.dims);
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

std::vector<std::byte> write_graph(const graph& g, std::span<const named_value> outputs) {
  image_drawing d(g);
  for (const named_value& v : outputs) d.add_output(v);
  byte_archive_writer to;
  d.image().keep(to, graph_limits{});
  return sealed(graph_seal, to.bytes());
}

named_values read_graph(graph& into, std::span<const std::byte> bytes, const operation_registry& known,
                        const graph_limits& limits, const device_map& devices) {
  graph_image image;
  byte_archive_reader from(unsealed(graph_seal, bytes), "graph");
  try {
    image.keep(from, limits);
  } catch (const shape_error& e) {
    fail_with<graph_error>("graph: node {}: {}", image.nodes.size() - 1, e.what());
  }
  from.require_end();
  building nodes(into, image, known, limits, devices);
  nodes.add_all();
  return nodes.outputs();
}

} // namespace mailgrad
