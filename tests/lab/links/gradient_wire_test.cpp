#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>

#include <mailgrad/lab/links/worker_link.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad::lab {
namespace {

using mailgrad::testing::dense_gradient;
using mailgrad::testing::push_of;
using ::testing::ElementsAre;

constexpr step_number none{};

/// What arrives of a gradient of sixteen numbers, of which top-k sends one. The first four are not 0.
class GradientWire : public ::testing::Test {
protected:
  std::vector<float> arrived(gradient_wire& wire, std::vector<float> values, std::uint64_t step,
                             float scale = 1) {
    push_gradient x = push_of(0, step, 0, of(std::move(values)), scale);
    bytes_ = wire.carry(0, x);
    EXPECT_EQ(std::bit_cast<float>(x.header.scale_bits), 1.0F);
    const auto numbers = x.payload.values->dense.on_host<float>();
    return {numbers.begin(), numbers.begin() + 4};
  }
  static std::shared_ptr<gradient> of(std::vector<float> values) {
    values.resize(16);
    return dense_gradient(values);
  }

  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<const parameter_layout>(mailgrad::testing::layout_of({{"w", {16}}}, 1));
  std::size_t bytes_ = 0;
};

TEST_F(GradientWire, KeepsWhatAMessageLacksForTheNextOne) {
  gradient_wire wire({parse_wire_format("top-k:0.0625")}, layout_);
  EXPECT_THAT(arrived(wire, {1, 2, -4, 3}, 1), ElementsAre(0, 0, -4, 0));
  EXPECT_EQ(bytes_, 12 + 8U);
  wire.answered(0, none);
  EXPECT_THAT(arrived(wire, {1, 1, 1, 1}, 2), ElementsAre(0, 0, 0, 4));
}

TEST_F(GradientWire, TakesADiscardedMessageBack) {
  gradient_wire wire({parse_wire_format("top-k:0.0625")}, layout_);
  arrived(wire, {1, 2, -4, 3}, 1);
  wire.answered(0, {1});
  EXPECT_THAT(arrived(wire, {0, 0, 0, 0}, 2), ElementsAre(0, 0, -4, 0));
}

TEST_F(GradientWire, LosesWhatAMessageLacksWithoutFeedback) {
  gradient_wire wire({parse_wire_format("top-k:0.0625"), false}, layout_);
  arrived(wire, {1, 2, -4, 3}, 1);
  wire.answered(0, {1});
  EXPECT_THAT(arrived(wire, {1, 0, 0, 0}, 2), ElementsAre(1, 0, 0, 0));
}

TEST_F(GradientWire, MultipliesTheFactorOfClippingIn) {
  gradient_wire wire({parse_wire_format("float16")}, layout_);
  EXPECT_THAT(arrived(wire, {1, 2, -4, 3}, 1, 0.5), ElementsAre(0.5, 1, -2, 1.5));
}

TEST_F(GradientWire, LetsAnExactGradientThroughAsItIs) {
  gradient_wire wire({}, layout_);
  push_gradient x = push_of(0, 1, 0, of({1, 2, 3, 4}));
  const gradient* const before = x.payload.values.get();
  EXPECT_EQ(wire.carry(0, x), 12 + 4 * 16U);
  EXPECT_EQ(x.payload.values.get(), before);
  EXPECT_EQ(wire.weight_bytes(0), 12 + 4 * 16U);
}

/// Each shard gets its own rows, as a run over processes has it.
TEST(GradientWireOfTables, CarriesTheRowsOfAShard) {
  const auto layout = std::make_shared<const parameter_layout>(
      mailgrad::testing::layout_of({{"dense", {2}}, {"table", {4, 2}, true}}, 1));
  gradient_wire wire({parse_wire_format("bfloat16")}, layout);
  const auto g = dense_gradient(std::vector<float>(layout->dense_size(), 1));
  mailgrad::testing::add_rows(*g, 1, 2, {3, 0}, {1, 2, 3, 4});
  push_gradient x = push_of(0, 1, 0, g);
  EXPECT_EQ(wire.carry(0, x) > 12 + 2 * layout->dense_size(), true);
  ASSERT_EQ(x.payload.values->sparse.size(), 1U);
  EXPECT_THAT(x.payload.values->sparse[0].rows, ElementsAre(3, 0));
  EXPECT_THAT(x.payload.values->sparse[0].values, ElementsAre(1, 2, 3, 4));
}

} // namespace
} // namespace mailgrad::lab
