#include <mailgrad/tests/graph/gpu/trained_model.hpp>

#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gtest/gtest.h>

#include <algorithm>

// Whole models on the GPU whose products are in TF32 or in bfloat16.

namespace mailgrad {
namespace {

using testing::difference;
using testing::trained_model;

/// The largest share by which a value of a program may differ from that of the host. The operands of each
/// product are rounded, by 2^-11 or 2^-8 each, and errors add up through the layers and in sums of many.
struct precision_case {
  product_precision products;
  double bound;
};

class GpuPrecision : public ::testing::TestWithParam<precision_case> {};

TEST_P(GpuPrecision, GivesNearlyTheLossTheLogitsAndTheGradientsOfTheHost) {
  MAILGRAD_NEEDS_GPU();
  const std::pair<const char*, model_request> models[]{
      {"mlp:hidden=48x20", {.sample_dims = {28, 28, 1}, .classes = 10, .batch = 12}},
      {"gpt:layers=2,width=32,heads=2",
       {.sample_dims = {37}, .features = feature_kind::tokens, .classes = 10, .batch = 3}}};
  for (const auto& [name, request] : models) {
    trained_model model(name, request);
    cuda::gpu_queue queue(0, GetParam().products);
    const auto expected = model.on_host(1), found = model.on_gpu(queue, 1);
    double most = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double differs = difference(expected[i], found[i]);
      EXPECT_LT(differs, GetParam().bound) << name << ", fetch " << i;
      most = std::max(most, differs);
    }
    if (GetParam().products == product_precision::bfloat16) {
      EXPECT_GT(most, 1e-4) << "nothing was rounded";
    }
    EXPECT_EQ(model.on_gpu(queue, 1), found) << "other bits in the second run";
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, GpuPrecision,
                         ::testing::Values(precision_case{product_precision::tf32, 0.01},
                                           precision_case{product_precision::bfloat16, 0.05}),
                         [](const auto& of) { return std::string(name(of.param.products)); });

TEST(GpuPrecisions, RoundEachValueOnceHoweverManyProductsReadIt) {
  MAILGRAD_NEEDS_GPU();
  graph g;
  const value x = g.input("x", {4, 8}), w = g.input("w", {8, 8});
  const std::vector<value> fetches{matmul(matmul(x, w), w), matmul(x, w, {.b = operand_order::transposed})};
  cuda::gpu_queue exact(0), rounding(0, product_precision::bfloat16);
  EXPECT_EQ(program(g, fetches, {}, exact).kernel_count(), 3U);
  EXPECT_EQ(program(g, fetches, {}, rounding).kernel_count(), 5U)
      << "x and w have a copy, and the first product is rounded where it is made";
}

} // namespace
} // namespace mailgrad
