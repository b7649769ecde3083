#pragma once

#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

// Data of which a batch names few rows of a table, and models that read tables in several ways.

namespace mailgrad::testing {

inline std::shared_ptr<const data_split> tall_tastes(std::size_t users, std::size_t films = 4) {
  return tastes(users, films);
}

/// Sparse samples of up to three entries among so many columns.
inline std::shared_ptr<const data_split> tall_sparse_data(std::size_t columns) {
  const auto drawn = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    sparse_features features{columns, {0}, {}, {}};
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < 48; ++i) {
      const std::size_t first = random() % (columns - 3);
      for (std::size_t column = first; column < first + i % 4; ++column) {
        features.columns.push_back(static_cast<std::int32_t>(column));
        features.values.push_back(1.0F + static_cast<float>(i % 3));
      }
      features.offsets.push_back(features.columns.size());
      labels.push_back(static_cast<std::int32_t>(first % small_classes));
    }
    return dataset{std::move(features), std::move(labels), small_classes};
  };
  return std::make_shared<data_split>(data_split{drawn(1), drawn(2), "tall sparse", {}});
}

inline constexpr const char* tall_recommender = "dlrm:width=4,bottom=6,top=8";

namespace tables {

inline model_outputs answers(graph& g, const value& x, const model_request& request) {
  const value found = dense(flatten(x), 1, "out");
  return {found, mean_squared_error(reshape(found, {request.batch}), g.input("labels", {request.batch}))};
}
inline value categories(graph& g, const model_request& request) {
  return g.input("categories", {request.batch, 2}, dtype::int32);
}
inline value table(graph& g, const char* name, std::size_t rows) {
  return g.variable(name, {rows, 4}, initialiser::uniform(-1, 1));
}

} // namespace tables

/// A table whose rows are named by all categories, and once more by the first one of each sample.
inline model_function table_that_is_read_twice() {
  return [](graph& g, const model_request& request) {
    const value t = tables::table(g, "t", request.categories[0]),
                u = tables::table(g, "u", request.categories[1]), named = tables::categories(g, request);
    return tables::answers(g, concat(std::array{gather(t, named), gather_tables(std::array{t, u}, named)}, 1),
                           request);
  };
}

/// A table whose rows are named by what an operation makes of the categories.
inline model_function table_of_computed_rows() {
  return [](graph& g, const model_request& request) {
    const value named = reshape(tables::categories(g, request), {2 * request.batch});
    const value rows = gather(tables::table(g, "t", request.categories[0]), named);
    return tables::answers(g, reshape(rows, {request.batch, 8}), request);
  };
}

} // namespace mailgrad::testing
