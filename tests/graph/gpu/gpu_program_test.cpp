#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/tests/support/generated_kernels.hpp>
#include <mailgrad/tests/support/gpu_test.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <deque>

// Whole models on the GPU, beside the same programs on the host. The simulated GPU runs the very kernels.

namespace mailgrad {
namespace {

using cuda::chain_kernels, test::is_refused;
using testing::gpu_array, testing::throws;

using results = std::vector<std::vector<float>>;

/// A program with its memory on a GPU.
struct program_on_gpu {
  program_on_gpu(cuda::gpu_queue& on, const graph& g, const std::vector<value>& fetches, const feeds& fed)
      : queue(on), code(g, fetches, {}, on) {
    for (const feed& f : fed) {
      const auto* first = reinterpret_cast<const float*>(f.values->data());
      sources.emplace_back(queue, std::vector<float>(first, first + f.values->size()));
      code.bind(f.source, sources.back().data());
    }
    for (std::size_t i = 0; i < fetches.size(); ++i) {
      found.emplace_back(queue, fetches[i].dims().size());
      code.bind_fetch(i, found.back().data());
    }
  }
  results read() {
    if (const auto fault = queue.take_fault()) code.raise(*fault);
    results values;
    for (const auto& f : found) values.push_back(f.read());
    return values;
  }

  cuda::gpu_queue& queue;
  program code;
  std::deque<gpu_array<float>> sources, found;
};

/// A model of a batch with the gradients of all its variables, and values for what it reads.
class trained_model {
public:
  trained_model(const char* name, model_request request) : request_(std::move(request)) {
    const model_outputs made = build_model(find_model(name), graph_, request_);
    fetches_ = {made.loss, made.logits};
    for (const adjoint& a : gradients(made.loss, graph_.variables())) {
      if (a.dense) fetches_.push_back(*a.dense);
      for (const sparse_rows& rows : a.sparse) {
        fetches_.push_back(rows.rows); // whole numbers, which are compared as if they were none
        fetches_.push_back(rows.values);
      }
    }
    for (const value& v : graph_.variables()) fed_.emplace_back(v, drawn_variable(v));
    for (const value& v : graph_.inputs()) fed_.emplace_back(v, drawn_input(v));
  }

  void set_labels(std::int32_t label) {
    for (feed& f : fed_) {
      if (f.source.type().type != dtype::int32) continue;
      f = {f.source, test::tensor_of(f.source.dims(), std::vector(f.values->size(), label))};
    }
  }

  results on_host(std::uint64_t step) {
    trial_run run(fetches_, fed_);
    run.run(step);
    results found;
    for (std::size_t i = 0; i < fetches_.size(); ++i) found.push_back(run.fetched(i));
    return found;
  }
  program_on_gpu program_on(cuda::gpu_queue& queue) const { return {queue, graph_, fetches_, fed_}; }
  results on_gpu(cuda::gpu_queue& queue, std::uint64_t step) const {
    program_on_gpu p = program_on(queue);
    p.code.run(queue.where(), step, {});
    return p.read();
  }

  /// The arena of the values alone, without scratch memory.
  std::size_t value_bytes() const { return plan_program(graph_, fetches_, {}).arena_bytes; }
  std::size_t kernels_on_host() const { return program(graph_, fetches_).kernel_count(); }

private:
  tensor drawn_variable(const value& v) const {
    const node& n = graph_.of(v);
    tensor values(n.outputs[0].dims);
    initialise(std::get<variable_node>(n.what).first_values, 1, n.name, values.values());
    for (float& w : values.values()) w += .01F; // biases begin at 0, which would hide theirs
    return values;
  }
  tensor drawn_input(const value& v) const {
    if (v.type().type == dtype::float32) return test::random_tensor(v.dims(), 5);
    const std::string& name = graph_.of(v).name;
    const std::vector<std::size_t>& rows = request_.categories;
    tensor drawn(v.dims(), dtype::int32);
    std::minstd_rand random(3);
    std::size_t at = 0;
    for (std::int32_t& n : drawn.values<std::int32_t>()) {
      const std::size_t i = at++;
      n = static_cast<std::int32_t>(random() %
                                    (name == "categories" ? rows[i % rows.size()] : request_.classes));
      if (name == "offsets") n = static_cast<std::int32_t>(i * request_.nonzeros / (drawn.size() - 1));
    }
    return drawn;
  }

  graph graph_;
  model_request request_;
  std::vector<value> fetches_;
  feeds fed_;
};

/// The largest difference as a share of the largest value, since a gradient's small values are sums of large
/// ones.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::isnan(b[i]) ? 1e30 : std::abs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::abs(double{a[i]}));
  }
  return most / largest;
}

model_request images(std::size_t batch) {
  return {.sample_dims = {28, 28, 1}, .classes = 10, .batch = batch};
}
model_request numbers(std::size_t width, std::size_t batch) {
  return {.sample_dims = {width}, .classes = 3, .batch = batch};
}
model_request text(std::size_t window, std::size_t batch) {
  return {.sample_dims = {window}, .features = feature_kind::tokens, .classes = 10, .batch = batch};
}
model_request samples(std::size_t width, std::vector<std::size_t> categories, answer wanted) {
  return {.sample_dims = {width},
          .categories = std::move(categories),
          .wanted = wanted,
          .classes = wanted == answer::a_number ? 0U : 10U,
          .batch = 12};
}

struct model_case {
  const char* model;
  model_request request;

  friend std::ostream& operator<<(std::ostream& to, const model_case& c) { return to << c.model; }
};

class GpuProgram : public testing::gpu_test, public ::testing::WithParamInterface<model_case> {};

TEST_P(GpuProgram, GivesTheLossTheLogitsAndTheGradientsOfTheHost) {
  trained_model model(GetParam().model, GetParam().request);
  for (const std::uint64_t step : {0, 7}) {
    const auto expected = model.on_host(step), found = model.on_gpu(queue(), step);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(difference(expected[i], found[i]), 1e-5) << "fetch " << i << " in step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, GpuProgram,
                         ::testing::Values(model_case{"gpt:layers=2,width=32,heads=2", text(37, 12)},
                                           model_case{"gpt:layers=1,width=66,heads=3,dropout=0.2,tied=no",
                                                      text(70, 12)},
                                           model_case{"gpt:layers=1,width=5,heads=1", text(1, 12)}));
INSTANTIATE_TEST_SUITE_P(
    Tables, GpuProgram,
    ::testing::Values(
        model_case{"dlrm:width=8,bottom=12x6,top=10", samples(5, {10, 40, 17}, answer::a_class)},
        model_case{"dlrm:width=5,top=7,interaction=concat", samples(0, {1, 30}, answer::a_number)},
        model_case{"softmax", {.sample_dims = {40}, .classes = 10, .batch = 12, .nonzeros = 96}}));
INSTANTIATE_TEST_SUITE_P(Models, GpuProgram,
                         ::testing::Values(model_case{"softmax", images(12)},
                                           model_case{"mlp:hidden=48x20", images(12)},
                                           model_case{"mlp:hidden=33,activation=tanh,dropout=0.3",
                                                      samples(17, {}, answer::a_class)},
                                           model_case{"mlp:hidden=16", samples(9, {}, answer::a_number)},
                                           model_case{"lenet", images(12)}));

using GpuPrograms = testing::gpu_test;

TEST_F(GpuPrograms, GiveTheSameBitsTwice) {
  const trained_model model("lenet", images(8));
  EXPECT_EQ(model.on_gpu(queue(), 1), model.on_gpu(queue(), 1));
}

TEST_F(GpuPrograms, ReserveNoMemoryForTheKernelsOfTheHost) {
  for (const char* name : {"mlp:hidden=64", "lenet"}) {
    const trained_model model(name, images(8));
    EXPECT_LE(model.program_on(queue()).code.arena_bytes(), model.value_bytes()) << name;
  }
}

TEST_F(GpuPrograms, KeepOneNumberOfAttentionForARow) {
  const trained_model model("gpt:layers=2,width=8,heads=4", text(64, 2));
  constexpr std::size_t probabilities = 2 * 4 * 64 * 64 * sizeof(float); // of a layer
  EXPECT_LT(model.program_on(queue()).code.arena_bytes() + 2 * probabilities,
            model.value_bytes() + probabilities / 8);
}

TEST_F(GpuPrograms, GiveWhatAGpuKeepsToNobodyElse) {
  graph g;
  const value y = causal_attention(g.input("qkv", {2, 5, 12}), 2), probabilities(g, y.node(), 1);
  const auto compiled = [&](const value& fetch) { program(g, std::vector{fetch}, {}, queue()); };
  for (const value& fetch : {probabilities, probabilities * 2})
    EXPECT_NO_THROW(program(g, std::vector{fetch})) << "the host has them";
  EXPECT_NO_THROW(compiled(y));
  EXPECT_THAT([&] { compiled(probabilities); },
              is_refused("causal_attention: a GPU does not make this value"));
  EXPECT_THAT([&] { compiled(probabilities * 2); },
              is_refused("operand 0 is what a kernel keeps for its gradient"));
}

TEST_F(GpuPrograms, JoinProductsAndTheirBias) {
  const trained_model model("mlp:hidden=8x6", numbers(5, 4));
  const std::size_t joined = 1; // of the last layer, which has no relu
  EXPECT_EQ(model.program_on(queue()).code.kernel_count(), model.kernels_on_host() - joined);
}

TEST_F(GpuPrograms, AreReplayedAsAGraphWithTheStepOfTheMoment) {
  const trained_model model("mlp:hidden=24,dropout=0.5", numbers(6, 4));
  program_on_gpu p = model.program_on(queue());
  p.code.run(gpu(), 1, {}); // what is prepared at the first run is not part of the graph
  queue().finish();
  const cuda::captured_graph graph(on_gpu().stream, [&] { p.code.queue(on_gpu()); });
  for (const std::uint64_t step : {2, 3}) {
    cuda::begin_step(on_gpu(), step);
    graph.launch(on_gpu().stream);
    EXPECT_EQ(p.read(), model.on_gpu(queue(), step));
  }
  EXPECT_NE(model.on_gpu(queue(), 2), model.on_gpu(queue(), 3)) << "other elements are dropped";
}

TEST_F(GpuPrograms, RefuseAStreamOfAnotherKind) {
  const trained_model model("softmax", numbers(5, 2));
  program_on_gpu there = model.program_on(queue());
  EXPECT_THAT([&] { there.code.run(host_stream{}, 0, {}); }, throws<std::logic_error>("one of a GPU"));
  EXPECT_THAT([&] { there.code.run(gpu(), 0, [] {}); }, throws<std::logic_error>("after run()"));
  graph g;
  program here(g, std::vector{g.input("x", {2}) * 2});
  EXPECT_THAT([&] { here.run(gpu(), 0, {}); }, throws<std::logic_error>("one of the host"));
}

TEST_F(GpuPrograms, RefuseALabelInTheWordsOfTheHost) {
  trained_model model("softmax", numbers(5, 2));
  model.set_labels(3);
  const auto refuses = throws<std::out_of_range>("label 3, but the logits have 3 classes");
  EXPECT_THAT([&] { model.on_host(0); }, refuses);
  EXPECT_THAT([&] { model.on_gpu(queue(), 0); }, refuses);
}

/// The largest share by which a value of a program may differ from that of the host. The operands of each
/// product are rounded, by 2^-11 or 2^-8 each, and errors add up through the layers and in sums of many.
struct precision_case {
  product_precision products;
  double bound;
};

class GpuPrecision : public testing::gpu_test, public ::testing::WithParamInterface<precision_case> {};

TEST_P(GpuPrecision, GivesNearlyTheLossTheLogitsAndTheGradientsOfTheHost) {
  for (const auto& [name, request] : {model_case{"mlp:hidden=48x20", images(12)},
                                      model_case{"gpt:layers=2,width=32,heads=2", text(37, 3)}}) {
    trained_model model(name, request);
    cuda::gpu_queue rounding(0, GetParam().products);
    const auto expected = model.on_host(1), found = model.on_gpu(rounding, 1);
    double most = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double differs = difference(expected[i], found[i]);
      EXPECT_LT(differs, GetParam().bound) << name << ", fetch " << i;
      most = std::max(most, differs);
    }
    EXPECT_TRUE(GetParam().products != product_precision::bfloat16 || most > 1e-4) << "nothing was rounded";
    EXPECT_EQ(model.on_gpu(rounding, 1), found) << "other bits in the second run";
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, GpuPrecision,
                         ::testing::Values(precision_case{product_precision::tf32, 0.01},
                                           precision_case{product_precision::bfloat16, 0.05}),
                         [](const auto& of) { return std::string(name(of.param.products)); });

using GpuPrecisions = testing::gpu_test;

TEST_F(GpuPrecisions, RoundEachValueOnceHoweverManyProductsReadIt) {
  graph g;
  const value x = g.input("x", {4, 8}), w = g.input("w", {8, 8});
  const std::vector<value> fetches{matmul(matmul(x, w), w), matmul(x, w, {.b = operand_order::transposed})};
  cuda::gpu_queue rounding(0, product_precision::bfloat16);
  EXPECT_EQ(program(g, fetches, {}, queue()).kernel_count(), 3U);
  EXPECT_EQ(program(g, fetches, {}, rounding).kernel_count(), 5U)
      << "x and w have a copy, and the first product is rounded where it is made";
}

using GeneratedKernels = testing::gpu_test;

/// A program with chains forwards and backwards. They are interpreted at first, and computed by kernels of
/// their own when these have come.
TEST_F(GeneratedKernels, GiveAProgramTheBitsOfTheInterpretedOnes) {
  const testing::with_generated_kernels generated;
  if (const std::string why = cuda::format_generated_kernels(); why.starts_with("none")) GTEST_SKIP() << why;
  constexpr std::size_t n = 403;
  graph g;
  const value u = g.variable("u", {n}, {}), v = g.variable("v", {n}, {});
  const value y = sigmoid(u * v + u) * tanh(u - v), loss = reduce_sum(square(y) * 0.5F);
  std::vector<value> fetches{loss, y};
  for (const adjoint& a : gradients(loss, std::vector{u, v})) fetches.push_back(a.dense.value());
  const auto fed = [](const value& source, std::uint64_t seed) {
    return feed(source, test::tensor_of({n}, testing::normal_values(n, seed)));
  };
  program_on_gpu p(queue(), g, fetches, {fed(u, 0), fed(v, 1)});
  cuda::kept_graphs graphs;
  int queued = 0;
  const auto run = [&] {
    graphs.run(on_gpu().stream, {&p, nullptr}, [&] {
      ++queued;
      p.code.queue(on_gpu());
    });
    return p.read();
  };
  const auto interpreted = run();
  chain_kernels& kernels = chain_kernels::of_process();
  ASSERT_GT(kernels.too_early(), 0U) << "the program has no chain";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(), interpreted) << "as a graph";
  kernels.finish();
  ASSERT_EQ(kernels.why_none(), "");
  const std::uint64_t too_early = kernels.too_early();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(), interpreted) << "with kernels of their own";
  EXPECT_EQ(kernels.too_early(), too_early);
  EXPECT_LE(queued, 3) << "by launches, as a graph, and as another one";
}

} // namespace
} // namespace mailgrad
