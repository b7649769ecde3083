#include <mailgrad/graph/models/layer_stack.hpp>

#include <mailgrad/graph/operations/cross_entropy.hpp>
#include <mailgrad/graph/operations/dropout.hpp>
#include <mailgrad/graph/operations/layer_norm.hpp>
#include <mailgrad/graph/operations/pooling.hpp>

#include <string>

namespace mailgrad {

namespace {

shape batched(std::size_t batch, const shape& sample) {
  std::vector<std::size_t> extents{batch};
  extents.insert(extents.end(), sample.begin(), sample.end());
  return shape(std::span<const std::size_t>(extents));
}

/// Adds layers to a graph, each to the result of the one before.
class stack_builder {
public:
  stack_builder(graph& g, const model_request& request) : graph_(g), request_(request) {
    if (request.nonzeros > 0) return;
    current_ = graph_.input("features", batched(request.batch, request.sample_dims));
  }

  void add(const layer& l) {
    ++count_;
    std::visit([this](const auto& one) { add_one(one); }, l);
  }

  const value& result() const {
    if (!current_) throw graph_error("a model of no layers cannot read sparse rows");
    return *current_;
  }

private:
  std::string name(const char* kind) const { return kind + std::to_string(count_); }

  void add_one(const dense_layer& l) {
    const std::size_t units = l.units.value_or(request_.classes);
    if (!current_) return add_sparse(l, units);
    const value x = current_->dims().rank() == 2 ? *current_ : flatten(*current_);
    current_ = dense(x, units, name("dense"), l.how);
  }

  void add_sparse(const dense_layer& l, std::size_t units) {
    const value columns = graph_.input("columns", {request_.nonzeros}, dtype::int32);
    const value values = graph_.input("values", {request_.nonzeros});
    const value offsets = graph_.input("offsets", {request_.batch + 1}, dtype::int32);
    current_ =
        sparse_dense(columns, values, offsets, request_.sample_dims.size(), units, name("dense"), l.how);
  }

  /// Images keep their axes; anything else has none that a window could slide over.
  const value& image(const std::string& who) const {
    if (current_ && current_->dims().rank() == 4) return *current_;
    throw graph_error("layer '" + who +
                      "' needs images of height x width x channels; what comes before it is " +
                      (current_ ? to_string(current_->dims()) : std::string("a row that is mostly zero")));
  }

  const value& any(const std::string& who) const {
    if (current_) return *current_;
    throw graph_error("layer '" + who + "' cannot read rows that are mostly zero; begin with a dense layer");
  }

  void add_one(const conv_layer& l) {
    const std::string who = name("conv");
    current_ = conv(image(who), l.filters, who, l.options);
  }

  void add_one(const pool_layer& l) {
    const pooling_options options{{l.size, l.size}, {l.stride, l.stride}, padding::valid()};
    const value& x = image(name("pool"));
    current_ = l.how == pool_layer::rule::largest ? max_pool(x, options) : average_pool(x, options);
  }

  void add_one(const flatten_layer&) { current_ = flatten(any(name("flatten"))); }

  void add_one(const dropout_layer& l) {
    const value& x = any(name("dropout"));
    if (request_.purpose == phase::training) current_ = dropout(x, l.rate, request_.seed + count_);
  }

  void add_one(const layer_norm_layer&) {
    const std::string who = name("layer_norm");
    const value& x = any(who);
    const std::size_t width = x.dims().back();
    const value gamma = graph_.variable(who + "/gamma", {width}, initialiser::constant(1));
    const value beta = graph_.variable(who + "/beta", {width}, initialiser::zeros());
    current_ = layer_norm(x, gamma, beta);
  }

  graph& graph_;
  const model_request& request_;
  std::optional<value> current_; ///< none yet where the rows are sparse
  std::size_t count_ = 0;
};

} // namespace

model_outputs build_classifier(graph& g, const layer_stack& layers, const model_request& request) {
  stack_builder builder(g, request);
  for (const layer& l : layers) builder.add(l);
  const value logits = builder.result();
  if (!(logits.dims() == shape{request.batch, request.classes}))
    throw graph_error("the last layer gives " + to_string(logits.dims()) + ", but " +
                      std::to_string(request.batch) + " samples of " + std::to_string(request.classes) +
                      " classes need " + to_string(shape{request.batch, request.classes}));
  const value labels = g.input("labels", {request.batch}, dtype::int32);
  return {logits, cross_entropy(logits, labels)};
}

} // namespace mailgrad
