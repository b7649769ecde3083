#include <mailgrad/tests/engine/layouts.hpp>

#include <mailgrad/engine/model/bound_model.hpp>

#include <gtest/gtest.h>

#include <numeric>

namespace mailgrad {
namespace {

using testing::layout_of;

/// A flat vector whose every float is its own place.
std::vector<float> places(const parameter_layout& layout) {
  std::vector<float> values(layout.size());
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

void use_all(weight_addresses& addresses, const parameter_layout& layout, const std::vector<float>& flat) {
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    addresses.use(s, flat.data() + layout.shard(s).begin);
}

TEST(WeightAddresses, ReadAVariableWhereItsShardPublishedIt) {
  const parameter_layout layout = layout_of({{"w", {4, 8}}, {"b", {8}}}, 1);
  const std::vector<float> flat = places(layout);
  weight_addresses addresses(layout);
  addresses.use(0, flat.data());
  for (std::size_t v = 0; v < 2; ++v)
    EXPECT_EQ(addresses.of(v), flat.data() + layout.variables()[v].offset) << "no copy is made";
}

class WeightAddressesCut : public ::testing::TestWithParam<std::size_t> {};

TEST_P(WeightAddressesCut, FindEveryVariableInOnePiece) {
  const parameter_layout layout =
      layout_of({{"w1", {9, 17}}, {"b1", {17}}, {"w2", {17, 5}}, {"table", {40, 3}, true}}, GetParam());
  ASSERT_EQ(layout.shard_count(), GetParam());
  const std::vector<float> flat = places(layout);
  weight_addresses addresses(layout);
  use_all(addresses, layout, flat);
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const placed_variable& variable = layout.variables()[v];
    for (std::size_t i = 0; i < variable.dims.size(); ++i)
      ASSERT_EQ(addresses.of(v)[i], flat[variable.offset + i]) << variable.name << '[' << i << ']';
  }
}

INSTANTIATE_TEST_SUITE_P(AnyNumberOfShards, WeightAddressesCut, ::testing::Values(1, 2, 3, 5, 8));

TEST(WeightAddresses, FollowANewSnapshotOfOneShardOnly) {
  const parameter_layout layout = layout_of({{"w", {6, 16}}}, 2);
  ASSERT_EQ(layout.pieces(0).size(), 2U) << "the cut runs through the variable";
  std::vector<float> flat = places(layout);
  weight_addresses addresses(layout);
  use_all(addresses, layout, flat);

  const variable_piece second = layout.pieces(0)[1];
  const std::vector<float> newer(layout.shard(1).size(), -1.0F);
  addresses.use(1, newer.data());
  for (std::size_t i = 0; i < 96; ++i)
    ASSERT_EQ(addresses.of(0)[i], i < second.offset_in_variable ? static_cast<float>(i) : -1.0F) << i;
}

TEST(WeightAddresses, KeepAJoinedVariableWhereItIs) {
  const parameter_layout layout = layout_of({{"w", {6, 16}}}, 2);
  const std::vector<float> flat = places(layout);
  weight_addresses addresses(layout);
  use_all(addresses, layout, flat);
  const float* const before = addresses.of(0);
  use_all(addresses, layout, std::vector<float>(layout.size(), 2.0F));
  EXPECT_EQ(addresses.of(0), before);
  EXPECT_EQ(before[0], 2.0F);
}

} // namespace
} // namespace mailgrad
