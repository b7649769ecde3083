#include <mailgrad/tests/graph/gpu/trained_model.hpp>

#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gmock/gmock.h>

#include <ostream>

// Whole models on the GPU, beside the same programs on the host. The simulated GPU runs the very kernels.

namespace mailgrad {
namespace {

using testing::difference;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing::trained_model;

struct model_case {
  const char* model;
  shape sample;
  answer wanted = answer::a_class;
  feature_kind features = feature_kind::numbers;
  std::vector<std::size_t> categories{};
  std::size_t nonzeros = 0;

  model_request request() const {
    model_request made{.sample_dims = sample,
                       .features = features,
                       .categories = categories,
                       .wanted = wanted,
                       .classes = wanted == answer::a_number ? 0U : 10U,
                       .batch = 12,
                       .nonzeros = nonzeros};
    return made;
  }
  friend std::ostream& operator<<(std::ostream& to, const model_case& c) { return to << c.model; }
};

class GpuProgram : public ::testing::TestWithParam<model_case> {};

TEST_P(GpuProgram, GivesTheLossTheLogitsAndTheGradientsOfTheHost) {
  MAILGRAD_NEEDS_GPU();
  trained_model model(GetParam().model, GetParam().request());
  cuda::gpu_queue queue(0);
  for (const std::uint64_t step : {0, 7}) {
    const auto expected = model.on_host(step), found = model.on_gpu(queue, step);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(difference(expected[i], found[i]), 1e-5) << "fetch " << i << " in step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, GpuProgram,
    ::testing::Values(
        model_case{"gpt:layers=2,width=32,heads=2", {37}, answer::a_class, feature_kind::tokens},
        model_case{
            "gpt:layers=1,width=66,heads=3,dropout=0.2,tied=no", {70}, answer::a_class, feature_kind::tokens},
        model_case{"gpt:layers=1,width=5,heads=1", {1}, answer::a_class, feature_kind::tokens}));
INSTANTIATE_TEST_SUITE_P(
    Tables, GpuProgram,
    ::testing::Values(
        model_case{
            "dlrm:width=8,bottom=12x6,top=10", {5}, answer::a_class, feature_kind::numbers, {10, 40, 17}},
        model_case{
            "dlrm:width=5,top=7,interaction=concat", {0}, answer::a_number, feature_kind::numbers, {1, 30}},
        model_case{"softmax", {40}, answer::a_class, feature_kind::numbers, {}, 96}));
INSTANTIATE_TEST_SUITE_P(Models, GpuProgram,
                         ::testing::Values(model_case{"softmax", {28, 28, 1}},
                                           model_case{"mlp:hidden=48x20", {28, 28, 1}},
                                           model_case{"mlp:hidden=33,activation=tanh,dropout=0.3", {17}},
                                           model_case{"mlp:hidden=16", {9}, answer::a_number},
                                           model_case{"lenet", {28, 28, 1}}));

TEST(GpuPrograms, GiveTheSameBitsTwice) {
  MAILGRAD_NEEDS_GPU();
  trained_model model("lenet", {.sample_dims = {28, 28, 1}, .classes = 10, .batch = 8});
  cuda::gpu_queue queue(0);
  EXPECT_EQ(model.on_gpu(queue, 1), model.on_gpu(queue, 1));
}

TEST(GpuPrograms, ReserveNoMemoryForTheKernelsOfTheHost) {
  MAILGRAD_NEEDS_GPU();
  for (const char* name : {"mlp:hidden=64", "lenet"}) {
    trained_model model(name, {.sample_dims = {28, 28, 1}, .classes = 10, .batch = 8});
    cuda::gpu_queue queue(0);
    const trained_model::program_on_gpu p(model, queue);
    EXPECT_LE(p.code.arena_bytes(), model.value_bytes()) << name;
  }
}

TEST(GpuPrograms, KeepOneNumberOfAttentionForARow) {
  MAILGRAD_NEEDS_GPU();
  trained_model model("gpt:layers=2,width=8,heads=4",
                      {.sample_dims = {64}, .features = feature_kind::tokens, .classes = 10, .batch = 2});
  cuda::gpu_queue queue(0);
  const trained_model::program_on_gpu p(model, queue);
  constexpr std::size_t probabilities = 2 * 4 * 64 * 64 * sizeof(float); // of a layer
  EXPECT_LT(p.code.arena_bytes() + 2 * probabilities, model.value_bytes() + probabilities / 8);
}

TEST(GpuPrograms, GiveWhatAGpuKeepsToNobodyElse) {
  MAILGRAD_NEEDS_GPU();
  graph g;
  const value y = causal_attention(g.input("qkv", {2, 5, 12}), 2);
  const value probabilities(g, y.node(), 1);
  cuda::gpu_queue queue(0);
  const auto on_gpu = [&](const value& fetch) { program(g, std::vector{fetch}, {}, queue); };
  for (const value& fetch : {probabilities, probabilities * 2})
    EXPECT_NO_THROW(program(g, std::vector{fetch})) << "the host has them";
  EXPECT_NO_THROW(on_gpu(y));
  EXPECT_THAT([&] { on_gpu(probabilities); },
              ThrowsMessage<graph_error>(HasSubstr("causal_attention: a GPU does not make this value")));
  EXPECT_THAT([&] { on_gpu(probabilities * 2); },
              ThrowsMessage<graph_error>(HasSubstr("operand 0 is what a kernel keeps for its gradient")));
}

TEST(GpuPrograms, JoinProductsAndTheirBias) {
  MAILGRAD_NEEDS_GPU();
  trained_model model("mlp:hidden=8x6", {.sample_dims = {5}, .classes = 3, .batch = 4});
  cuda::gpu_queue queue(0);
  const trained_model::program_on_gpu p(model, queue);
  EXPECT_EQ(p.code.kernel_count(), model.kernels_on_host() - 1); // of the last layer, which has no relu
}

TEST(GpuPrograms, AreReplayedAsAGraphWithTheStepOfTheMoment) {
  MAILGRAD_NEEDS_GPU();
  trained_model model("mlp:hidden=24,dropout=0.5", {.sample_dims = {6}, .classes = 3, .batch = 4});
  cuda::gpu_queue queue(0);
  const auto& s = std::get<cuda_stream>(queue.where());
  trained_model::program_on_gpu p(model, queue);
  p.code.run(s, 1, {}); // what is prepared at the first run is not part of the graph
  queue.finish();
  const cuda::captured_graph graph(s.stream, [&] { p.code.queue(s); });
  for (const std::uint64_t step : {2, 3}) {
    cuda::begin_step(s, step);
    graph.launch(s.stream);
    EXPECT_EQ(p.read(), model.on_gpu(queue, step));
  }
  EXPECT_NE(model.on_gpu(queue, 2), model.on_gpu(queue, 3)) << "other elements are dropped";
}

TEST(GpuPrograms, RefuseAStreamOfAnotherKind) {
  MAILGRAD_NEEDS_GPU();
  trained_model model("softmax", {.sample_dims = {5}, .classes = 3, .batch = 2});
  cuda::gpu_queue queue(0);
  trained_model::program_on_gpu there(model, queue);
  EXPECT_THAT([&] { there.code.run(host_stream{}, 0, {}); },
              ThrowsMessage<std::logic_error>(HasSubstr("one of a GPU")));
  EXPECT_THAT([&] { there.code.run(queue.where(), 0, [] {}); },
              ThrowsMessage<std::logic_error>(HasSubstr("after run()")));
  graph g;
  program here(g, std::vector{g.input("x", {2}) * 2});
  EXPECT_THAT([&] { here.run(queue.where(), 0, {}); },
              ThrowsMessage<std::logic_error>(HasSubstr("one of the host")));
}

TEST(GpuPrograms, RefuseALabelInTheWordsOfTheHost) {
  MAILGRAD_NEEDS_GPU();
  trained_model model("softmax", {.sample_dims = {5}, .classes = 3, .batch = 2});
  model.set_labels(3);
  cuda::gpu_queue queue(0);
  const auto message = HasSubstr("label 3, but the logits have 3 classes");
  EXPECT_THAT([&] { model.on_host(0); }, ThrowsMessage<std::out_of_range>(message));
  EXPECT_THAT([&] { model.on_gpu(queue, 0); }, ThrowsMessage<std::out_of_range>(message));
}

} // namespace
} // namespace mailgrad
