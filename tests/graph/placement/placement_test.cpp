#include <mailgrad/graph/placement/placement.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/partition.hpp>
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
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

class Placement : public test::on_two_devices {};

TEST_F(Placement, PutsOperationsOnTheDeviceOfTheInnermostScope) {
  graph g;
  const value x = g.input("x", {2, 2});
  value inner, outer;
  {
    const device_scope first(g, cpu1);
    {
      const device_scope second(g, "cpu:0");
      inner = relu(x);
    }
    outer = relu(inner);
  }
  const placement places(g, cpu0);
  EXPECT_EQ(places.of(inner.node()), cpu0);
  EXPECT_EQ(places.of(outer.node()), cpu1);
  EXPECT_THAT(places.devices(), ElementsAre(cpu0, cpu1));
}

TEST_F(Placement, PutsWhatHasNoScopeWhereItsLastOperandIs) {
  graph g;
  const value x = g.input("x", {2, 2});
  const value alone = relu(x);
  value there;
  {
    const device_scope scope(g, cpu1);
    there = relu(alone);
  }
  const value sum = alone + there; // on cpu:0 the devices would wait for each other
  const placement places(g, cpu0);
  EXPECT_EQ(places.of(alone.node()), cpu0);
  EXPECT_EQ(places.of(sum.node()), cpu1);
}

TEST_F(Placement, PutsGradientsWhereTheirForwardOperationIs) {
  graph g;
  const value x = g.input("x", {4, 3});
  const value w = g.variable("w", {3, 2}, initialiser::zeros());
  const value u = g.variable("u", {2, 2}, initialiser::zeros());
  value h, y;
  {
    const device_scope scope(g, cpu1);
    h = matmul(x, w);
  }
  {
    const device_scope scope(g, cpu0);
    y = matmul(h, u);
  }
  const auto adjoints = gradients(reduce_sum(y), std::vector{w, u});
  const placement places(g, cpu0);
  EXPECT_EQ(places.of(adjoints[0].dense->node()), cpu1);
  EXPECT_EQ(places.of(adjoints[1].dense->node()), cpu0);
}

TEST_F(Placement, RefusesADeviceThatIsNotThereNamingTheLine) {
  graph g;
  EXPECT_THAT(
      [&] {
        device_scope(g, device{device_kind::cpu, 9999});
      },
      ThrowsMessage<graph_error>(AllOf(HasSubstr("placement_test.cpp:"),
                                       HasSubstr("cpu:9999 is not available"),
                                       HasSubstr("this machine has cpu:0"))));
  EXPECT_THAT([&] { device_scope(g, "gpu:0"); },
              ThrowsMessage<graph_error>(
                  AllOf(HasSubstr("placement_test.cpp:"), HasSubstr("expected cpu:N or cuda:N"))));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(g.place()));
}

TEST_F(Placement, RefusesAForwardPassThatComesBackToADevice) {
  graph g;
  const value x = g.input("x", {2, 2});
  value a, b, c;
  {
    const device_scope scope(g, cpu0);
    a = relu(x);
  }
  {
    const device_scope scope(g, cpu1);
    b = tanh(a);
  }
  const value one_way = reduce_sum(b);
  EXPECT_NO_THROW(require_one_way(g, placement(g, cpu0), one_way));
  {
    const device_scope scope(g, cpu0);
    c = relu(b);
  }
  const value there_and_back = reduce_sum(c);
  EXPECT_THAT(
      [&] { require_one_way(g, placement(g, cpu0), there_and_back); },
      ThrowsMessage<graph_error>(AllOf(HasSubstr("placement_test.cpp:"),
                                       HasSubstr("relu on cpu:0 reads the tanh of placement_test.cpp:"),
                                       HasSubstr("place it on cpu:1 too"))));
}

TEST_F(Placement, RefusesAVariableOfTwoDevicesForHogwild) {
  graph g;
  const value x = g.input("x", {2, 2});
  const value w = g.variable("layer/w", {2, 2}, initialiser::zeros());
  value y;
  {
    const device_scope scope(g, cpu0);
    y = matmul(x, w);
  }
  const value fine = reduce_sum(y);
  EXPECT_NO_THROW(require_variables_apart(g, placement(g, cpu0), fine));
  {
    const device_scope scope(g, cpu1);
    y = matmul(y, w);
  }
  const value loss = reduce_sum(y);
  EXPECT_THAT([&] { require_variables_apart(g, placement(g, cpu0), loss); },
              ThrowsMessage<graph_error>(
                  AllOf(HasSubstr("variable 'layer/w' is read by the matmul of placement_test.cpp:"),
                        HasSubstr("on cpu:1 and by the matmul"), HasSubstr("take another policy"))));
}

TEST_F(Placement, RefusesADeviceThatItsWorkerDoesNotHave) {
  graph g;
  const value x = g.input("x", {2, 2});
  const device_scope scope(g, cpu1);
  relu(x);
  const placement places(g, cpu0);
  EXPECT_NO_THROW(require_devices(g, places, std::vector{cpu0, cpu1}));
  EXPECT_THAT(
      [&] { require_devices(g, places, std::vector{cpu0}); },
      ThrowsMessage<graph_error>(AllOf(HasSubstr("placement_test.cpp:"), HasSubstr("relu is placed on cpu:1"),
                                       HasSubstr("it has cpu:0"))));
}

// The three below are from the project's list of things that must be exactly so.
TEST_F(Placement, MultipliesMatricesThatLieOnTwoDevices) {
  for (const bool apart : {false, true}) {
    graph g;
    value a, b, product;
    {
      const device_scope scope(g, cpu0);
      a = g.constant(tensor_of({4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})) * 1.0F;
    }
    {
      const device_scope scope(g, apart ? cpu1 : cpu0);
      b = g.constant(tensor_of({3, 1}, {1, 1, 2})) * 1.0F;
      product = matmul(a, b);
    }
    segment_runner run(g, placement(g, cpu0), {product});
    EXPECT_EQ(run.segments().size(), apart ? 2U : 1U);
    run.run();
    EXPECT_THAT(run.result(0, 4), ElementsAre(9, 21, 33, 45));
  }
}

TEST_F(Placement, CutsAChainOfTwoDevicesIntoThreeSegments) {
  graph g;
  const value x = g.input("x", {4, 3});
  const value w = g.variable("w", {3, 5}, initialiser::zeros());
  const value u = g.variable("u", {5, 2}, initialiser::zeros());
  value hidden;
  {
    const device_scope scope(g, cpu0);
    hidden = relu(matmul(x, w));
  }
  value loss;
  {
    const device_scope scope(g, cpu1);
    const value y = matmul(hidden, u);
    loss = reduce_mean(y * y);
  }
  const auto adjoints = gradients(loss, std::vector{w, u});
  const std::vector<value> wanted{loss, *adjoints[0].dense, *adjoints[1].dense};
  segment_runner cut(g, placement(g, cpu0), wanted);
  ASSERT_EQ(cut.segments().size(), 3U);
  const auto& [forward, both, backward] = std::tie(cut.segments()[0], cut.segments()[1], cut.segments()[2]);
  EXPECT_EQ(forward.where, cpu0);
  EXPECT_EQ(both.where, cpu1);
  EXPECT_EQ(backward.where, cpu0);
  EXPECT_THAT(both.imports, ElementsAre(hidden));
  EXPECT_THAT(both.reads, ElementsAre(0));
  EXPECT_THAT(backward.reads, testing::Contains(1));
  EXPECT_EQ(bytes_between(forward, both), 4 * 5 * sizeof(float));

  const tensor xs = random_tensor({4, 3}, 1), ws = random_tensor({3, 5}, 2), us = random_tensor({5, 2}, 3);
  program whole(g, wanted);
  const auto bind = [&](auto& p) {
    p.bind(x, xs.data());
    p.bind(w, ws.data());
    p.bind(u, us.data());
  };
  bind(whole);
  bind(cut);
  whole.run(host_stream{}, 0, [] {});
  cut.run();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t n = wanted[i].dims().size();
    const auto* expected = static_cast<const float*>(whole.fetched(i));
    EXPECT_THAT(cut.result(i, n), testing::ElementsAreArray(expected, n)) << "value " << i;
  }
}

TEST_F(Placement, DeliversAValueBesideAnother) {
  graph g;
  const value x = g.input("x", {2});
  value a, b;
  {
    const device_scope scope(g, cpu0);
    a = relu(x);
  }
  {
    const device_scope scope(g, cpu1);
    b = tanh(a);
  }
  const std::vector<wanted_value> wanted{{a, b}, {b}};
  const auto segments = cut_into_segments(g, placement(g, cpu0), wanted);
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_THAT(segments[0].fetches, ElementsAre());
  EXPECT_THAT(segments[1].fetches, ElementsAre(0, 1));
}

} // namespace
} // namespace mailgrad
