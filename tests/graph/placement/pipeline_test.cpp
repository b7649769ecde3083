#include <mailgrad/graph/placement/pipeline.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/segment_runner.hpp>
#include <mailgrad/tests/support/two_devices.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::cpu0;
using test::cpu1;
using test::random_tensor;
using test::segment_runner;
using testing::HasSubstr;
using testing::ThrowsMessage;

model_request request_of(std::size_t batch, std::vector<device> devices) {
  model_request r;
  r.sample_dims = {20};
  r.classes = 5;
  r.batch = batch;
  r.devices = std::move(devices);
  return r;
}

/// Loss and all gradients, in the order of the variables.
std::vector<float> computed(const model_function& model, const model_request& request) {
  graph g;
  const model_outputs made = model(g, request);
  const auto variables = g.variables();
  std::vector<value> wanted{made.loss};
  for (const adjoint& a : gradients(made.loss, variables)) wanted.push_back(*a.dense);
  segment_runner run(g, placement(g, request.devices.front()), wanted);
  const tensor features = random_tensor({request.batch, 20}, 1);
  tensor labels({request.batch}, dtype::int32);
  for (std::size_t i = 0; i < request.batch; ++i)
    labels.values<std::int32_t>()[i] = static_cast<std::int32_t>(i % 5);
  for (const value& v : g.inputs()) run.bind(v, g.of(v).name == "labels" ? labels.data() : features.data());
  std::vector<tensor> weights;
  for (const value& v : variables) weights.push_back(random_tensor(v.dims(), 7 + weights.size()));
  for (std::size_t i = 0; i < variables.size(); ++i) run.bind(variables[i], weights[i].data());
  run.run();
  std::vector<float> all;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (const float f : run.result(i, wanted[i].dims().size())) all.push_back(f);
  return all;
}

class Pipeline : public test::on_two_devices {};

TEST_F(Pipeline, CutsEqualLayersIntoEqualHalves) {
  graph g;
  value x = g.input("x", {64, 32});
  std::vector<value> layers;
  for (int i = 0; i < 6; ++i)
    layers.push_back(x = dense(x, 32, "layer" + std::to_string(i), activation::tanh));
  const value loss = reduce_mean(x);
  place_in_stages(g, stages_of(g, loss, 2), std::vector{cpu0, cpu1});
  const placement places(g, cpu0);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(places.of(layers[i].node()), i < 3 ? cpu0 : cpu1) << "layer " << i;
  EXPECT_NO_THROW(require_one_way(g, places, loss));
}

TEST_F(Pipeline, GivesTheLossAndGradientsOfOneDeviceToTheBit) {
  const model_function mlp = find_model("mlp:hidden=32x16");
  EXPECT_EQ(computed(pipelined(mlp), request_of(12, {cpu0, cpu1})), computed(mlp, request_of(12, {cpu0})));
}

TEST_F(Pipeline, CutsMicroBatchesOfAllSizesAlike) {
  const model_function narrow = find_model("mlp:hidden=8x10"); // its best cuts for 4 samples and for 5 differ
  const auto places_of = [&](std::size_t batch) {
    graph g;
    model_request r = request_of(batch, {cpu0, cpu1});
    r.sample_dims = {2};
    r.classes = 2;
    pipelined(narrow)(g, r);
    std::vector<std::string> names;
    const placement places(g, cpu0);
    for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
      if (std::holds_alternative<operation_node>(g.nodes()[id].what))
        names.push_back(to_string(places.of(id)));
    return names;
  };
  for (std::size_t batch = 1; batch < 20; ++batch) EXPECT_EQ(places_of(batch), places_of(64)) << batch;
}

TEST_F(Pipeline, RefusesAModelThatDependsOnItsBatch) {
  const model_function odd = [](graph& g, const model_request& r) {
    value x = g.input("features", {r.batch, 2});
    if (r.batch % 2 == 1) x = x * 1.0F;
    const value y = dense(x, r.classes, "layer");
    return model_outputs{y, reduce_mean(y)};
  };
  graph g;
  EXPECT_THAT(
      [&] {
        pipelined(odd)(g, request_of(3, {cpu0, cpu1}));
      },
      ThrowsMessage<graph_error>(HasSubstr("place them by scopes")));
}

TEST_F(Pipeline, RefusesMoreStagesThanOperations) {
  graph g;
  const value x = g.input("x", {});
  const value loss = x + 1.0F;
  EXPECT_THAT([&] { stages_of(g, loss, 2); },
              ThrowsMessage<graph_error>(HasSubstr("a pipeline of 2 stages from a model of 1 operations")));
}

TEST_F(Pipeline, ReplicatesAModelWithTheLossAndGradientsOfOneDevice) {
  const model_function mlp = find_model("mlp:hidden=32x16");
  for (const std::size_t batch : {12U, 13U, 1U})
    EXPECT_THAT(computed(replicated(mlp), request_of(batch, {cpu0, cpu1})),
                testing::Pointwise(testing::FloatNear(2e-6F), computed(mlp, request_of(batch, {cpu0}))))
        << "batch " << batch;
}

TEST_F(Pipeline, RefusesToReplicateSparseRows) {
  graph g;
  model_request r = request_of(8, {cpu0, cpu1});
  r.nonzeros = 40;
  EXPECT_THAT([&] { replicated(find_model("softmax"))(g, r); },
              ThrowsMessage<graph_error>(HasSubstr("rows that are mostly zero cannot be split")));
}

} // namespace
} // namespace mailgrad
