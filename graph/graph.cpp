#include <mailgrad/graph/graph.hpp>
#include <mailgrad/options/spelling.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

std::vector<value_type> types_of(std::span<const value> values) {
  std::vector<value_type> types;
  for (const value& v : values) types.push_back(v.type());
  return types;
}

/// The values of all nodes of a kind. A value is only a handle: const is not broken.
template <class What>
std::vector<value> values_of(const graph& g) {
  std::vector<value> found;
  for (std::uint32_t i = 0; i < g.nodes().size(); ++i)
    if (std::holds_alternative<What>(g.nodes()[i].what)) found.emplace_back(const_cast<graph&>(g), i, 0);
  return found;
}

} // namespace

std::string line_of(const std::source_location& where) {
  return fmt::format("{}:{}", std::filesystem::path(where.file_name()).filename().string(), where.line());
}

std::string line_of(const node& n) { return n.line.empty() ? line_of(n.where) : n.line; }

graph& value::owner(std::source_location where) const {
  if (owner_ != nullptr) return *owner_;
  fail_with<graph_error>("{}: a value is used that no graph has made; values come from inputs, "
                         "variables, constants and operations",
                         line_of(where));
}

const value_type& value::type(std::source_location where) const {
  return owner(where).of(*this).outputs[output_];
}

std::string to_string(const value_type& t) {
  return fmt::format("{} {}", to_string(t.type), to_string(t.dims));
}

std::vector<adjoint> operation::gradient(std::span<const value>, std::span<const value> outputs,
                                         std::span<const std::optional<value>>) const {
  const std::string line = outputs.empty() ? "" : line_of(outputs[0].owner().of(outputs[0])) + ": ";
  fail_with<graph_error>("{}{} has no gradient", line, name());
}

void require_operand_count(std::span<const value_type> inputs, std::size_t count) {
  if (inputs.size() != count) fail_with<shape_error>("takes {} operands, not {}", count, inputs.size());
}

double operation::work(std::span<const value_type>, std::span<const value_type> outputs) const {
  double written = 0;
  if (is_view()) return written;
  for (const value_type& t : outputs) written += static_cast<double>(t.dims.size());
  return work_per_value * written;
}

std::optional<value> graph::named(const std::string& name) const {
  const auto found = sources_by_name_.find(name);
  if (found == sources_by_name_.end()) return std::nullopt;
  return value(const_cast<graph&>(*this), found->second, 0); // a value is only a handle: const is not broken
}

value graph::add_source(node n) {
  n.line = line_;
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(std::move(n));
  try {
    if (const std::string& name = nodes_.back().name; !name.empty()) sources_by_name_.emplace(name, id);
  } catch (...) { // without memory for its name, the graph stays as it was
    nodes_.pop_back();
    throw;
  }
  return {*this, id, 0};
}

value graph::input(std::string name, const shape& dims, dtype type, std::source_location where) {
  if (const input_source source = input_source_)
    return source(name, {dims, type}, where); // a copy, because a source may set another one
  if (named(name))
    fail_with<graph_error>("{}: there is already an input or variable '{}'", line_at(where), name);
  return add_source({input_node{}, std::move(name), {}, {{dims, type}}, where, {}});
}

value graph::variable(std::string name, const shape& dims, initialiser first_values,
                      std::source_location where) {
  name.insert(0, scope_.prefix);
  if (const auto known = named(name)) return shared_variable(*known, dims, where);
  require_new_allowed(name, where);
  if (dims.size() == 0)
    fail_with<graph_error>("{}: variable '{}' of shape {} holds no weights; every extent must be at least 1",
                           line_at(where), name, to_string(dims));
  return add_source({variable_node{first_values}, std::move(name), {}, {{dims, dtype::float32}}, where, {}});
}

value graph::shared_variable(const value& known, const shape& dims, std::source_location where) const {
  const node& n = of(known);
  if (!std::holds_alternative<variable_node>(n.what))
    fail_with<graph_error>("{}: '{}' is already an input, made at {}", line_at(where), n.name, line_of(n));
  if (scope_.share == sharing::refused)
    fail_with<graph_error>("{}: variable '{}' is already there, made at {}, and {} takes new ones only; "
                           "take another name, or open the scope with sharing::allowed",
                           line_at(where), n.name, line_of(n), scope_.opened);
  if (!(known.dims() == dims))
    fail_with<graph_error>("{}: variable '{}' of shape {} is already there with shape {}, made at {}",
                           line_at(where), n.name, to_string(dims), to_string(known.dims()), line_of(n));
  return known;
}

void graph::require_new_allowed(const std::string& name, std::source_location where) const {
  if (scope_.share != sharing::required) return;
  std::vector<std::string_view> names;
  for (const node& n : nodes_)
    if (std::holds_alternative<variable_node>(n.what)) names.push_back(n.name);
  const std::string_view nearest = nearest_name(name, names);
  fail_with<graph_error>("{}: there is no variable '{}' to share, and {} makes none; {}make it before, or "
                         "open the scope with sharing::allowed",
                         line_at(where), name, scope_.opened,
                         nearest.empty() ? "" : fmt::format("the nearest there is '{}'; ", nearest));
}

value graph::constant(tensor values, std::source_location where) {
  const value_type type{values.dims(), values.type()};
  return add_source(
      {constant_node{std::make_shared<const tensor>(std::move(values))}, {}, {}, {type}, where, {}});
}

value graph::constant(float scalar, std::source_location where) {
  tensor t{shape{}};
  t.values()[0] = scalar;
  return constant(std::move(t), where);
}

void graph::place_node(std::uint32_t id, device where) {
  if (id >= nodes_.size())
    fail_with<graph_error>("place: there is no node {}; the graph has {}", id, nodes_.size());
  nodes_[id].place = where;
}

const node& graph::of(const value& v) const {
  if (!has(v)) throw graph_error("a value was made by another graph than the one that is asked for it");
  return nodes_[v.node()];
}

void graph::require_operands(const operation_node& op, std::span<const value> inputs,
                             std::source_location where) const {
  if (!op) fail_with<graph_error>("{}: there is no operation to apply", line_at(where));
  for (const value& v : inputs)
    if (&v.owner(where) != this)
      fail_with<graph_error>("{}: {} mixes values of two graphs", line_at(where), op->name());
}

std::vector<value> graph::apply(operation_node op, std::vector<value> inputs, std::source_location where) {
  require_operands(op, inputs, where);
  const auto types = types_of(inputs);
  std::vector<value_type> outputs;
  try {
    outputs = op->infer(types);
    for (const value_type& t : outputs) require_countable(t.dims);
  } catch (const shape_error& e) {
    std::string shapes;
    for (const value_type& t : types) shapes += (shapes.empty() ? "" : ", ") + to_string(t);
    fail_with<graph_error>("{}: {}({}): {}", line_at(where), op->name(), shapes, e.what());
  }
  if (outputs.empty()) fail_with<graph_error>("{}: {} gives no value", line_at(where), op->name());
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  const auto count = static_cast<std::uint32_t>(outputs.size());
  nodes_.push_back({std::move(op), {}, std::move(inputs), std::move(outputs), where, place_});
  nodes_.back().line = line_;
  nodes_.back().scope = scope_.prefix.substr(0, scope_.prefix.rfind('/'));
  std::vector<value> made;
  for (std::uint32_t i = 0; i < count; ++i) made.emplace_back(*this, id, i);
  return made;
}

std::vector<value> graph::inputs() const { return values_of<input_node>(*this); }
std::vector<value> graph::variables() const { return values_of<variable_node>(*this); }

std::vector<char> needed_for(const graph& g, std::span<const value> wanted, std::span<const value> given) {
  for (const std::span<const value> values : {wanted, given})
    for (const value& v : values)
      if (!g.has(v)) throw graph_error("a value is asked for that another graph made, or none");
  std::vector<char> needed(g.nodes().size(), 0);
  const auto need = [&](const value& v) {
    if (std::ranges::find(given, v) == given.end()) needed[v.node()] = 1;
  };
  std::ranges::for_each(wanted, need);
  for (std::size_t id = needed.size(); id-- > 0;) // a node was added after those it reads
    if (needed[id]) std::ranges::for_each(g.nodes()[id].inputs, need);
  return needed;
}

name_scope::name_scope(graph& g, std::string_view name, std::optional<sharing> share,
                       std::source_location where)
    : graph_(g), around_(g.scope_) {
  if (name.empty() || name.front() == '/' || name.back() == '/')
    fail_with<graph_error>("{}: name scope '{}': a name such as 'tower' or 'tower/layer' is needed",
                           g.line_at(where), name);
  g.scope_.prefix.append(name).append(1, '/');
  if (!share) return;
  g.scope_.share = *share;
  const std::string full = g.scope_.prefix.substr(0, g.scope_.prefix.size() - 1);
  g.scope_.opened = fmt::format("name scope '{}', opened at {},", full, line_of(where));
}

name_scope::~name_scope() { graph_.scope_ = std::move(around_); }

} // namespace mailgrad
