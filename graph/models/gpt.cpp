#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/gpt.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mailgrad {
namespace {

/// The standard deviation of the first weights, as in GPT-2.
constexpr float deviation = 0.02F;

class gpt_builder {
public:
  gpt_builder(graph& g, const gpt_options& options, const model_request& request)
      : g_(g), o_(options), request_(request) {}

  model_outputs build() {
    const shape window{request_.batch, request_.sample_dims[0]};
    const value tokens = g_.input("features", window, dtype::int32);
    const value labels = g_.input("labels", window, dtype::int32);
    const value table = g_.variable("tokens/table", {request_.classes, o_.width}, normal(deviation));
    const value positions = g_.variable("positions/table", {window[1], o_.width}, normal(deviation));
    // A batch reads most rows of this small table. Reading it through a view makes its gradient dense.
    value x = drop(gather(reshape(table, table.dims()), tokens) + positions);
    for (std::size_t i = 1; i <= o_.layers; ++i) x = block(x, i);
    x = layer_norm(x, "norm");
    const value logits =
        o_.tied ? matmul(x, table, {.b = operand_order::transposed})
                : matmul(x, g_.variable("logits/weights", {o_.width, request_.classes}, normal(deviation)));
    return {logits, cross_entropy(logits, labels)};
  }

private:
  static initialiser normal(float how_wide) { return initialiser::normal(0, how_wide); }

  value block(const value& x, std::size_t number) {
    const name_scope here(g_, fmt::format("block{}", number));
    const value attended = x + drop(attention(layer_norm(x, "norm1")));
    return attended + drop(mlp(layer_norm(attended, "norm2")));
  }

  value attention(const value& x) {
    const name_scope here(g_, "attention");
    const value qkv = linear(x, 3 * o_.width, "qkv", deviation);
    return linear(causal_attention(qkv, o_.heads), o_.width, "projection", of_residual());
  }

  value mlp(const value& x) {
    const name_scope here(g_, "mlp");
    const auto [product, bias] = parts_of_linear(x, 4 * o_.width, "up", deviation);
    return linear(bias_gelu(product, bias), o_.width, "down", of_residual());
  }

  /// The deviation for layers whose result is added to the residual stream. There are 2 * layers such
  /// additions, so these weights start smaller.
  float of_residual() const { return deviation / std::sqrt(2 * static_cast<float>(o_.layers)); }

  struct product_and_bias {
    value product, bias;
  };
  product_and_bias parts_of_linear(const value& x, std::size_t units, const std::string& name,
                                   float how_wide) {
    const value weights = g_.variable(name + "/weights", {x.dims().back(), units}, normal(how_wide));
    return {matmul(x, weights), g_.variable(name + "/bias", {units}, initialiser::zeros())};
  }

  value linear(const value& x, std::size_t units, const std::string& name, float how_wide) {
    const auto [product, bias] = parts_of_linear(x, units, name, how_wide);
    return add_bias(product, bias);
  }

  value drop(const value& x) {
    ++dropouts_;
    if (o_.dropout == 0 || request_.purpose == phase::evaluation) return x;
    return dropout(x, o_.dropout, request_.seed + (dropouts_ << 32));
  }

  graph& g_;
  const gpt_options& o_;
  const model_request& request_;
  std::uint64_t dropouts_ = 0;
};

} // namespace

gpt_options read_gpt_options(settings& s) {
  constexpr std::size_t most = 1 << 16; // more is a typing error
  gpt_options o;
  o.layers = s.take_whole("layers", o.layers, 1, 1000);
  o.width = s.take_whole("width", o.width, 1, most);
  o.heads = s.take_whole("heads", o.heads, 1, most);
  o.dropout = s.take_rate("dropout", o.dropout);
  o.tied = s.take_yes("tied", o.tied);
  if (o.width % o.heads != 0)
    s.fail(fmt::format("a width of {} cannot be shared by {} heads; choose a multiple of the heads", o.width,
                       o.heads));
  return o;
}

model_outputs build_gpt(graph& g, const gpt_options& options, const model_request& request) {
  if (request.features != feature_kind::tokens || request.sample_dims.rank() != 1)
    throw graph_error("gpt reads windows of tokens, as a text has; these data are not");
  return gpt_builder(g, options, request).build();
}

} // namespace mailgrad
