#include <mailgrad/graph/models/dlrm.hpp>
#include <mailgrad/graph/models/layer_stack.hpp>

#include <cmath>

namespace mailgrad {
namespace {

constexpr std::array<std::string_view, 2> interaction_names{"dot", "concat"};
constexpr std::size_t vectors_axis = 1;

value hidden_layers(value x, const std::vector<std::size_t>& widths, const std::string& name) {
  for (std::size_t i = 0; i < widths.size(); ++i)
    x = dense(x, widths[i], name + std::to_string(i + 1), activation::relu);
  return x;
}

std::string numbered(const char* name, std::size_t layers_before) {
  return name + std::to_string(layers_before + 1);
}

/// Looks up the embeddings of all categories: float32[batch, categories, width].
value embeddings(graph& g, const dlrm_options& options, const model_request& request) {
  const std::size_t count = request.categories.size();
  const value categories = g.input("categories", {request.batch, count}, dtype::int32);
  std::vector<value> tables;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t rows = request.categories[i];
    const float limit = 1 / std::sqrt(static_cast<float>(rows));
    tables.push_back(g.variable(numbered("category", i) + "/table", {rows, options.width},
                                initialiser::uniform(-limit, limit)));
  }
  return gather_tables(tables, categories);
}

/// Turns the numbers of a sample into one more vector, float32[batch, width]; nothing if it has no numbers.
std::optional<value> numbers(graph& g, const dlrm_options& options, const model_request& request) {
  const std::size_t count = request.sample_dims.size();
  if (count == 0) return std::nullopt;
  const value x = hidden_layers(g.input("features", {request.batch, count}), options.bottom, "bottom");
  return dense(x, options.width, numbered("bottom", options.bottom.size()), activation::relu);
}

value interactions(const dlrm_options& options, const model_request& request, const value& categories,
                   const std::optional<value>& bottom) {
  value vectors = categories;
  if (bottom) {
    const value one_more = reshape(*bottom, {request.batch, 1, options.width});
    vectors = concat(std::array{one_more, categories}, vectors_axis);
  }
  if (options.how == interaction::concat) return flatten(vectors);
  const value dots = pairwise_dots(vectors);
  return bottom ? concat(std::array{*bottom, dots}, 1) : dots;
}

value loss_of(graph& g, const value& answers, const model_request& request) {
  if (request.wanted == answer::a_class)
    return cross_entropy(answers, g.input("labels", {request.batch}, dtype::int32));
  return mean_squared_error(reshape(answers, {request.batch}), g.input("labels", {request.batch}));
}

} // namespace

model_outputs build_dlrm(graph& g, const dlrm_options& options, const model_request& request) {
  if (request.categories.empty())
    throw graph_error("a recommender reads categories, and the samples of this data set have none");
  const value vectors = embeddings(g, options, request);
  const value met = interactions(options, request, vectors, numbers(g, options, request));
  const value top = hidden_layers(met, options.top, "top");
  const value answers = dense(top, request.outputs(), numbered("top", options.top.size()));
  return {answers, loss_of(g, answers, request)};
}

dlrm_options take_dlrm_options(settings& s) {
  dlrm_options o;
  o.width = s.take_whole("width", o.width, 1, largest_extent);
  o.bottom = s.take_widths("bottom", o.bottom, largest_extent);
  o.top = s.take_widths("top", o.top, largest_extent);
  o.how = static_cast<interaction>(
      s.take_word("interaction", static_cast<std::size_t>(o.how), interaction_names));
  return o;
}

} // namespace mailgrad
