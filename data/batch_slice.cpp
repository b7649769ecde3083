#include <mailgrad/data/batch_slice.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace mailgrad {

namespace {

/// The tensors whose first axis counts the samples.
constexpr std::array<tensor batch::*, 3> by_sample{&batch::features, &batch::categories, &batch::labels};

void slice_rows(const tensor& whole, std::size_t first, std::size_t count, tensor& out) {
  shape dims = whole.dims();
  const std::size_t row_bytes = dims[0] == 0 ? 0 : dims.size() / dims[0] * byte_size(whole.type());
  dims[0] = count;
  if (out.data() == nullptr || out.dims() != dims || out.type() != whole.type())
    out = tensor(dims, whole.type());
  std::memcpy(out.data(), whole.data() + first * row_bytes, count * row_bytes);
}

void slice_entries(const batch& whole, std::size_t first, std::size_t count, batch& out) {
  const auto offsets = whole.offsets.values<std::int32_t>();
  const auto begin = static_cast<std::size_t>(offsets[first]);
  const auto end = static_cast<std::size_t>(offsets[first + count]);
  if (out.columns.size() != whole.columns.size()) {
    out.columns = tensor(whole.columns.dims(), dtype::int32);
    out.values = tensor(whole.values.dims());
  }
  const auto columns = out.columns.values<std::int32_t>();
  const auto values = out.values.values();
  std::ranges::fill(columns, -1);
  std::ranges::fill(values, 0.0F);
  std::ranges::copy(whole.columns.values<std::int32_t>().subspan(begin, end - begin), columns.begin());
  std::ranges::copy(whole.values.values().subspan(begin, end - begin), values.begin());
  if (out.offsets.size() != count + 1) out.offsets = tensor({count + 1}, dtype::int32);
  for (std::size_t i = 0; i <= count; ++i)
    out.offsets.values<std::int32_t>()[i] = offsets[first + i] - offsets[first];
  out.nonzeros = end - begin;
}

} // namespace

void slice_batch(const batch& whole, std::size_t first, std::size_t count, batch& out) {
  if (first > whole.size || count > whole.size - first)
    throw std::out_of_range(
        fmt::format("batch: samples {} to {} of a batch of {}", first, first + count, whole.size));
  for (tensor batch::*const part : by_sample)
    if ((whole.*part).data() != nullptr) slice_rows(whole.*part, first, count, out.*part);
  out.inputs.resize(whole.inputs.size());
  for (std::size_t i = 0; i < whole.inputs.size(); ++i)
    slice_rows(whole.inputs[i], first, count, out.inputs[i]);
  if (whole.offsets.data() != nullptr) slice_entries(whole, first, count, out);
  out.size = count;
  out.number = whole.number;
  out.epoch = whole.epoch;
}

} // namespace mailgrad
