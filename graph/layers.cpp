#include <mailgrad/graph/layers.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <cmath>

namespace mailgrad {
namespace {

initialiser first_weights(std::size_t fan_in, std::size_t fan_out, activation how) {
  return how == activation::relu || how == activation::gelu ? initialiser::he(fan_in)
                                                            : initialiser::glorot(fan_in, fan_out);
}

value bias(graph& g, std::size_t units, const std::string& name, std::source_location where) {
  return g.variable(name + "/bias", {units}, initialiser::zeros(), where);
}

/// Adds the bias and applies the activation. For relu and gelu one kernel does both in one pass.
value finish(const value& x, const value& b, activation how, std::source_location where) {
  if (how == activation::relu) return bias_relu(x, b, where);
  if (how == activation::gelu) return bias_gelu(x, b, where);
  return activate(add_bias(x, b, where), how, where);
}

[[noreturn]] void fail(std::string_view layer, const char* wants, const value& x,
                       std::source_location where) {
  fail_with<graph_error>("{}: {} takes {}, not {}", line_of(where), layer, wants, to_string(x.type()));
}

} // namespace

value activate(const value& x, activation how, std::source_location where) {
  switch (how) {
  case activation::relu:
    return relu(x, where);
  case activation::gelu:
    return gelu(x, where);
  case activation::tanh:
    return tanh(x, where);
  case activation::sigmoid:
    return sigmoid(x, where);
  case activation::none:
    break;
  }
  return x;
}

value dense(const value& x, std::size_t units, const std::string& name, activation how,
            std::source_location where) {
  if (x.dims(where).rank() < 2) fail(name, "rows of numbers", x, where);
  graph& g = x.owner();
  const std::size_t in = x.dims().back();
  const value weights = g.variable(name + "/weights", {in, units}, first_weights(in, units, how), where);
  const value y = matmul(x, weights, where);
  return finish(y, bias(g, units, name, where), how, where);
}

value sparse_dense(const value& columns, const value& values, const value& offsets, std::size_t in,
                   std::size_t units, const std::string& name, activation how, std::source_location where) {
  graph& g = columns.owner(where);
  const value weights = g.variable(name + "/weights", {in, units}, first_weights(in, units, how), where);
  const value y = sparse_matmul(columns, values, offsets, weights, where);
  return finish(y, bias(g, units, name, where), how, where);
}

value conv(const value& x, std::size_t filters, const std::string& name, const conv_options& options,
           std::source_location where) {
  if (x.dims(where).rank() != 4) fail(name, "images of height x width x channels", x, where);
  graph& g = x.owner();
  const std::size_t in = x.dims()[3];
  const std::size_t pixels = options.window[0] * options.window[1];
  const value weights = g.variable(name + "/weights", {options.window[0], options.window[1], in, filters},
                                   first_weights(pixels * in, pixels * filters, options.how), where);
  const value y = conv2d(x, weights, {options.stride, options.pad}, where);
  return finish(y, bias(g, filters, name, where), options.how, where);
}

value embedding(const value& indices, std::size_t size, std::size_t width, const std::string& name,
                std::source_location where) {
  const float deviation = 1.0F / std::sqrt(static_cast<float>(width));
  const value table =
      indices.owner(where).variable(name + "/table", {size, width}, initialiser::normal(0, deviation), where);
  return gather(table, indices, where);
}

value layer_norm(const value& x, const std::string& name, std::source_location where) {
  if (x.dims(where).rank() == 0) fail(name, "rows of numbers", x, where);
  graph& g = x.owner();
  const shape row{x.dims().back()};
  const value gamma = g.variable(name + "/gamma", row, initialiser::constant(1), where);
  const value beta = g.variable(name + "/beta", row, initialiser::zeros(), where);
  return layer_norm(x, gamma, beta, 1e-5F, where);
}

value flatten(const value& x, std::source_location where) {
  if (x.dims(where).size() == 0 || x.dims().rank() == 0) fail("flatten", "samples of numbers", x, where);
  const std::size_t batch = x.dims()[0];
  return reshape(x, {batch, x.dims().size() / batch}, where);
}

} // namespace mailgrad
