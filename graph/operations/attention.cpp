#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <limits>

namespace mailgrad {
namespace {

attention_shape shape_of(const shape& qkv, std::size_t heads) {
  return {qkv[0], qkv[1], heads, qkv[2] / 3 / heads};
}

/// The types of the result and of the probabilities.
std::vector<value_type> results_of(const value_type& x, std::size_t heads) {
  const shape& qkv = x.dims;
  if (x.type != dtype::float32) throw shape_error("queries, keys and values are float32");
  if (qkv.rank() != 3) throw shape_error("expected batch x window x 3 * width");
  if (heads == 0) throw shape_error("there must be a head");
  if (qkv[2] == 0 || heads > qkv[2] || qkv[2] % (3 * heads) != 0)
    fail_with<shape_error>(
        "a last extent of 3 * {0} * n is expected, for queries, keys and values of {0} heads", heads);
  return {{{qkv[0], qkv[1], qkv[2] / 3}, dtype::float32}, {{qkv[0], heads, qkv[1], qkv[1]}, dtype::float32}};
}

class attention_executable : public executable, public bfloat16_form {
public:
  attention_executable(const attention_shape& a, device_kind where)
      : a_(a), workspace_(attention_workspace_on(where, a)), keeps_less_(where == device_kind::cuda) {}
  std::size_t scratch_bytes() const noexcept override { return workspace_.scratch_bytes; }
  std::optional<std::size_t> kept_bytes(std::size_t i) const noexcept override {
    if (i == 1 && keeps_less_) return workspace_.kept_floats * sizeof(float);
    return std::nullopt;
  }
  void run(const stream& s, const call& c) override {
    mailgrad::causal_attention(s, a_, operand(c, 0), result(c, 0), c.out(1), c.scratch);
  }
  bool needs(std::size_t) const override { return true; }
  bool may_write(std::size_t i) const override { return i == 0; }

private:
  attention_shape a_;
  attention_workspace workspace_;
  bool keeps_less_;
};

class attention_gradient_executable : public executable, public bfloat16_form {
public:
  attention_gradient_executable(const attention_shape& a, device_kind where)
      : a_(a), scratch_(attention_workspace_on(where, a).gradient_scratch_bytes),
        keeps_less_(where == device_kind::cuda) {}
  std::size_t scratch_bytes() const noexcept override { return scratch_; }
  bool reads_kept(std::size_t i) const noexcept override { return i == 2 && keeps_less_; }
  void run(const stream& s, const call& c) override {
    causal_attention_gradient(s, a_, operand(c, 0), operand(c, 1), c.in(2), operand(c, 3), result(c, 0),
                              c.scratch);
  }
  /// The operands of its products: queries, keys and values, and the gradient of the result.
  bool needs(std::size_t i) const override { return i == 0 || i == 3; }
  bool may_read(std::size_t i) const override { return i != 2; }
  bool may_write(std::size_t) const override { return true; }

private:
  attention_shape a_;
  std::size_t scratch_;
  bool keeps_less_;
};

/// 0 where row i may look at column j <= i, and otherwise so low that its softmax is 0.
std::string mask_in(onnx_nodes& to, std::size_t window) {
  std::vector<float> mask(window * window, 0);
  for (std::size_t i = 0; i < window; ++i)
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(i * window + i + 1),
              mask.begin() + static_cast<std::ptrdiff_t>((i + 1) * window),
              std::numeric_limits<float>::lowest());
  const auto extent = static_cast<std::int64_t>(window);
  return to.numbers({extent, extent}, std::move(mask));
}

struct attention_attributes {
  std::size_t heads = 1;
  void keep(archive& a) { keep_attributes(a, "heads", heads); }
};

/// Inputs: qkv, the result, the probabilities, the gradient of the result. Output: the gradient of qkv.
struct attention_gradient_kind : attention_attributes {
  static constexpr std::string_view name = "causal_attention_gradient";
  static constexpr std::size_t operands = 4;
  std::vector<value_type> infer(type_list inputs) const {
    const std::vector<value_type> results = results_of(inputs[0], heads);
    if (inputs[1] != results[0] || inputs[2] != results[1] || inputs[3] != results[0])
      throw shape_error("expected the result, the probabilities and the gradient of the result");
    return {inputs[0]};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return std::make_unique<attention_gradient_executable>(shape_of(t.inputs[0].dims, heads), t.where);
  }
};

/// Outputs: the result, and the probabilities, which only the gradient reads.
struct attention_kind : attention_attributes {
  static constexpr std::string_view name = "causal_attention";
  static constexpr std::size_t operands = 1;
  std::vector<value_type> infer(type_list inputs) const { return results_of(inputs[0], heads); }
  std::vector<adjoint> gradient(const differentiated& d) const {
    return {d.apply(made(attention_gradient_kind{*this}), {d.inputs[0], d.outputs[0], d.outputs[1], *d.dy[0]})
                .front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return std::make_unique<attention_executable>(shape_of(t.inputs[0].dims, heads), t.where);
  }
  std::string describe() const { return fmt::format("{} heads", heads); }
  /// Two products of each window with itself; the mask hides half of each.
  double more_work(type_list, type_list outputs) const {
    const shape& y = outputs[0].dims;
    return static_cast<double>(y.size()) * static_cast<double>(y[1]);
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    using list = std::vector<std::int64_t>;
    if (inputs[0].varies[1] || inputs[0].varies[2]) return {};
    const attention_shape a = shape_of(inputs[0].type.dims, heads);
    const auto window = static_cast<std::int64_t>(a.window), width = static_cast<std::int64_t>(a.width());
    const list five{-1, window, 3, static_cast<std::int64_t>(a.heads),
                    static_cast<std::int64_t>(a.head_width)};
    const std::string parts = to.add("Reshape", {inputs[0].name, to.whole_numbers(five)});
    const std::string in_front = to.add("Transpose", {parts}, {{"perm", list{2, 0, 3, 1, 4}}});
    const auto part = [&](std::int64_t which) { // batch, heads, window, head width
      return to.add("Gather", {in_front, to.whole_number(which)}, {{"axis", 0}});
    };
    const std::string queries = part(0), values = part(2);
    const std::string keys = to.add("Transpose", {part(1)}, {{"perm", list{0, 1, 3, 2}}});
    const std::string scale = to.number(1 / std::sqrt(static_cast<float>(a.head_width)));
    const std::string scores = to.add("Mul", {to.add("MatMul", {queries, keys}), scale});
    const std::string masked = to.add("Add", {scores, mask_in(to, a.window)});
    const std::string means = to.add("MatMul", {to.add("Softmax", {masked}, {{"axis", -1}}), values});
    const std::string joined = to.add("Transpose", {means}, {{"perm", list{0, 2, 1, 3}}});
    return {to.add("Reshape", {joined, to.whole_numbers({-1, window, width})})};
  }
};

} // namespace

value causal_attention(const value& qkv, std::size_t heads, std::source_location where) {
  return qkv.owner(where).apply_one(made(attention_kind{{heads}}), {qkv}, where);
}

void add_attention_kinds(operation_registry& to) {
  add_kinds(to, attention_kind(), attention_gradient_kind());
}

} // namespace mailgrad
