#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/partition.hpp>
#include <mailgrad/graph/placement/pipeline.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <span>

namespace mailgrad {
namespace {

using test::cpu0, test::cpu1, test::feed, test::feeds, test::is_refused, test::is_refused_here,
    test::random_tensor, test::tensor_of;
using testing::ElementsAre;

/// What `make` adds to a graph, placed on a device.
template <class Make>
value on(graph& g, device where, const Make& make) {
  const device_scope scope(g, where);
  return make();
}

/// Computes values of a placed graph segment by segment. Each segment has its own program and memory, as on
/// real devices.
class segment_runner {
public:
  segment_runner(const graph& g, const std::vector<value>& wanted, device fallback = cpu0)
      : wanted_(wanted), found_(wanted.size()) {
    std::vector<wanted_value> list;
    for (const value& v : wanted) list.push_back({v});
    segments_ = cut_into_segments(g, placement(g, fallback), list);
    for (const segment& s : segments_) {
      std::vector<value> fetches = s.exports;
      for (const std::size_t i : s.fetches) fetches.push_back(wanted[i]);
      programs_.push_back(std::make_unique<program>(g, fetches, s.imports));
    }
  }

  /// Sets the memory of an input or a variable.
  void bind(const value& source, const void* memory) {
    for (auto& p : programs_) p->bind(source, memory);
  }

  /// The wanted values, one behind the other.
  std::vector<float> run() {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      for (const value& v : segments_[i].imports) programs_[i]->bind(v, address_of(v));
      programs_[i]->run(host_stream{}, 0, [] {});
      for (std::size_t f = 0; f < segments_[i].fetches.size(); ++f)
        found_[segments_[i].fetches[f]] = programs_[i]->fetched(segments_[i].exports.size() + f);
    }
    std::vector<float> all;
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      for (const float f : std::span(static_cast<const float*>(found_[i]), wanted_[i].dims().size()))
        all.push_back(f);
    return all;
  }

  const std::vector<segment>& segments() const { return segments_; }

private:
  const void* address_of(const value& v) const {
    for (std::size_t i = 0; i < segments_.size(); ++i)
      for (std::size_t e = 0; e < segments_[i].exports.size(); ++e)
        if (segments_[i].exports[e] == v) return programs_[i]->fetched(e);
    return nullptr;
  }

  std::vector<segment> segments_;
  std::vector<std::unique_ptr<program>> programs_;
  std::vector<value> wanted_;
  std::vector<const void*> found_;
};

struct Placement : test::on_two_devices {
  graph g;
};

TEST_F(Placement, PutsOperationsOnTheDeviceOfTheInnermostScope) {
  const value x = g.input("x", {2, 2});
  value inner;
  const value outer = on(g, cpu1, [&] {
    {
      const device_scope second(g, "cpu:0");
      inner = relu(x);
    }
    return relu(inner);
  });
  const placement places(g, cpu0);
  EXPECT_EQ(places.of(inner.node()), cpu0);
  EXPECT_EQ(places.of(outer.node()), cpu1);
  EXPECT_THAT(places.devices(), ElementsAre(cpu0, cpu1));
}

TEST_F(Placement, PutsWhatHasNoScopeWhereItsLastOperandIs) {
  const value alone = relu(g.input("x", {2, 2})), there = on(g, cpu1, [&] { return relu(alone); });
  const value sum = alone + there; // on cpu:0 the devices would wait for each other
  const placement places(g, cpu0);
  EXPECT_EQ(places.of(alone.node()), cpu0);
  EXPECT_EQ(places.of(sum.node()), cpu1);
}

TEST_F(Placement, PutsGradientsWhereTheirForwardOperationIs) {
  const value x = g.input("x", {4, 3}), w = g.variable("w", {3, 2}, {}), u = g.variable("u", {2, 2}, {});
  const value h = on(g, cpu1, [&] { return matmul(x, w); }), y = on(g, cpu0, [&] { return matmul(h, u); });
  const auto adjoints = gradients(reduce_sum(y), std::vector{w, u});
  const placement places(g, cpu0);
  EXPECT_EQ(places.of(adjoints[0].dense->node()), cpu1);
  EXPECT_EQ(places.of(adjoints[1].dense->node()), cpu0);
}

TEST_F(Placement, RefusesADeviceThatIsNotThereNamingTheLine) {
  const device missing{device_kind::cpu, 9999};
  EXPECT_THAT([&] { device_scope(g, missing); },
              is_refused_here("cpu:9999 is not available", "this machine has cpu:0"));
  EXPECT_THAT([&] { device_scope(g, "gpu:0"); }, is_refused_here("expected cpu:N or cuda:N"));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(g.place()));
}

TEST_F(Placement, RefusesAForwardPassThatComesBackToADevice) {
  const value x = g.input("x", {2, 2}), a = on(g, cpu0, [&] { return relu(x); });
  const value b = on(g, cpu1, [&] { return tanh(a); }), one_way = reduce_sum(b);
  EXPECT_NO_THROW(require_one_way(g, placement(g, cpu0), one_way));
  const value there_and_back = reduce_sum(on(g, cpu0, [&] { return relu(b); }));
  EXPECT_THAT([&] { require_one_way(g, placement(g, cpu0), there_and_back); },
              is_refused("placement_test.cpp:", "relu on cpu:0 reads the tanh of placement_test.cpp:",
                         "place it on cpu:1 too"));
}

TEST_F(Placement, RefusesAVariableOfTwoDevicesForHogwild) {
  const value x = g.input("x", {2, 2}), w = g.variable("layer/w", {2, 2}, {});
  const value y = on(g, cpu0, [&] { return matmul(x, w); }), fine = reduce_sum(y);
  EXPECT_NO_THROW(require_variables_apart(g, placement(g, cpu0), fine));
  const value loss = reduce_sum(on(g, cpu1, [&] { return matmul(y, w); }));
  EXPECT_THAT([&] { require_variables_apart(g, placement(g, cpu0), loss); },
              is_refused("variable 'layer/w' is read by the matmul of placement_test.cpp:",
                         "on cpu:1 and by the matmul", "take another policy"));
}

TEST_F(Placement, RefusesADeviceThatItsWorkerDoesNotHave) {
  const value x = g.input("x", {2, 2});
  on(g, cpu1, [&] { return relu(x); });
  const placement places(g, cpu0);
  EXPECT_NO_THROW(require_devices(g, places, std::vector{cpu0, cpu1}));
  EXPECT_THAT([&] { require_devices(g, places, std::vector{cpu0}); },
              is_refused("placement_test.cpp:", "relu is placed on cpu:1", "it has cpu:0"));
}

// The three below are from the project's list of things that must be exactly so.
TEST_F(Placement, MultipliesMatricesThatLieOnTwoDevices) {
  for (const device second : {cpu0, cpu1}) {
    graph fresh;
    const value left = fresh.constant(tensor_of({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    const value right = fresh.constant(tensor_of({3, 1}, {1, 1, 2}));
    const value a = on(fresh, cpu0, [&] { return left * 1.0F; });
    const value product = on(fresh, second, [&] { return matmul(a, right * 1.0F); });
    segment_runner cut(fresh, {product});
    EXPECT_EQ(cut.segments().size(), second == cpu1 ? 2U : 1U);
    EXPECT_THAT(cut.run(), ElementsAre(9, 21, 33, 45));
  }
}

TEST_F(Placement, CutsAChainOfTwoDevicesIntoThreeSegments) {
  const value x = g.input("x", {4, 3}), w = g.variable("w", {3, 5}, {}), u = g.variable("u", {5, 2}, {});
  const value hidden = on(g, cpu0, [&] { return relu(matmul(x, w)); });
  const value loss = on(g, cpu1, [&] {
    const value y = matmul(hidden, u);
    return reduce_mean(y * y);
  });
  const auto adjoints = gradients(loss, std::vector{w, u});
  const std::vector<value> wanted{loss, *adjoints[0].dense, *adjoints[1].dense};
  segment_runner cut(g, wanted);
  ASSERT_EQ(cut.segments().size(), 3U);
  const auto& [forward, both, backward] = std::tie(cut.segments()[0], cut.segments()[1], cut.segments()[2]);
  EXPECT_EQ(forward.where, cpu0);
  EXPECT_EQ(both.where, cpu1);
  EXPECT_EQ(backward.where, cpu0);
  EXPECT_THAT(both.imports, ElementsAre(hidden));
  EXPECT_THAT(both.reads, ElementsAre(0));
  EXPECT_THAT(backward.reads, testing::Contains(1));

  const feeds fed{
      {x, random_tensor({4, 3}, 1)}, {w, random_tensor({3, 5}, 2)}, {u, random_tensor({5, 2}, 3)}};
  for (const feed& f : fed) cut.bind(f.source, f.values->data());
  trial_run whole(wanted, fed);
  whole.run();
  std::vector<float> expected;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (const float f : whole.fetched(i)) expected.push_back(f);
  EXPECT_EQ(cut.run(), expected);
}

TEST_F(Placement, DeliversAValueBesideAnother) {
  const value x = g.input("x", {2}), a = on(g, cpu0, [&] { return relu(x); });
  const value b = on(g, cpu1, [&] { return tanh(a); });
  const std::vector<wanted_value> wanted{{a, b}, {b}};
  const auto segments = cut_into_segments(g, placement(g, cpu0), wanted);
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_THAT(segments[0].fetches, ElementsAre());
  EXPECT_THAT(segments[1].fetches, ElementsAre(0, 1));
}

constexpr device cpu2{device_kind::cpu, 2};

class PlacedSum : public ::testing::Test {
protected:
  /// Whether this machine has the device or not.
  value on(device where, const value& x) {
    const value made = relu(x);
    graph_.place_node(made.node(), where);
    return made;
  }
  value on(device where) { return on(where, x_); }
  std::vector<value> addends(const value& sum) const {
    return addends_on_devices(graph_, placement(graph_, cpu0), sum);
  }

  graph graph_;
  value x_ = graph_.input("x", {4, 3});
};

TEST_F(PlacedSum, IsTakenApartInTheOrderOfItsAddends) {
  const value a = on(cpu0), b = on(cpu1), c = on(cpu2);
  EXPECT_THAT(addends(a + b), ElementsAre(a, b));
  EXPECT_THAT(addends(b + a), ElementsAre(b, a));
  EXPECT_THAT(addends((a + b) + c), ElementsAre(a, b, c));
}

TEST_F(PlacedSum, KeepsWhatAnotherOrderWouldRoundDifferently) {
  const value a = on(cpu0), b = on(cpu1), c = on(cpu2), inner = b + c;
  EXPECT_THAT(addends(a + inner), ElementsAre(a, inner));
}

TEST_F(PlacedSum, StaysWholeWhereOneDeviceComputesTwoAddends) {
  const value a = on(cpu0), b = on(cpu0), c = on(cpu1), d = on(cpu0), same = a + b;
  EXPECT_THAT(addends(same), ElementsAre(same));
  EXPECT_THAT(addends(same + c), ElementsAre(same, c)) << "the first device adds up its own";
  const value twice = (a + c) + d;
  EXPECT_THAT(addends(twice), ElementsAre(twice));
}

TEST_F(PlacedSum, IsNoSumWhereValuesAreRepeatedOrNobodyComputesThem) {
  const value a = on(cpu0), c = on(cpu1), row = on(cpu1, graph_.input("row", {3}));
  const value broadcast = a + row, product = a * c, source = c + x_;
  for (const value& v : {broadcast, product, source, a}) EXPECT_THAT(addends(v), ElementsAre(v));
}

model_request request_of(std::size_t batch, std::vector<device> devices) {
  return {.sample_dims = {20}, .classes = 5, .batch = batch, .devices = std::move(devices)};
}

/// The gradients of all variables.
std::vector<value> dense_gradients(const value& loss) {
  std::vector<value> made;
  for (const adjoint& a : gradients(loss, loss.owner().variables())) made.push_back(*a.dense);
  return made;
}

/// Loss and all gradients, in the order of the variables.
std::vector<float> computed(const model_function& model, const model_request& request) {
  graph g;
  const model_outputs made = model(g, request);
  const auto variables = g.variables();
  std::vector<value> wanted = dense_gradients(made.loss);
  wanted.insert(wanted.begin(), made.loss);
  segment_runner cut(g, wanted, request.devices.front());
  const tensor features = random_tensor({request.batch, 20}, 1);
  tensor labels({request.batch}, dtype::int32);
  for (std::size_t i = 0; i < request.batch; ++i)
    labels.values<std::int32_t>()[i] = static_cast<std::int32_t>(i % 5);
  for (const value& v : g.inputs()) cut.bind(v, g.of(v).name == "labels" ? labels.data() : features.data());
  std::vector<tensor> weights;
  for (const value& v : variables) weights.push_back(random_tensor(v.dims(), 7 + weights.size()));
  for (std::size_t i = 0; i < variables.size(); ++i) cut.bind(variables[i], weights[i].data());
  return cut.run();
}

using Pipeline = Placement;

TEST_F(Pipeline, CutsEqualLayersIntoEqualHalves) {
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
    graph fresh;
    model_request r = request_of(batch, {cpu0, cpu1});
    r.sample_dims = {2};
    r.classes = 2;
    pipelined(narrow)(fresh, r);
    std::vector<std::string> names;
    const placement places(fresh, cpu0);
    for (std::uint32_t id = 0; id < fresh.nodes().size(); ++id)
      if (std::holds_alternative<operation_node>(fresh.nodes()[id].what))
        names.push_back(to_string(places.of(id)));
    return names;
  };
  for (std::size_t batch = 1; batch < 20; ++batch) EXPECT_EQ(places_of(batch), places_of(64)) << batch;
}

TEST_F(Pipeline, RefusesAModelThatDependsOnItsBatch) {
  const model_function odd = [](graph& built, const model_request& r) {
    value x = built.input("features", {r.batch, 2});
    if (r.batch % 2 == 1) x = x * 1.0F;
    const value y = dense(x, r.classes, "layer");
    return model_outputs{y, reduce_mean(y)};
  };
  EXPECT_THAT([&] { pipelined(odd)(g, request_of(3, {cpu0, cpu1})); }, is_refused("place them by scopes"));
}

TEST_F(Pipeline, RefusesMoreStagesThanOperations) {
  const value x = g.input("x", {}), loss = x + 1.0F;
  EXPECT_THAT([&] { stages_of(g, loss, 2); },
              is_refused("a pipeline of 2 stages from a model of 1 operations"));
}

TEST_F(Pipeline, ReplicatesAModelWithTheLossAndGradientsOfOneDevice) {
  const model_function mlp = find_model("mlp:hidden=32x16");
  for (const std::size_t batch : {12U, 13U, 1U})
    EXPECT_THAT(computed(replicated(mlp), request_of(batch, {cpu0, cpu1})),
                testing::Pointwise(testing::FloatNear(2e-6F), computed(mlp, request_of(batch, {cpu0}))))
        << "batch " << batch;
}

TEST_F(Pipeline, RefusesToReplicateSparseRows) {
  model_request r = request_of(8, {cpu0, cpu1});
  r.nonzeros = 40;
  EXPECT_THAT([&] { replicated(find_model("softmax"))(g, r); },
              is_refused("rows that are mostly zero cannot be split"));
}

using Replicate = Placement;

TEST_F(Replicate, SumsTwoTensorsToTheSameBitsOnOneDeviceAndTwo) {
  const tensor as = random_tensor({1000, 100}, 1), bs = random_tensor({1000, 100}, 2);
  const auto sum_on = [&](std::span<const device> devices) {
    graph fresh;
    const value a = fresh.input("a", {1000, 100}), b = fresh.input("b", {1000, 100});
    const auto sum = [](const named_values& in) { return in.at("a") + in.at("b"); };
    const value joined = replicate(sum, devices, {{"a", a}, {"b", b}});
    segment_runner cut(fresh, {joined});
    cut.bind(a, as.data());
    cut.bind(b, bs.data());
    return cut.run();
  };
  EXPECT_EQ(sum_on(two), sum_on(std::span(two).first(1)));
}

TEST_F(Replicate, GivesFirstDevicesTheRemainder) {
  EXPECT_THAT(batch_parts(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(batch_parts(2, 4), ElementsAre(1, 1));
  EXPECT_THAT(batch_parts(8, 2), ElementsAre(4, 4));
  EXPECT_THAT(batch_parts(0, 2), ElementsAre(0));
}

TEST_F(Replicate, SharesVariablesAndAgreesWithOneDeviceOnAnOddBatch) {
  const tensor xs = random_tensor({7, 3}, 1), ws = random_tensor({3, 2}, 2), bs = random_tensor({2}, 3);
  const auto gradients_on = [&](std::span<const device> devices) {
    graph fresh;
    const value x = fresh.input("x", {7, 3});
    const auto model = [](const named_values& in) { return dense(in.at("x"), 2, "layer", activation::tanh); };
    const value y = replicate(model, devices, {{"x", x}}), loss = reduce_mean(y * y);
    const auto variables = fresh.variables();
    EXPECT_EQ(variables.size(), 2U);
    std::vector<value> wanted = dense_gradients(loss);
    wanted.push_back(loss);
    segment_runner cut(fresh, wanted);
    cut.bind(x, xs.data());
    cut.bind(variables[0], ws.data());
    cut.bind(variables[1], bs.data());
    return cut.run();
  };
  EXPECT_THAT(gradients_on(two),
              testing::Pointwise(testing::FloatNear(1e-6F), gradients_on(std::span(two).first(1))));
}

TEST_F(Replicate, SplitsIntegersToo) {
  const value tokens = g.input("tokens", {5, 2}, dtype::int32);
  const auto look_up = [](const named_values& in) { return embedding(in.at("tokens"), 4, 3, "table"); };
  const value rows = replicate(look_up, two, {{"tokens", tokens}});
  EXPECT_EQ(rows.dims(), (shape{5, 2, 3}));
  const std::vector<std::int32_t> drawn{0, 3, 1, 2, 2, 0, 3, 1, 1, 0};
  const tensor table = random_tensor({4, 3}, 1), numbers = tensor_of({5, 2}, drawn);
  segment_runner cut(g, {rows});
  cut.bind(tokens, numbers.data());
  cut.bind(g.variables()[0], table.data());
  std::vector<float> expected;
  for (const std::int32_t row : drawn)
    for (std::size_t c = 0; c < 3; ++c)
      expected.push_back(table.values()[static_cast<std::size_t>(row) * 3 + c]);
  EXPECT_EQ(cut.run(), expected);
}

TEST_F(Replicate, RefusesInputsOfDifferentBatches) {
  const value a = g.input("a", {4, 2}), b = g.input("b", {5, 2});
  const auto first = [](const named_values& in) { return in.at("a"); };
  const named_values both{{"a", a}, {"b", b}};
  EXPECT_THAT([&] { replicate(first, two, both); },
              is_refused_here("input 'b' has a batch of 5", "'a' has one of 4"));
  EXPECT_THAT([&] { replicate(first, {}, {{"a", a}}); }, is_refused("no devices"));
  EXPECT_THAT([&] { replicate(first, two, {{"c", g.input("c", {})}}); }, is_refused("is a scalar"));
  const auto reduced = [](const named_values& in) { return reduce_sum(in.at("a")); };
  EXPECT_THAT([&] { replicate(reduced, two, {{"a", a}}); }, is_refused("its first extent must count them"));
  const auto mistyped = [](const named_values& in) { return in.at("aa"); };
  EXPECT_THAT([&] { replicate(mistyped, two, {{"a", a}}); }, is_refused("there is no value 'aa' among a"));
}

} // namespace
} // namespace mailgrad
