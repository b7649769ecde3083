#pragma once

#include <string_view>

namespace mailgrad {

/// The names under which a batch feeds a program:
///
///     dense and token sets   features, labels
///     sparse sets            columns, values, offsets, labels
///     sets of categories     categories, labels, and features where samples also have numbers
///     sets of named arrays   each array by its own name, labels
namespace batch_input {
inline constexpr std::string_view features = "features";
inline constexpr std::string_view columns = "columns";
inline constexpr std::string_view values = "values";
inline constexpr std::string_view offsets = "offsets";
inline constexpr std::string_view categories = "categories";
inline constexpr std::string_view labels = "labels";
} // namespace batch_input

} // namespace mailgrad
