#include <mailgrad/data/dataset.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using floats = std::vector<float>;
using ints = std::vector<std::int32_t>;
const ints two_labels{0, 1};

TEST(SamplesDigest, IsTheSameForTheSameSamples) {
  const auto made = [] { return dataset{byte_features{{2}, {1, 2, 3, 4}}, two_labels, 2}; };
  EXPECT_EQ(digest_of(made()), digest_of(made()));
  EXPECT_EQ(digest_of(made()).size(), 64U);
}

TEST(SamplesDigest, DiffersWithWhateverABatchIsCutFrom) {
  const std::vector<std::pair<std::string, dataset>> all{
      {"bytes", {byte_features{{2}, {1, 2, 3, 4}}, two_labels, 2}},
      {"another byte", {byte_features{{2}, {1, 2, 3, 5}}, two_labels, 2}},
      {"another scale", {byte_features{{2}, {1, 2, 3, 4}, 1.0F / 128}, two_labels, 2}},
      {"another shape", {byte_features{{1, 2}, {1, 2, 3, 4}}, two_labels, 2}},
      {"another label", {byte_features{{2}, {1, 2, 3, 4}}, ints{1, 1}, 2}},
      {"more classes", {byte_features{{2}, {1, 2, 3, 4}}, two_labels, 3}},
      {"numbers", {float_features{{2}, {1, 2, 3, 4}}, two_labels, 2}},
      {"targets", {float_features{{2}, {1, 2, 3, 4}}, floats{0, 1}}},
      {"another target", {float_features{{2}, {1, 2, 3, 4}}, floats{0, 2}}},
      {"sparse", {sparse_features{4, {0, 1, 2}, {0, 1}, {1, 2}}, two_labels, 2}},
      {"sparse, another row", {sparse_features{4, {0, 2, 2}, {0, 1}, {1, 2}}, two_labels, 2}},
      {"sparse, another column", {sparse_features{4, {0, 1, 2}, {0, 2}, {1, 2}}, two_labels, 2}},
      {"sparse, another width", {sparse_features{5, {0, 1, 2}, {0, 1}, {1, 2}}, two_labels, 2}},
      {"tokens", {token_windows{{0, 1, 0, 1, 1}, 2, 2}, {}, 2}},
      {"another stride", {token_windows{{0, 1, 0, 1, 1}, 2, 1}, {}, 2}},
      {"another window", {token_windows{{0, 1, 0, 1, 1}, 1, 2}, {}, 2}},
      {"categories", {categorical_features{{2, 3}, {0, 2, 1, 1}, 0, {}}, floats{0, 1}}},
      {"more categories", {categorical_features{{2, 4}, {0, 2, 1, 1}, 0, {}}, floats{0, 1}}},
      {"categories and numbers", {categorical_features{{2, 3}, {0, 2, 1, 1}, 1, {5, 6}}, floats{0, 1}}},
      {"arrays",
       dataset::from({{"a", sample_array({2, 1}, floats{1, 2})}}, sample_array({2}, two_labels), 2)},
      {"an array of another name",
       dataset::from({{"b", sample_array({2, 1}, floats{1, 2})}}, sample_array({2}, two_labels), 2)},
  };
  std::set<std::string> digests;
  for (const auto& [what, d] : all) EXPECT_TRUE(digests.insert(digest_of(d)).second) << what;
}

} // namespace
} // namespace mailgrad
