#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/graph/models/quadratic_model.hpp>

namespace mailgrad {
namespace {

constexpr std::array<std::string_view, 2> form_names{"diagonal", "chain"};
constexpr std::array<std::string_view, 2> noise_form_names{"each", "common"};
constexpr double beyond_any = 1e30; ///< of a setting, since float32 ends soon after

} // namespace

model_outputs build_quadratic(graph& g, const quadratic_model_options& options,
                              const model_request& request) {
  if (request.features == feature_kind::tokens)
    throw graph_error("a quadratic reads no texts; train it on samples with numbers or classes");
  if (request.wanted == answer::a_number && request.target_dims.size() != 1)
    throw graph_error("a quadratic has one centre for all coordinates, so a sample has one number as target");
  quadratic_options function = options.function;
  function.seed = request.seed;
  if (request.purpose == phase::evaluation) function.noise = 0;
  const bool chain = function.form == quadratic_form::chain;
  const value x = g.variable("x", {options.dimension}, initialiser::constant(chain ? 0 : options.start));
  std::optional<value> targets;
  if (request.wanted == answer::a_number && !chain) targets = g.input("labels", {request.batch});
  const quadratic_result y = quadratic(x, targets, request.batch, request.outputs(), function);
  return {y.means, y.loss};
}

quadratic_model_options take_quadratic_options(settings& s) {
  quadratic_model_options o;
  o.dimension = s.take_whole("dimension", o.dimension, 1, largest_extent);
  o.function.curvature = s.take_number("curvature", o.function.curvature, 0, beyond_any);
  o.function.condition = s.take_number("condition", o.function.condition, 1, beyond_any);
  o.function.noise = s.take_number("noise", o.function.noise, 0, beyond_any);
  o.function.noise_of = static_cast<noise_form>(s.take_word("noise-form", 0, noise_form_names));
  o.start = static_cast<float>(s.take_number("start", o.start, -beyond_any, beyond_any));
  o.function.form = static_cast<quadratic_form>(s.take_word("form", 0, form_names));
  return o;
}

} // namespace mailgrad
