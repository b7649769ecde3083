#include <mailgrad/graph/placement/replicate.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/layers.hpp>
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
using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Replicate : public test::on_two_devices {};

TEST_F(Replicate, SumsTwoTensorsToTheSameBitsOnOneDeviceAndTwo) {
  const tensor as = random_tensor({1000, 100}, 1), bs = random_tensor({1000, 100}, 2);
  const auto sum_on = [&](std::span<const device> devices) {
    graph g;
    const value a = g.input("a", {1000, 100}), b = g.input("b", {1000, 100});
    const auto sum = [](const named_values& in) { return in.at("a") + in.at("b"); };
    const value joined = replicate(sum, devices, {{"a", a}, {"b", b}});
    segment_runner run(g, placement(g, cpu0), {joined});
    run.bind(a, as.data());
    run.bind(b, bs.data());
    run.run();
    return run.result(0, 1000 * 100);
  };
  EXPECT_THAT(sum_on(two), ElementsAreArray(sum_on(std::span(two).first(1))));
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
    graph g;
    const value x = g.input("x", {7, 3});
    const auto model = [](const named_values& in) { return dense(in.at("x"), 2, "layer", activation::tanh); };
    const value y = replicate(model, devices, {{"x", x}});
    const value loss = reduce_mean(y * y);
    const auto variables = g.variables();
    EXPECT_EQ(variables.size(), 2U);
    std::vector<value> wanted{loss};
    for (const adjoint& a : gradients(loss, variables)) wanted.push_back(*a.dense);
    segment_runner run(g, placement(g, cpu0), wanted);
    run.bind(x, xs.data());
    run.bind(variables[0], ws.data());
    run.bind(variables[1], bs.data());
    run.run();
    std::vector<float> all;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      for (const float f : run.result(i, wanted[i].dims().size())) all.push_back(f);
    return all;
  };
  EXPECT_THAT(gradients_on(two),
              testing::Pointwise(testing::FloatNear(1e-6F), gradients_on(std::span(two).first(1))));
}

TEST_F(Replicate, SplitsIntegersToo) {
  graph g;
  const value tokens = g.input("tokens", {5, 2}, dtype::int32);
  const auto look_up = [](const named_values& in) { return embedding(in.at("tokens"), 4, 3, "table"); };
  const value rows = replicate(look_up, two, {{"tokens", tokens}});
  EXPECT_EQ(rows.dims(), (shape{5, 2, 3}));
  const tensor table = random_tensor({4, 3}, 1);
  tensor numbers({5, 2}, dtype::int32);
  const std::vector<std::int32_t> drawn{0, 3, 1, 2, 2, 0, 3, 1, 1, 0};
  std::ranges::copy(drawn, numbers.values<std::int32_t>().begin());
  segment_runner run(g, placement(g, cpu0), {rows});
  run.bind(tokens, numbers.data());
  run.bind(g.variables()[0], table.data());
  run.run();
  std::vector<float> expected;
  for (const std::int32_t row : drawn)
    for (std::size_t c = 0; c < 3; ++c)
      expected.push_back(table.values()[static_cast<std::size_t>(row) * 3 + c]);
  EXPECT_THAT(run.result(0, 30), ElementsAreArray(expected));
}

TEST_F(Replicate, RefusesInputsOfDifferentBatches) {
  graph g;
  const value a = g.input("a", {4, 2}), b = g.input("b", {5, 2});
  const auto first = [](const named_values& in) { return in.at("a"); };
  EXPECT_THAT(
      [&] {
        replicate(first, two, {{"a", a}, {"b", b}});
      },
      ThrowsMessage<graph_error>(AllOf(HasSubstr("replicate_test.cpp:"),
                                       HasSubstr("input 'b' has a batch of 5"),
                                       HasSubstr("'a' has one of 4"))));
  EXPECT_THAT([&] { replicate(first, {}, {{"a", a}}); }, ThrowsMessage<graph_error>(HasSubstr("no devices")));
  EXPECT_THAT(
      [&] {
        replicate(first, two, {{"c", g.input("c", {})}});
      },
      ThrowsMessage<graph_error>(HasSubstr("is a scalar")));
  const auto reduced = [](const named_values& in) { return reduce_sum(in.at("a")); };
  EXPECT_THAT(
      [&] {
        replicate(reduced, two, {{"a", a}});
      },
      ThrowsMessage<graph_error>(HasSubstr("its first extent must count them")));
  const auto mistyped = [](const named_values& in) { return in.at("aa"); };
  EXPECT_THAT(
      [&] {
        replicate(mistyped, two, {{"a", a}});
      },
      ThrowsMessage<graph_error>(HasSubstr("there is no value 'aa' among a")));
}

} // namespace
} // namespace mailgrad
