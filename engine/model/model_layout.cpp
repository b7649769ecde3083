#include <mailgrad/engine/model/model_layout.hpp>

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/variable_union.hpp>

#include <vector>

namespace mailgrad {

parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards,
                         shard_cuts where) {
  variable_union all;
  request.batch = 1;
  for (request.worker = 0; request.worker < request.workers; ++request.worker) {
    graph g;
    const model_outputs outputs = build_fitting(build, g, request);
    const std::vector<value> variables = g.variables();
    all.add(g, gradients(outputs.loss, variables), request.worker);
  }
  return all.lay_out(shards, where);
}

} // namespace mailgrad
