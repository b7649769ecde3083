#include <mailgrad/graph/graphviz.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace mailgrad {
namespace {

/// Quotes a text for Graphviz. A line break becomes a line break of the label.
std::string in_quotes(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '\n') {
      made += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made + '"';
}

/// Returns "block1/attention" of "block1/attention/weights", and last_word() returns "weights".
std::string scope_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}
std::string last_word(const std::string& name) { return name.substr(name.rfind('/') + 1); }

/// Layers within layers, by the names of their variables.
struct scope {
  std::string name; ///< "block1/attention"
  std::vector<std::uint32_t> nodes;
  std::vector<scope> inner;
  scope& within(const std::string& path) {
    if (path == name) return *this;
    const std::size_t from = name.empty() ? 0 : name.size() + 1;
    const std::string next = path.substr(0, path.find('/', from));
    const auto known = std::ranges::find(inner, next, &scope::name);
    return (known != inner.end() ? *known : inner.emplace_back(scope{next, {}, {}})).within(path);
  }
};

std::string in_bytes(std::size_t bytes) {
  constexpr std::size_t kilo = 1024;
  if (bytes < kilo) return fmt::format("{} B", bytes);
  if (bytes < kilo * kilo) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / kilo);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (kilo * kilo));
}

/// Node, output, and the device that the value goes to.
using sent_values = std::set<std::tuple<std::uint32_t, std::uint32_t, std::string>>;

class drawing {
public:
  drawing(const graph& g, const drawing_options& options)
      : graph_(g), places_(options.places),
        forward_(options.loss ? options.loss->node() + 1 : g.nodes().size()),
        drawn_(options.wanted.empty() ? std::vector<char>(g.nodes().size(), 1)
                                      : needed_for(g, options.wanted)),
        device_of_(g.nodes().size()) {
    if (places_) find_devices();
  }

  std::string text() {
    text_ = "digraph model {\n"
            "  graph [fontname=\"Helvetica\", fontsize=11, newrank=true, ranksep=0.35, nodesep=0.3]\n"
            "  node [fontname=\"Helvetica\", fontsize=11, shape=box, style=\"filled\", fillcolor=white, "
            "height=0.3, margin=\"0.12,0.05\"]\n"
            "  edge [fontname=\"Helvetica\", fontsize=9, arrowsize=0.6]\n";
    if (places_)
      for (const device d : places_->devices()) draw_device(d);
    draw(scopes_on(std::nullopt), "  ");
    for (std::uint32_t id = 0; id < graph_.nodes().size(); ++id)
      if (drawn_[id]) draw_edges(id);
    return text_ + "}\n";
  }

private:
  /// Finds the box of each node: an operation is in that of its device, a source in that of the only device
  /// that reads it.
  void find_devices() {
    std::vector<char> read_by_several(graph_.nodes().size(), 0);
    for (std::uint32_t id = 0; id < graph_.nodes().size(); ++id) {
      const node& n = graph_.nodes()[id];
      if (!drawn_[id] || !is_operation(n)) continue;
      device_of_[id] = places_->of(id);
      for (const value& v : n.inputs) {
        auto& known = device_of_[v.node()];
        if (is_operation(graph_.of(v))) continue;
        if (known && *known != places_->of(id)) read_by_several[v.node()] = 1;
        known = places_->of(id);
      }
    }
    for (std::uint32_t id = 0; id < graph_.nodes().size(); ++id)
      if (read_by_several[id]) device_of_[id].reset();
  }

  static bool is_operation(const node& n) { return std::holds_alternative<operation_node>(n.what); }

  scope scopes_on(const std::optional<device>& where) const {
    scope all;
    for (std::uint32_t id = 0; id < graph_.nodes().size(); ++id)
      if (drawn_[id] && device_of_[id] == where) all.within(scope_of_node(id)).nodes.push_back(id);
    return all;
  }

  void draw_device(device d) {
    const std::string name = to_string(d);
    text_ +=
        "  subgraph " + in_quotes("cluster device " + name) +
        " {\n    label=" + in_quotes(fmt::format("{}, gets {} a step", name, in_bytes(bytes_to(d)))) +
        "; style=\"rounded,filled\"; color=\"#7f7f7f\"; fillcolor=\"#fdfaf2\"; fontsize=13; labeljust=l\n";
    box_ = name;
    draw(scopes_on(d), "    ");
    box_.clear();
    text_ += "  }\n";
  }

  std::size_t bytes_to(device d) const {
    sent_values sent;
    std::size_t bytes = 0;
    for (std::uint32_t id = 0; id < graph_.nodes().size(); ++id)
      for (const value& v : graph_.nodes()[id].inputs)
        if (drawn_[id] && device_of_[id] == d && crosses(v, id) && is_first(v, d, sent)) bytes += bytes_of(v);
    return bytes;
  }

  /// Whether the value has not been sent to the device yet. It is sent once, even if several operations read
  /// it.
  static bool is_first(const value& v, device d, sent_values& sent) {
    return sent.emplace(v.node(), v.output(), to_string(d)).second;
  }

  bool crosses(const value& v, std::uint32_t reader) const {
    return places_ && is_operation(graph_.nodes()[reader]) && is_operation(graph_.of(v)) &&
           device_of_[v.node()] != device_of_[reader];
  }
  static std::size_t bytes_of(const value& v) { return v.dims().size() * byte_size(v.type().type); }

  bool is_backward(std::uint32_t id) const { return id >= forward_; }

  /// The scope of a variable is that of its name. An operation has the scope that all variables it reads
  /// share, and else the one that it was added in.
  std::string scope_of_node(std::uint32_t id) const {
    const node& n = graph_.nodes()[id];
    if (std::holds_alternative<variable_node>(n.what)) return scope_of(n.name);
    std::set<std::string> found;
    for (const value& v : n.inputs)
      if (std::holds_alternative<variable_node>(graph_.of(v).what)) found.insert(scope_of(graph_.of(v).name));
    if (is_backward(id)) return {};
    return found.size() == 1 ? *found.begin() : n.scope;
  }

  void draw(const scope& s, const std::string& indent) {
    for (const std::uint32_t id : s.nodes) draw_node(id, indent);
    for (const scope& inner : s.inner) {
      text_ += indent + "subgraph " + in_quotes("cluster " + box_ + (box_.empty() ? "" : " ") + inner.name) +
               " {\n" + indent + "  label=" + in_quotes(last_word(inner.name)) +
               "; style=\"rounded,filled\"; color=\"#c8c8c8\"; fillcolor=\"" + "#f6f6f6\"; labeljust=l\n";
      draw(inner, indent + "  ");
      text_ += indent + "}\n";
    }
  }

  void draw_node(std::uint32_t id, const std::string& indent) {
    const node& n = graph_.nodes()[id];
    text_ += fmt::format("{}n{} [label={}, {}", indent, id, in_quotes(label(n)), look(n));
    if (is_backward(id)) text_ += ", style=\"filled,dashed\", fontcolor=\"#606060\"";
    text_ += ", tooltip=" + in_quotes(line_of(n)) + "]\n";
  }

  static std::string label(const node& n) {
    const std::string dims = to_string(n.outputs[0].dims);
    if (std::holds_alternative<input_node>(n.what)) return n.name + "\n" + to_string(n.outputs[0]);
    if (std::holds_alternative<variable_node>(n.what)) return last_word(n.name) + "\n" + dims;
    if (const auto* fixed = std::get_if<constant_node>(&n.what)) return constant_label(*fixed->values);
    const operation& op = *std::get<operation_node>(n.what);
    const std::string details = op.describe();
    return std::string(op.name()) + (details.empty() ? "" : "\n" + details) + "\n" + dims;
  }

  static std::string constant_label(const tensor& t) {
    if (t.dims().rank() > 0 || t.type() != dtype::float32) return "constant\n" + to_string(t.dims());
    std::string text = std::to_string(t.values()[0]);
    text.erase(text.find_last_not_of('0') + 1);
    return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
  }

  static std::string look(const node& n) {
    if (std::holds_alternative<input_node>(n.what)) return "style=\"filled,rounded\", fillcolor=\"#d5e8d4\"";
    if (std::holds_alternative<variable_node>(n.what)) return "shape=cylinder, fillcolor=\"#ffe6cc\"";
    if (std::holds_alternative<constant_node>(n.what)) return "shape=plaintext, fillcolor=none";
    const bool view = std::get<operation_node>(n.what)->is_view();
    return view ? "fillcolor=\"#eeeeee\", color=\"#a0a0a0\"" : "fillcolor=\"#dae8fc\"";
  }

  /// An edge of the backward pass is told to Graphviz the other way round, so that it is drawn from below.
  /// What a gradient reads of the forward pass may stand at the same height.
  void draw_edges(std::uint32_t id) {
    for (const value& v : graph_.nodes()[id].inputs) {
      const bool upwards = is_backward(v.node()) && is_backward(id);
      std::vector<std::string> details;
      if (upwards)
        details.push_back("dir=back");
      else if (is_backward(id))
        details.push_back("minlen=0");
      const bool between_devices = crosses(v, id);
      if (between_devices && is_first(v, *device_of_[id], labelled_))
        details.insert(details.end(), {"label=" + in_quotes(in_bytes(bytes_of(v))), "fontcolor=\"#b85450\""});
      else if (!between_devices && v.output() > 0)
        details.push_back("label=" + in_quotes(to_string(v.type())));
      if (between_devices)
        details.insert(details.end(), {"penwidth=2", "color=\"#b85450\""});
      else if (is_backward(id))
        details.insert(details.end(), {"style=dashed", "color=\"#909090\""});
      text_ += fmt::format("  n{} -> n{}", upwards ? id : v.node(), upwards ? v.node() : id);
      text_ += details.empty() ? "\n" : fmt::format(" [{}]\n", fmt::join(details, ", "));
    }
  }

  const graph& graph_;
  const placement* places_;
  std::size_t forward_;                          ///< nodes before the backward pass
  std::vector<char> drawn_;                      ///< by node
  std::vector<std::optional<device>> device_of_; ///< by node; unset outside of all boxes
  sent_values labelled_;                         ///< values with an edge that is labelled with their bytes
  std::string box_; ///< the device that is being drawn, since the same layer may be in several boxes
  std::string text_;
};

} // namespace

std::string graphviz(const graph& g, const drawing_options& options) { return drawing(g, options).text(); }

} // namespace mailgrad
