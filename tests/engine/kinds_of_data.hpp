#pragma once

#include <mailgrad/data/dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

// Small sets of the kinds that small_problem.hpp has not: pictures, text and tables.

namespace mailgrad::testing {

inline std::shared_ptr<const data_split> pictures(std::size_t side = 8, std::size_t classes = 3,
                                                  std::size_t train = 32, std::size_t test = 8) {
  const auto drawn = [&](std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> pixels(count * side * side);
    for (float& p : pixels) p = static_cast<float>(random() >> 11) * 0x1p-53F;
    std::vector<std::int32_t> labels(count);
    for (std::int32_t& l : labels) l = static_cast<std::int32_t>(random() % classes);
    return dataset{float_features{{side, side, 1}, std::move(pixels)}, std::move(labels), classes};
  };
  return std::make_shared<data_split>(data_split{drawn(train, 1), drawn(test, 2), "pictures", {}});
}

inline std::shared_ptr<const data_split> text() {
  const auto squares = [](std::int32_t first) {
    token_windows windows{{}, 6, 6};
    for (std::int32_t i = first; i < first + 6 * 32 + 1; ++i) windows.tokens.push_back(i * i % 5);
    return dataset{std::move(windows), {}, 5};
  };
  return std::make_shared<data_split>(
      data_split{squares(0), squares(500), "text", {"a", "b", "c", "d", "e"}});
}

/// Samples of two categories, each with a table of so many rows.
inline std::shared_ptr<const data_split> tastes(std::size_t users = 6, std::size_t films = 4) {
  const auto drawn = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    categorical_features f{{users, films}, {}, 1, {}};
    std::vector<float> targets;
    for (int i = 0; i < 48; ++i) {
      const std::size_t user = random() % users, film = random() % films;
      f.categories.insert(f.categories.end(),
                          {static_cast<std::int32_t>(user), static_cast<std::int32_t>(film)});
      f.values.push_back(static_cast<float>(user) / static_cast<float>(users));
      targets.push_back(user % 2 == film % 2 ? 1.0F : 0.0F);
    }
    return dataset{std::move(f), std::move(targets)};
  };
  return std::make_shared<data_split>(data_split{drawn(1), drawn(2), "tastes", {}});
}

} // namespace mailgrad::testing
