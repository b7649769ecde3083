#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/vectors.hpp>

#include <array>
#include <deque>

namespace mailgrad {
namespace {

using testing::expect_close, testing::expect_same, testing::normal_values, testing::positive_values,
    testing::twin;

using GpuAccumulate = testing::gpu_test;

TEST_F(GpuAccumulate, DoesWhatTheHostDoes) {
  for (const std::size_t n : {0U, 1U, 3U, 4U, 2047U, 2048U, 2049U, 100003U})
    for (const std::size_t shift : {0U, 1U}) {
      SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(shift));
      const auto x = given(normal_values(n, 1), shift), more = given(normal_values(n, 2));
      auto sum = wanted(n, shift);
      const auto span_of = [n](auto* first) { return std::span(first, n); };
      on_both([&](const stream& s, auto at) { fill(s, 0.7F, span_of(at(sum))); });
      expect_same(sum);
      on_both([&](const stream& s, auto at) { begin_sum(s, 0.3F, span_of(at(x)), span_of(at(sum))); });
      expect_same(sum);
      on_both([&](const stream& s, auto at) { scale_in_place(s, 1.7F, span_of(at(sum))); });
      expect_same(sum);
      on_both([&](const stream& s, auto at) { add_to_sum(s, 0.9F, span_of(at(more)), span_of(at(sum))); });
      expect_close(sum);
    }
}

class GpuDistance : public testing::gpu_test {
protected:
  void expect_as_on_host(std::size_t n, std::size_t shift) {
    SCOPED_TRACE(std::to_string(n) + " from " + std::to_string(shift));
    const auto a = given(normal_values(n, 1), shift), b = given(normal_values(n, 2));
    auto product = wanted<double>(1), squares = wanted<double>(1);
    on_both([&](const stream& s, auto at) {
      const std::span<const float> left(at(a), n), right(at(b), n);
      inner_product(s, left, right, at(product));
      squared_distance(s, left, right, at(squares));
    });
    EXPECT_NEAR(product.there.read()[0], product.here[0], 1e-13 * static_cast<double>(n));
    EXPECT_NEAR(squares.there.read()[0], squares.here[0], 1e-13 * squares.here[0]);
  }
};

TEST_F(GpuDistance, EqualsThatOfTheHost) {
  for (const std::size_t n : {0U, 1U, 3U, 4U, 1023U, 5000U, 100007U})
    for (const std::size_t shift : {0U, 1U}) expect_as_on_host(n, shift);
  expect_as_on_host(2'200'001, 0); // more than all blocks take in one go
}

TEST_F(GpuDistance, GivesTheSameBitsInEachRun) {
  const auto a = array(normal_values(50'000, 1)), b = array(normal_values(50'000, 2));
  const auto found = unwritten<double>(3);
  inner_product(gpu(), a.span(), b.span(), found.data());
  inner_product(gpu(), a.span(), b.span(), found.data() + 1);
  squared_distance(gpu(), a.span(), a.span(), found.data() + 2);
  EXPECT_EQ(found.read()[0], found.read()[1]);
  EXPECT_EQ(found.read()[2], 0);
}

TEST(HostDistance, IsWrittenWhereItIsAskedFor) {
  const std::vector<float> a{1, 2, 3}, b{4, 5, 7};
  double product = 0, squares = 0;
  inner_product(host_stream{}, a, b, &product);
  squared_distance(host_stream{}, a, b, &squares);
  EXPECT_EQ(product, 35);
  EXPECT_EQ(squares, 34);
}

class GpuMapWeights : public testing::gpu_test {
protected:
  /// Of positive numbers, since some functions take a root of what they keep.
  template <class F>
  void expect_as_on_host(const F& f, std::size_t n, std::size_t shift) {
    std::deque<twin<float>> arrays;
    for (std::size_t i = 0; i < F::reads + F::writes; ++i)
      arrays.push_back(given(positive_values(n, i), shift));
    on_both([&](const stream& s, auto at) {
      std::vector<float*> all;
      for (auto& x : arrays) all.push_back(at(x));
      const std::vector<const float*> reads(all.begin(), all.begin() + F::reads);
      map_weights(s, f, reads, std::span(all).subspan(F::reads), n);
    });
    for (const auto& x : arrays) expect_close(x);
  }
};

const weight_function every_function[] = {scaled_copy{0.3F},
                                          subtraction{},
                                          delay_compensation_step{0.7F, 0.2F},
                                          adaptive_delay_compensation_step{0.7F, 0.2F},
                                          gap_aware_step{0.1F, 1.1F},
                                          worker_velocity_step{0.9F},
                                          forgotten_velocity{},
                                          ahead_velocity_step{0.7F, 0.9F},
                                          look_ahead{0.3F},
                                          elastic_step{0.7F, 0.1F},
                                          elastic_pull{0.1F},
                                          feedback_step{0.7F, 0.9F}};

TEST_F(GpuMapWeights, AppliesEachFunctionAsTheHostDoes) {
  for (const weight_function& function : every_function)
    std::visit(
        [&](const auto& f) {
          SCOPED_TRACE(function.index());
          for (const std::size_t n : {0U, 1U, 5U, 2048U, 5003U})
            for (const std::size_t shift : {0U, 1U}) expect_as_on_host(f, n, shift);
        },
        function);
}

TEST_F(GpuMapWeights, MayReadWhatItWrites) {
  auto w = given(normal_values(1001, 1)), x = given(normal_values(1001, 2));
  on_both([&](const stream& s, auto at) {
    map_weights(s, subtraction{}, std::array<const float*, 2>{at(w), at(x)}, std::array{at(w)}, 1001);
  });
  expect_same(w);
}

} // namespace
} // namespace mailgrad
