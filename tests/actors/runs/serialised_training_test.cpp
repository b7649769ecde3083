#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>

#include <mutex>

// Whole runs with a model that came as bytes end with the same weights as with the function that built it.

namespace mailgrad::testing {
namespace {

using ::testing::HasSubstr, ::testing::ThrowsMessage;

/// Passes requests on to a model, and keeps the graph of each.
class asked_graphs {
public:
  model_function passing_on(model_function model) {
    return [this, model = std::move(model)](graph& g, const model_request& r) {
      keep(model, r);
      return model(g, r);
    };
  }
  /// What a machine without the code of the model gets.
  std::vector<std::byte> bytes() const { return write_model(graphs_); }

private:
  void keep(const model_function& model, const model_request& r) {
    const std::lock_guard lock(mutex_); // workers ask from threads of their own
    const auto same = [&](const model_graph& g) { return same_graph(g.request, r); };
    if (std::ranges::none_of(graphs_, same)) graphs_.push_back(graph_for(model, r));
  }

  std::mutex mutex_;
  std::vector<model_graph> graphs_;
};

void expect_same_weights(const model_function& model, const std::shared_ptr<const data_split>& data,
                         const training_options& o, const operation_registry& known = {}) {
  asked_graphs asked;
  const training_report here = completed(o, data, asked.passing_on(model));
  const training_report there = completed(o, data, model_of(read_model(asked.bytes()), known));
  EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
  EXPECT_EQ(there.test_accuracy, here.test_accuracy);
}

training_options short_run(std::uint32_t workers, std::uint64_t seed = 3) {
  return options_for("sync", workers, {.epochs = 1, .seed = seed});
}

TEST(SerialisedTraining, EndsWithTheSameWeightsForEveryModel) {
  const training_options longer = options_for("sync", 2);
  const struct {
    const char* model;
    std::shared_ptr<const data_split> data;
    training_options o;
  } all[]{{"mlp:hidden=9x7,dropout=0.25", small_data(), longer},
          {"lenet", pictures(), short_run(1)},
          {"gpt:layers=2,width=8,heads=2,dropout=0.1", text(), short_run(2)},
          {"dlrm:width=4,bottom=6,top=8", tastes(), longer},
          {"softmax", sparse_data(), longer},
          {R"({"layers": [{"dense": {"units": 6, "activation": "gelu"}}, {"dense": {}}]})", small_data(),
           longer}};
  for (const auto& [model, data, o] : all) {
    SCOPED_TRACE(model);
    expect_same_weights(find_model(model), data, o);
  }
}

TEST(SerialisedTraining, EndsWithTheSameWeightsOverSeveralDevices) {
  const model_function mlp = *built_in_model("mlp:hidden=9x7");
  const std::tuple<const char*, model_function, training_options> all[]{
      {"replicated", replicated(mlp), options_for("sync", 2, {.workers = 1})},
      {"pipelined", pipelined(mlp), options_for("sync", 2, {.workers = 1, .micro_batches = 3})},
      {"two workers of two devices each", pipelined(mlp), options_for("sync", 4, {.workers = 2})}};
  for (const auto& [what, model, o] : all) {
    SCOPED_TRACE(what);
    expect_same_weights(model, small_data(), o);
  }
}

TEST(SerialisedTraining, EndsWithTheSameWeightsIfWorkersBuildDifferentGraphs) {
  const model_function towers = [](graph& g, const model_request& r) {
    const value x = dense(g.input("features", {r.batch, r.sample_dims[0]}), 8, "trunk", activation::tanh);
    const value logits = dense(x, r.classes, "out" + std::to_string(r.worker));
    return model_outputs{logits, cross_entropy(logits, g.input("labels", {r.batch}, dtype::int32))};
  };
  expect_same_weights(towers, small_data(), options_for("sync", 3));
}

/// A user's own operation, with a gradient made of another one: x^3.
class cube_operation : public operation, public serialisable<cube_operation> {
public:
  static constexpr std::string_view custom_kind = "acme.cube";
  explicit cube_operation(float factor = 1) : factor_(factor) {}
  void keep(archive& a) {
    a.version(1);
    a.field("factor", factor_);
  }

  std::string_view name() const noexcept override { return "cube"; }
  std::string describe() const override { return "factor " + std::to_string(factor_); }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    return {inputs[0]};
  }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value>,
                                std::span<const std::optional<value>> dy) const override {
    return {inputs[0] * inputs[0] * (3 * factor_) * *dy[0]};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    struct kernel : executable {
      std::size_t size;
      float factor;
      kernel(std::size_t n, float f) : size(n), factor(f) {}
      void run(const stream&, const call& c) override {
        std::transform(c.in(0), c.in(0) + size, c.out(), [this](float x) { return factor * x * x * x; });
      }
    };
    return std::make_unique<kernel>(inputs[0].dims.size(), factor_);
  }

private:
  float factor_;
};

model_outputs of_cubes(graph& g, const model_request& r) {
  const value hidden = dense(g.input("features", {r.batch, r.sample_dims[0]}), 6, "hidden");
  const value cubes =
      g.apply_one(std::make_shared<cube_operation>(0.5F), {hidden}, std::source_location::current());
  const value logits = dense(cubes, r.classes, "out");
  return {logits, cross_entropy(logits, g.input("labels", {r.batch}, dtype::int32))};
}

TEST(SerialisedTraining, EndsWithTheSameWeightsForAnOperationOfOnesOwn) {
  operation_registry known;
  known.add<cube_operation>();
  expect_same_weights(of_cubes, small_data(), options_for("sync", 2), known);
}

TEST(SerialisedTraining, NamesAnOperationThatTheWorkerLacks) {
  asked_graphs asked;
  train(asked.passing_on(of_cubes), small_data(), short_run(1));
  EXPECT_THAT([&] { train(model_of(read_model(asked.bytes())), small_data(), short_run(1)); },
              ThrowsMessage<graph_error>(HasSubstr("no operation of kind 'acme.cube' here")));
}

TEST(SerialisedTraining, NamesTheBatchThatNoGraphWasBuiltFor) {
  asked_graphs asked;
  train(asked.passing_on(of_cubes), small_data(), short_run(1));
  operation_registry known;
  known.add<cube_operation>();
  EXPECT_THAT([&] { train(model_of(read_model(asked.bytes()), known), small_data(), short_run(1, 77)); },
              ThrowsMessage<graph_error>(
                  HasSubstr("no graph of it was built for seed 77; the nearest was built for seed 3")));
}

/// The data of the run do not fit the model, and the message names the line where the model was built.
TEST(SerialisedTraining, NamesTheLineOfTheModelWhenTheDataDoNotFit) {
  const std::string line = "serialised_training_test.cpp:" + std::to_string(__LINE__ + 2);
  const model_function fixed = [](graph& g, const model_request& r) {
    const value logits = dense(g.input("features", {r.batch, 4}), r.classes, "out");
    return model_outputs{logits, cross_entropy(logits, g.input("labels", {r.batch}, dtype::int32))};
  };
  model_request r;
  r.sample_dims = {5};
  r.classes = 3;
  const model_function there = model_of({graph_for(fixed, r)});
  graph g;
  EXPECT_THAT([&] { build_fitting(there, g, r); }, ThrowsMessage<graph_error>(HasSubstr(line)));
}

} // namespace
} // namespace mailgrad::testing
