#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>
#include <mailgrad/tensor/shape.hpp>
#include <mailgrad/tensor/tensor.hpp>

#include <array>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_refused;

constexpr std::size_t all = ~std::size_t{0};

TEST(Refusals, OfShapesThatNoMemoryHolds) {
  expect_refused({
      {"two extents",
       [] {
         shape{all, 2};
       },
       "more elements than memory can hold"},
      {"a product that wraps to nothing",
       [] {
         shape{std::size_t{1} << 32, std::size_t{1} << 32};
       },
       "4294967296x"},
      {"bytes that wrap", [] { tensor(shape{std::size_t{1} << 62}); }, "more elements"},
      {"nine extents", [] { shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, "at most 8"},
      {"a block that is too large", [] { block b(all); }, "out of memory"},
  });
  EXPECT_EQ((shape{all, 0, all}).size(), 0U) << "of nothing there may be any number";
}

TEST(Refusals, OfWeightsThatAHogwildStoreDoesNotHold) {
  const std::array<float, 20> first{};
  std::vector<float> some(8);
  hogwild_store store(first);
  hogwild_store nothing({});
  expect_refused({
      {"load", [&] { store.load(13, some); }, "8 weights from 13 on, where it holds 20"},
      {"load from behind the end", [&] { store.load(21, std::span(some).first(0)); }, "holds 20"},
      {"load from where counting wraps", [&] { store.load(all, some); }, "holds 20"},
      {"store", [&] { store.store(13, some); }, "8 weights from 13 on, where it holds 20"},
      {"store from where counting wraps", [&] { store.store(all - 3, some); }, "holds 20"},
      {"load of nothing", [&] { nothing.load(0, some); }, "holds 0"},
  });
  store.store(12, some);
  store.load(20, std::span(some).first(0));
}

TEST(Refusals, LeaveNothingBehindInATensorThatWasMoved) {
  tensor t({3});
  const tensor taken = std::move(t);
  EXPECT_EQ(taken.values().size(), 3U);
  EXPECT_TRUE(t.values().empty()); // NOLINT(bugprone-use-after-move): shape 0, by contract
}

TEST(Refusals, OfDevicesThatAreNone) {
  for (const char* name : {"", ":", "cpu:", "cpu:-1", "cpu:99999999999999999999", "tpu:0", "cpu:1x"})
    expect_refused({name, [&] { parse_device(name); }, "device"});
  expect_refused({"not here", [] { require_available({device_kind::cuda, 4294967295U}); }, "not available"});
}

} // namespace
} // namespace mailgrad
