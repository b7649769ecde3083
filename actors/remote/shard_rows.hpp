#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {
struct wire_format;
}

namespace mailgrad::remote {

/// The rows of a table that lie in one shard, in their order.
struct rows_of_shard {
  std::vector<std::int32_t> rows;
  std::vector<float> values;
};

rows_of_shard rows_in(const parameter_layout& layout, const gradient_rows& part, std::uint32_t shard);
/// Those rows as float32.
std::string encoded_rows_of(const parameter_layout& layout, const gradient_rows& part, std::uint32_t shard);
/// Adds the rows of one table to a gradient, from the bytes of a peer.
///
/// Errors  archive_error: there is no such table, or the bytes are no rows of it.
void decode_table(const wire_format& format, const parameter_layout& layout, std::size_t variable,
                  std::string_view rows, gradient& into);

} // namespace mailgrad::remote
