#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <numeric>

namespace mailgrad {
namespace {

using enum operand_order;

operand_order other(operand_order o) { return o == as_is ? transposed : as_is; }

/// How a product treats the leading axes of its operands.
enum class leading : std::uint8_t {
  batch,      ///< they are equal, and there is one product for each
  more_rows,  ///< only a has them, and they are joined to its rows
  more_inner, ///< they are equal, and are joined to the inner axis of a transposed a and of b as it is
};

class matmul_executable : public executable, public bfloat16_form, public multiplying {
public:
  matmul_executable(const gemm_shape& g, device_kind where)
      : g_(g), scratch_bytes_(where == device_kind::cpu ? gemm_scratch_bytes(g) : 0) {}
  std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  void run(const stream& s, const call& c) override {
    const gemm_epilogue epilogue{bias_ ? c.in(2) : nullptr, false};
    if (writes_rounded(0))
      return gemm(s, g_, c.in<bfloat16>(0), c.in<bfloat16>(1), c.out<bfloat16>(),
                  bias_ ? c.in<bfloat16>(2) : nullptr);
    if (reads_rounded(0)) return gemm(s, g_, c.in<bfloat16>(0), c.in<bfloat16>(1), c.out(), epilogue);
    gemm(s, g_, c.in(0), c.in(1), c.out(), c.scratch, c.output_use, epilogue);
  }
  bool take_row_bias(const row_bias& b) override {
    if (bias_ || g_.batch != 1 || b.columns != g_.n) return false;
    bias_ = b;
    return true;
  }
  /// A GPU adds a bias of the type of the result.
  bool needs(std::size_t i) const override { return i < 2 || writes_rounded(0); }
  bool may_write(std::size_t) const override { return g_.k > 0; }

private:
  gemm_shape g_;
  std::size_t scratch_bytes_;
  std::optional<row_bias> bias_;
};

/// The rows and columns of an operand as it is multiplied, which may be the transpose of its last two axes.
struct matrix {
  std::size_t rows, columns;
};

matrix matrix_of(const shape& s, operand_order order) {
  const std::size_t rows = s[s.rank() - 2], columns = s.back();
  return order == as_is ? matrix{rows, columns} : matrix{columns, rows};
}

std::size_t leading_size(const shape& s) {
  std::size_t size = 1;
  for (std::size_t axis = 0; axis + 2 < s.rank(); ++axis) size *= s[axis];
  return size;
}

bool same_leading(const shape& a, const shape& b) {
  return a.rank() == b.rank() && std::equal(a.begin(), a.end() - 2, b.begin());
}

std::string transposed_in(onnx_nodes& to, const onnx_value& x) {
  std::vector<std::int64_t> order(x.type.dims.rank());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return to.add("Transpose", {x.name}, {{"perm", order}});
}

struct matmul_kind {
  static constexpr std::string_view name = "matmul";
  static constexpr std::size_t operands = 2;
  matmul_options orders{};
  leading axes = leading::batch;
  void keep(archive& a) {
    a.version(1);
    a.choice("a", orders.a, transposed);
    a.choice("b", orders.b, transposed);
    a.choice("leading", axes, leading::more_inner);
  }

  gemm_shape product_of(const shape& a, const shape& b) const {
    const matrix left = matrix_of(a, orders.a), right = matrix_of(b, orders.b);
    gemm_shape g{left.rows, right.columns, left.columns, orders.a, orders.b, 1};
    const std::size_t count = leading_size(a);
    if (axes == leading::batch) g.batch = count;
    if (axes == leading::more_rows) g.m *= count;
    if (axes == leading::more_inner) g.k *= count;
    return g;
  }

  std::vector<value_type> infer(type_list inputs) const {
    const shape &a = inputs[0].dims, &b = inputs[1].dims;
    for (const value_type& t : inputs) {
      if (t.type != dtype::float32) throw shape_error("expected float32");
      if (t.dims.rank() < 2) fail_with<shape_error>("a matrix has rank 2 or more, not {}", t.dims.rank());
    }
    if (axes == leading::more_rows && (orders.a == transposed || b.rank() != 2))
      throw shape_error("only rows of an a that is not transposed can be joined, for one b");
    if (axes == leading::more_inner && (orders.a != transposed || orders.b != as_is))
      throw shape_error("inner axes can only be joined of a transposed a and of b as it is");
    const matrix left = matrix_of(a, orders.a), right = matrix_of(b, orders.b);
    if (left.columns != right.rows)
      fail_with<shape_error>("inner extents {} and {} differ", left.columns, right.rows);
    if (axes != leading::more_rows && !same_leading(a, b)) throw shape_error("the leading axes differ");

    if (axes == leading::more_inner) return {{{left.rows, right.columns}, dtype::float32}};
    shape result = a;
    result[a.rank() - 2] = left.rows;
    result[a.rank() - 1] = right.columns;
    return {{result, dtype::float32}};
  }

  /// Source  Giles, "Collected matrix derivative results for forward and reverse mode AD", 2008, section
  ///         2.2.2: dA = dC B^T, dB = A^T dC. The gradient of a transposed operand is the transpose of this.
  std::vector<adjoint> gradient(const differentiated& d) const {
    const value &a = d.inputs[0], &b = d.inputs[1], &dc = *d.dy[0];
    const auto product = [&](const value& left, operand_order l, const value& right, operand_order r,
                             leading how) -> adjoint {
      return d.apply(made(matmul_kind{{l, r}, how}), {left, right}).front();
    };
    if (axes == leading::more_inner)
      return {product(b, as_is, dc, transposed, leading::more_rows),
              product(a, as_is, dc, as_is, leading::more_rows)};

    const adjoint da = orders.a == as_is ? product(dc, as_is, b, other(orders.b), axes)
                                         : product(b, orders.b, dc, transposed, axes);
    if (axes == leading::more_rows)
      return {da, orders.b == as_is ? product(a, transposed, dc, as_is, leading::more_inner)
                                    : product(dc, transposed, a, as_is, leading::more_inner)};
    return {da, orders.b == as_is ? product(a, other(orders.a), dc, as_is, axes)
                                  : product(dc, transposed, a, orders.a, axes)};
  }

  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return std::make_unique<matmul_executable>(product_of(t.inputs[0].dims, t.inputs[1].dims), t.where);
  }
  double more_work(type_list inputs, type_list) const {
    const gemm_shape g = product_of(inputs[0].dims, inputs[1].dims);
    return static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n) *
           static_cast<double>(g.k);
  }
  std::string describe() const {
    if (orders.a == as_is && orders.b == as_is) return {};
    if (orders.a == transposed && orders.b == transposed) return "a and b transposed";
    return orders.a == transposed ? "a transposed" : "b transposed";
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    if (axes == leading::more_inner) return {};
    const auto operand = [&](std::size_t i, operand_order o) {
      return o == transposed ? transposed_in(to, inputs[i]) : inputs[i].name;
    };
    return {to.add("MatMul", {operand(0, orders.a), operand(1, orders.b)})};
  }
};

vector_sets sets_of(const shape& x) { return {x[0], x[1], x[2]}; }

value_type dots_of(const value_type& x) {
  constexpr std::size_t most = std::size_t{1} << 31; // more have more pairs than can be counted
  if (x.type != dtype::float32 || x.dims.rank() != 3)
    throw shape_error("the vectors must be float32[samples, count, width]");
  if (x.dims[1] < 2) throw shape_error("there must be two vectors to multiply");
  if (x.dims[1] > most) throw shape_error("there are too many vectors");
  return {{x.dims[0], sets_of(x.dims).pairs()}, dtype::float32};
}

/// Inputs: x, the gradient of the dot products. Output: the gradient of x.
struct dots_gradient_kind {
  static constexpr std::string_view name = "pairwise_dots_gradient";
  static constexpr std::size_t operands = 2;
  std::vector<value_type> infer(type_list inputs) const {
    if (inputs[1] != dots_of(inputs[0])) throw shape_error("expected the gradient of each product");
    return {inputs[0]};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([sets = sets_of(t.inputs[0].dims)](const stream& s, const call& c) {
      pairwise_dots_gradient(s, sets, c.in(0), c.in(1), c.out());
    });
  }
};

struct dots_kind {
  static constexpr std::string_view name = "pairwise_dots";
  static constexpr std::size_t operands = 1;
  std::vector<value_type> infer(type_list inputs) const { return {dots_of(inputs[0])}; }
  std::vector<adjoint> gradient(const differentiated& d) const {
    return {d.apply(made(dots_gradient_kind()), {d.inputs[0], *d.dy[0]}).front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([sets = sets_of(t.inputs[0].dims)](const stream& s, const call& c) {
      pairwise_dots(s, sets, c.in(0), c.out());
    });
  }
};

/// Sizes of a batch of compressed rows. They are the first three inputs of both operations.
struct batch_sizes {
  std::size_t entries, offsets;
  explicit batch_sizes(std::span<const value_type> inputs)
      : entries(inputs[0].dims[0]), offsets(inputs[2].dims[0]) {}

  compressed_rows rows(const call& c) const {
    return {{c.in<std::int32_t>(0), entries}, c.in(1), {c.in<std::int32_t>(2), offsets}};
  }
};

/// Checks the first three inputs of both operations. Returns the number of rows.
std::size_t require_rows(std::span<const value_type> inputs) {
  const value_type &columns = inputs[0], &offsets = inputs[2];
  if (columns.type != dtype::int32 || columns.dims.rank() != 1)
    throw shape_error("columns must be int32[entries]");
  if (inputs[1] != value_type{columns.dims, dtype::float32})
    throw shape_error("values must be float32, as many as columns");
  if (offsets.type != dtype::int32 || offsets.dims.rank() != 1 || offsets.dims[0] == 0)
    throw shape_error("offsets must be int32[rows + 1]");
  return offsets.dims[0] - 1;
}

/// Inputs: columns, values, offsets, dy. The output has one row for each entry, which is added to the row of
/// the table that the entry names.
struct sparse_matmul_gradient_kind {
  static constexpr std::string_view name = "sparse_matmul_gradient";
  static constexpr std::size_t operands = 4;
  std::vector<value_type> infer(type_list inputs) const {
    const std::size_t rows = require_rows(inputs);
    const value_type& dy = inputs[3];
    if (dy.type != dtype::float32 || dy.dims.rank() != 2 || dy.dims[0] != rows)
      throw shape_error("the gradient must be float32[rows, width]");
    return {{shape{inputs[0].dims[0], dy.dims[1]}, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel(
        [batch = batch_sizes(t.inputs), width = t.inputs[3].dims[1]](const stream& s, const call& c) {
          sparse_product_gradient(s, batch.rows(c), c.in(3), width, c.out());
        });
  }
};

struct sparse_matmul_kind {
  static constexpr std::string_view name = "sparse_matmul";
  static constexpr std::size_t operands = 4;
  std::vector<value_type> infer(type_list inputs) const {
    const std::size_t rows = require_rows(inputs);
    const value_type& table = inputs[3];
    if (table.type != dtype::float32 || table.dims.rank() != 2 || table.dims[1] == 0)
      throw shape_error("the table must be float32[columns of a row, width]");
    return {{shape{rows, table.dims[1]}, dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const std::vector<value> rows =
        d.apply(made(sparse_matmul_gradient_kind()), {d.inputs[0], d.inputs[1], d.inputs[2], *d.dy[0]});
    return {{}, {}, {}, sparse_rows{d.inputs[0], rows.front()}};
  }
  std::optional<rows_read> rows_of(value_list, std::size_t table) const {
    if (table != 3) return std::nullopt;
    return rows_read{0};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([batch = batch_sizes(t.inputs), table = t.inputs[3].dims](const stream& s, const call& c) {
      sparse_product(s, batch.rows(c), {c.in(3), table.size()}, table[1], c.out());
    });
  }
};

} // namespace

value matmul(const value& a, const value& b, std::source_location where) { return matmul(a, b, {}, where); }

value matmul(const value& a, const value& b, const matmul_options& options, std::source_location where) {
  const bool one_b = b.dims(where).rank() == 2 && options.a == as_is;
  const leading axes = one_b ? leading::more_rows : leading::batch;
  return a.owner(where).apply_one(made(matmul_kind{options, axes}), {a, b}, where);
}

value pairwise_dots(const value& x, std::source_location where) {
  return x.owner(where).apply_one(made(dots_kind()), {x}, where);
}
value sparse_matmul(const value& columns, const value& values, const value& offsets, const value& table,
                    std::source_location where) {
  return columns.owner(where).apply_one(made(sparse_matmul_kind()), {columns, values, offsets, table}, where);
}

void add_product_kinds(operation_registry& to) {
  add_kinds(to, matmul_kind(), dots_kind(), dots_gradient_kind(), sparse_matmul_kind(),
            sparse_matmul_gradient_kind());
}

} // namespace mailgrad
