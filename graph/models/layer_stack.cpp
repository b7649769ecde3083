#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <map>

namespace mailgrad {
namespace {

shape followed_by(std::size_t first, const shape& rest) {
  std::vector<std::size_t> extents{first};
  extents.insert(extents.end(), rest.begin(), rest.end());
  return shape(extents);
}

/// Removes "layer_stack.cpp:83: " from a message, since a line of Mailgrad does not help the user who listed
/// the layers.
std::string without_our_line(const graph_error& e) {
  const std::string text = e.what();
  const std::string ours = "layer_stack.cpp:";
  return text.starts_with(ours) ? text.substr(text.find(": ") + 2) : text;
}

class stack_builder {
public:
  stack_builder(graph& g, const model_request& request) : graph_(g), request_(request) {
    if (reads_tokens())
      tokens_ = g.input("features", followed_by(request.batch, request.sample_dims), dtype::int32);
    if (reads_numbers()) current_ = g.input("features", followed_by(request.batch, request.sample_dims));
  }

  void add(const layer& l) {
    ++place_;
    std::visit(
        [this](const auto& one) {
          name_ = std::string(one.kind) + std::to_string(++counts_[one.kind]);
          try {
            current_ = result_of(one);
          } catch (const graph_error& e) {
            fail_with<graph_error>("layer {} ({}): {}", place_, name_, without_our_line(e));
          }
        },
        l);
  }

  model_outputs answer_with_loss() {
    if (!current_) throw graph_error("a model needs a layer that reads the samples");
    return request_.wanted == answer::a_number ? predict() : classify();
  }

private:
  model_outputs classify() {
    const shape labels = followed_by(request_.batch, reads_tokens() ? request_.sample_dims : shape{});
    std::vector<std::size_t> extents(labels.begin(), labels.end());
    extents.push_back(request_.classes);
    const shape wanted(extents);
    if (current_->dims() != wanted)
      fail_with<graph_error>("the last layer gives {} values, where {} classes need {}",
                             to_string(current_->dims()), request_.classes, to_string(wanted));
    return {*current_, cross_entropy(*current_, graph_.input("labels", labels, dtype::int32))};
  }

  model_outputs predict() {
    if (reads_tokens()) throw graph_error("of tokens a model predicts the next one, not a number");
    const shape wanted{request_.batch, request_.outputs()};
    if (current_->dims() != wanted)
      fail_with<graph_error>("the last layer gives {} values, where {} {}", to_string(current_->dims()),
                             request_.outputs() == 1 ? "a number for each sample needs"
                                                     : "the numbers for each sample need",
                             to_string(wanted));
    const value targets = graph_.input("labels", followed_by(request_.batch, request_.target_dims));
    return {*current_, mean_squared_error(reshape(*current_, targets.dims()), targets)};
  }

  bool reads_tokens() const { return request_.features == feature_kind::tokens; }
  bool reads_numbers() const { return !reads_tokens() && request_.nonzeros == 0; }

  const value& before() const {
    if (current_) return *current_;
    throw graph_error(reads_tokens()
                          ? "tokens are read by an embedding, which must come first"
                          : "rows that are mostly zero are read by a dense layer, which must come first");
  }

  value result_of(const dense_layer& l) {
    const std::size_t units = l.units.value_or(request_.outputs());
    if (!current_ && !reads_tokens()) return sparse_result(l, units);
    const bool image = before().dims().rank() > 2 && !reads_tokens();
    return dense(image ? flatten(before()) : before(), units, name_, l.how);
  }

  value sparse_result(const dense_layer& l, std::size_t units) {
    const value columns = graph_.input("columns", {request_.nonzeros}, dtype::int32);
    const value values = graph_.input("values", {request_.nonzeros});
    const value offsets = graph_.input("offsets", {request_.batch + 1}, dtype::int32);
    return sparse_dense(columns, values, offsets, request_.sample_dims.size(), units, name_, l.how);
  }

  value result_of(const conv_layer& l) { return conv(before(), l.filters, name_, l.options); }

  value result_of(const pool_layer& l) {
    const pooling_options options{{l.size, l.size}, {l.stride, l.stride}, padding::valid()};
    return l.how == pool_layer::rule::largest ? max_pool(before(), options) : average_pool(before(), options);
  }

  value result_of(const embedding_layer& l) {
    if (!tokens_ || current_) throw graph_error("an embedding reads tokens, and comes first");
    return embedding(*tokens_, request_.classes, l.width, name_);
  }

  value result_of(const flatten_layer&) { return flatten(before()); }

  /// Each draws from a seed of its own.
  value result_of(const dropout_layer& l) {
    if (request_.purpose == phase::evaluation) return before();
    return dropout(before(), l.rate, request_.seed + (std::uint64_t{place_} << 32));
  }

  value result_of(const layer_norm_layer&) { return layer_norm(before(), name_); }

  graph& graph_;
  const model_request& request_;
  std::optional<value> tokens_;
  std::optional<value> current_; ///< unset before the first layer if samples are tokens or sparse rows
  std::map<std::string_view, std::size_t> counts_;
  std::string name_; ///< name of the layer that is being added
  std::size_t place_ = 0;
};

} // namespace

model_outputs build_classifier(graph& g, const layer_stack& layers, const model_request& request) {
  stack_builder builder(g, request);
  for (const layer& l : layers) builder.add(l);
  return builder.answer_with_loss();
}

} // namespace mailgrad
