#include <mailgrad/graph/placement/placement.hpp>

#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/two_devices.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::cpu0;
using test::cpu1;
using testing::ElementsAre;

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
  const value a = on(cpu0), b = on(cpu1), c = on(cpu2);
  const value inner = b + c;
  EXPECT_THAT(addends(a + inner), ElementsAre(a, inner));
}

TEST_F(PlacedSum, StaysWholeWhereOneDeviceComputesTwoAddends) {
  const value a = on(cpu0), b = on(cpu0), c = on(cpu1), d = on(cpu0);
  const value same = a + b;
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

} // namespace
} // namespace mailgrad
