#pragma once

#include <mailgrad/data/dataset.hpp>

#include <random>

namespace mailgrad::bench {

inline constexpr std::size_t tables = 8;
inline constexpr std::size_t rows_in_table = 100'000;
inline constexpr std::size_t category_samples = 256 * 1000;

/// Samples of eight categories drawn uniformly, which is the worst case for caches, and a number to predict.
inline data_split random_categories() {
  std::mt19937_64 random(1);
  categorical_features f{std::vector<std::size_t>(tables, rows_in_table), {}, 0, {}};
  std::vector<float> targets;
  for (std::size_t i = 0; i < category_samples; ++i) {
    for (std::size_t j = 0; j < tables; ++j)
      f.categories.push_back(static_cast<std::int32_t>(random() % rows_in_table));
    targets.push_back(static_cast<float>(random() >> 11) * 0x1p-53F);
  }
  return {{std::move(f), std::move(targets)}, {}, "random categories", {}};
}

} // namespace mailgrad::bench
