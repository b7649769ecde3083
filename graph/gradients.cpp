#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

/// During its lifetime, nodes that are added name the line of the node whose gradient they compute.
class line_scope {
public:
  line_scope(graph& g, const std::string& line) : graph_(g), before_(g.line()) { g.set_line(line); }
  ~line_scope() { graph_.set_line(std::move(before_)); }
  line_scope(const line_scope&) = delete;
  line_scope& operator=(const line_scope&) = delete;

private:
  graph& graph_;
  std::string before_;
};

/// The backward pass over one graph. It fills the adjoints, by node and output, from the loss to the sources.
class reverse_sweep {
public:
  explicit reverse_sweep(const value& loss) : model_(loss.owner()), count_(loss.node() + 1) {
    for (std::uint32_t id = 0; id < count_; ++id) adjoints_.emplace_back(model_.nodes()[id].outputs.size());
    const line_scope same(model_, model_.of(loss).line);
    adjoints_[loss.node()][loss.output()].dense = model_.constant(1.0F, model_.of(loss).where);
  }

  void run(std::span<const value> with_respect_to) {
    mark_dependants(with_respect_to);
    for (std::uint32_t id = count_; id-- > 0;)
      if (depends_[id]) differentiate(id);
  }

  adjoint of(const value& v) const { return v.node() < count_ ? adjoints_[v.node()][v.output()] : adjoint{}; }

private:
  /// Marks the nodes that depend on a value of `with_respect_to`; only these are differentiated.
  void mark_dependants(std::span<const value> with_respect_to) {
    depends_.assign(count_, 0);
    for (const value& v : with_respect_to)
      if (v.node() < count_) depends_[v.node()] = 1;
    for (std::uint32_t id = 0; id < count_; ++id)
      for (const value& v : model_.nodes()[id].inputs) depends_[id] |= depends_[v.node()];
  }

  /// Adds the nodes of the gradient, which run on the device of node `id`.
  void differentiate(std::uint32_t id) {
    if (!std::holds_alternative<operation_node>(model_.nodes()[id].what)) return;
    const place_scope here(model_, beside{id});
    const line_scope same(model_, model_.nodes()[id].line);
    std::vector<std::optional<value>> dy;
    for (std::uint32_t i = 0; i < adjoints_[id].size(); ++i)
      dy.push_back(as_dense(adjoints_[id][i], value(model_, id, i)));
    if (std::ranges::none_of(dy, [](const auto& d) { return d.has_value(); })) return;

    const node n = model_.nodes()[id]; // a copy, because adding nodes moves the others
    std::vector<value> outputs;
    for (std::uint32_t i = 0; i < n.outputs.size(); ++i) outputs.emplace_back(model_, id, i);
    const operation& op = *std::get<operation_node>(n.what);
    const auto parts = op.gradient(n.inputs, outputs, dy);
    if (parts.size() != n.inputs.size())
      fail_with<graph_error>("{}: {} has {} gradients for {} operands; one for each is needed", line_of(n),
                             op.name(), parts.size(), n.inputs.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!depends_[n.inputs[i].node()]) continue;
      require_fitting(n.inputs[i], parts[i], n);
      accumulate(n.inputs[i], parts[i], n.where);
    }
  }

  /// Checks the shape of a gradient. It must be that of the operand, since a gradient of weights is written
  /// to memory of their size.
  void require_fitting(const value& operand, const adjoint& part, const node& n) const {
    const auto require = [&](const value& v, const value_type& expected) {
      if (v.type(n.where) != expected)
        fail_with<graph_error>("{}: the gradient of {} is {}, where its operand needs {}", line_of(n),
                               std::get<operation_node>(n.what)->name(), to_string(v.type()),
                               to_string(expected));
    };
    if (part.dense) require(*part.dense, operand.type());
    for (const sparse_rows& list : part.sparse) {
      const std::size_t count = list.rows.dims(n.where).size();
      require(list.rows, {{count}, dtype::int32});
      const std::size_t height = operand.dims().rank() == 0 ? 0 : operand.dims()[0];
      require(list.values, {{count, height == 0 ? 0 : operand.dims().size() / height}, dtype::float32});
    }
  }

  void accumulate(const value& v, const adjoint& part, const std::source_location& where) {
    adjoint& sum = adjoints_[v.node()][v.output()];
    if (part.dense) sum.dense = sum.dense ? add({*sum.dense, where}, {*part.dense, where}) : *part.dense;
    sum.sparse.insert(sum.sparse.end(), part.sparse.begin(), part.sparse.end());
    const bool table = std::holds_alternative<variable_node>(model_.of(v).what);
    if (!sum.sparse.empty() && (sum.dense || !table)) sum = as_dense(sum, v).value();
  }

  /// Returns the adjoint of `v` as one dense value, to which the sparse parts are added.
  std::optional<value> as_dense(const adjoint& a, const value& v) {
    std::optional<value> sum = a.dense;
    const std::source_location where = model_.of(v).where;
    for (const sparse_rows& part : a.sparse) {
      const value rows = scatter_rows(part.rows, part.values, v.dims(), where);
      sum = sum ? add({*sum, where}, {rows, where}) : rows;
    }
    return sum;
  }

  graph& model_;
  std::uint32_t count_; ///< nodes up to the loss; those added later are gradients themselves
  std::vector<std::vector<adjoint>> adjoints_;
  std::vector<char> depends_;
};

} // namespace

std::vector<adjoint> gradients(const value& loss, std::span<const value> with_respect_to,
                               std::source_location where) {
  const node& made = loss.owner(where).of(loss);
  if (loss.dims().rank() != 0)
    fail_with<graph_error>("{}: gradients: the loss must be a scalar, not {}", line_of(made),
                           to_string(loss.dims()));
  for (const value& v : with_respect_to)
    if (!loss.owner().has(v))
      fail_with<graph_error>(
          "{}: gradients: asked for with respect to a value of another graph than the loss", line_of(made));
  reverse_sweep sweep(loss);
  sweep.run(with_respect_to);
  std::vector<adjoint> found;
  for (const value& v : with_respect_to) found.push_back(sweep.of(v));
  return found;
}

} // namespace mailgrad
