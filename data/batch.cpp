#include <mailgrad/data/batch.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>

namespace mailgrad {

namespace {

using sample_ids = std::span<const std::uint32_t>;

void reshape(tensor& t, const shape& dims, dtype type) {
  if (t.data() == nullptr || t.dims() != dims || t.type() != type) t = tensor(dims, type);
}

shape rows_of(std::size_t n, const shape& sample_dims) {
  std::array<std::size_t, shape::max_rank> extents{n};
  std::ranges::copy(sample_dims, extents.begin() + 1);
  return shape(std::span(extents).first(sample_dims.rank() + 1));
}

/// The rows of a batch lie scattered, so the next one is prefetched while this one is converted.
void prefetch(const std::uint8_t* row, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += block::alignment) __builtin_prefetch(row + i);
}
void scale_row(const std::uint8_t* row, std::size_t n, float scale, float* out) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(row[i]) * scale;
}

void fill(const byte_features& f, sample_ids samples, batch& out) {
  const std::size_t n = f.dims.size();
  float* to = out.features.values().data();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i + 1 < samples.size()) prefetch(f.values.data() + samples[i + 1] * n, n);
    scale_row(f.values.data() + samples[i] * n, n, f.scale, to + i * n);
  }
}

template <class T>
void copy_rows(std::span<const T> all, std::size_t width, sample_ids samples, std::span<T> out) {
  T* to = out.data();
  if (width == 1)
    for (const std::uint32_t i : samples) *to++ = all[i];
  else
    for (const std::uint32_t i : samples) to = std::copy_n(all.data() + i * width, width, to);
}

void fill(const float_features& f, sample_ids samples, batch& out) {
  copy_rows(std::span(f.values), f.dims.size(), samples, out.features.values());
}
void fill(const categorical_features& f, sample_ids samples, batch& out) {
  copy_rows(std::span(f.categories), f.counts.size(), samples, out.categories.values<std::int32_t>());
  if (f.width > 0) copy_rows(std::span(f.values), f.width, samples, out.features.values());
}

void fill(const named_arrays& f, sample_ids samples, batch& out) {
  for (std::size_t k = 0; k < out.inputs.size(); ++k) {
    const sample_array& from = f.all()[k].values;
    const std::size_t width = from.sample_dims().size();
    if (from.type() == dtype::float32)
      copy_rows(from.values(), width, samples, out.inputs[k].values());
    else
      copy_rows(from.values<std::int32_t>(), width, samples, out.inputs[k].values<std::int32_t>());
  }
}

void fill(const token_windows& f, sample_ids samples, batch& out) {
  std::int32_t* inputs = out.features.values<std::int32_t>().data();
  std::int32_t* targets = out.labels.values<std::int32_t>().data();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int32_t* window = f.tokens.data() + samples[i] * f.stride;
    std::copy_n(window, f.length, inputs + i * f.length);
    std::copy_n(window + 1, f.length, targets + i * f.length);
  }
}

std::size_t count_entries(const sparse_features& f, sample_ids samples) {
  return std::transform_reduce(samples.begin(), samples.end(), std::size_t{0}, std::plus<>{},
                               [&](std::uint32_t i) { return f.offsets[i + 1] - f.offsets[i]; });
}

void fill(const sparse_features& f, sample_ids samples, batch& out) {
  const auto columns = out.columns.values<std::int32_t>();
  const auto values = out.values.values();
  const auto offsets = out.offsets.values<std::int32_t>();
  std::size_t end = 0;
  offsets[0] = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t first = f.offsets[samples[i]];
    const std::size_t count = f.offsets[samples[i] + 1] - first;
    std::copy_n(f.columns.data() + first, count, columns.data() + end);
    std::copy_n(f.values.data() + first, count, values.data() + end);
    end += count;
    offsets[i + 1] = static_cast<std::int32_t>(end);
  }
  // Entries of the last fill may lie behind the new ones; the padding behind those is still in place.
  const std::size_t stale = std::max(end, std::min(out.nonzeros, columns.size()));
  std::ranges::fill(columns.subspan(end, stale - end), -1);
  std::ranges::fill(values.subspan(end, stale - end), 0.0F);
  out.nonzeros = end;
}

void require_samples(const dataset& d, sample_ids samples) {
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < samples.size(); ++i) largest = std::max(largest, samples[i]);
  if (!samples.empty() && largest >= d.size())
    throw std::out_of_range(fmt::format("batch: sample {} of a set of {}", largest, d.size()));
}

void slice_rows(const tensor& whole, std::size_t first, std::size_t count, tensor& out) {
  shape dims = whole.dims();
  const std::size_t row_bytes = dims[0] == 0 ? 0 : dims.size() / dims[0] * byte_size(whole.type());
  dims[0] = count;
  reshape(out, dims, whole.type());
  std::memcpy(out.data(), whole.data() + first * row_bytes, count * row_bytes);
}

void slice_entries(const batch& whole, std::size_t first, std::size_t count, batch& out) {
  const auto offsets = whole.offsets.values<std::int32_t>().subspan(first, count + 1);
  const auto begin = static_cast<std::size_t>(offsets.front());
  out.nonzeros = static_cast<std::size_t>(offsets.back()) - begin;
  reshape(out.columns, whole.columns.dims(), dtype::int32);
  reshape(out.values, whole.values.dims(), dtype::float32);
  reshape(out.offsets, {count + 1}, dtype::int32);
  const auto columns = out.columns.values<std::int32_t>();
  const auto values = out.values.values();
  std::ranges::fill(columns, -1);
  std::ranges::fill(values, 0.0F);
  std::ranges::copy(whole.columns.values<std::int32_t>().subspan(begin, out.nonzeros), columns.begin());
  std::ranges::copy(whole.values.values().subspan(begin, out.nonzeros), values.begin());
  std::ranges::transform(offsets, out.offsets.values<std::int32_t>().begin(),
                         [&](std::int32_t offset) { return offset - offsets.front(); });
}

/// The room for entries that `out` needs for these samples. It keeps the room it has if that is enough.
std::size_t room_for(const dataset& d, sample_ids samples, const batch& out) {
  const auto* sparse = std::get_if<sparse_features>(&d.features());
  if (sparse == nullptr) return out.columns.size();
  const std::size_t needed = count_entries(*sparse, samples);
  if (needed <= out.columns.size()) return out.columns.size();
  return std::max(needed, max_nonzeros(d, samples.size())); // a sample that comes twice counts twice
}

} // namespace

std::size_t max_nonzeros(const dataset& d, std::size_t samples) {
  const auto* f = std::get_if<sparse_features>(&d.features());
  if (f == nullptr) return 0;
  std::vector<std::size_t> lengths(d.size());
  std::transform(f->offsets.begin() + 1, f->offsets.end(), f->offsets.begin(), lengths.begin(),
                 std::minus<>{});
  const auto longest = static_cast<std::ptrdiff_t>(std::min(samples, lengths.size()));
  std::ranges::nth_element(lengths, lengths.begin() + longest, std::greater<>{});
  return std::accumulate(lengths.begin(), lengths.begin() + longest, std::size_t{0});
}

std::size_t count_entries(const dataset& d, std::span<const std::uint32_t> samples) {
  require_samples(d, samples);
  const auto* f = std::get_if<sparse_features>(&d.features());
  return f == nullptr ? 0 : count_entries(*f, samples);
}

std::size_t bytes_of(const batch& b) {
  std::size_t bytes = 0;
  const auto add = [&](const tensor& t) { bytes += t.size() * byte_size(t.type()); };
  for (const tensor* t : {&b.features, &b.columns, &b.values, &b.offsets, &b.categories, &b.labels}) add(*t);
  for (const tensor& input : b.inputs) add(input);
  return bytes;
}

void shape_batch(const dataset& d, std::size_t samples, std::size_t nonzeros, batch& out) {
  out.size = samples;
  reshape(out.labels, rows_of(samples, d.is_tokens() ? d.sample_dims() : d.target_dims()),
          d.has_targets() ? dtype::float32 : dtype::int32);
  if (const named_arrays* arrays = d.arrays()) {
    out.inputs.resize(arrays->all().size());
    for (std::size_t k = 0; k < out.inputs.size(); ++k) {
      const sample_array& from = arrays->all()[k].values;
      reshape(out.inputs[k], rows_of(samples, from.sample_dims()), from.type());
    }
    return;
  }
  if (!d.is_sparse()) {
    const auto counts = d.category_counts();
    if (!counts.empty()) reshape(out.categories, {samples, counts.size()}, dtype::int32);
    if (counts.empty() || d.sample_dims().size() > 0)
      reshape(out.features, rows_of(samples, d.sample_dims()), d.is_tokens() ? dtype::int32 : dtype::float32);
    return;
  }
  reshape(out.offsets, {samples + 1}, dtype::int32);
  if (out.columns.data() != nullptr && out.columns.size() == nonzeros) return;
  reshape(out.values, {nonzeros}, dtype::float32);
  reshape(out.columns, {nonzeros}, dtype::int32);
  std::ranges::fill(out.columns.values<std::int32_t>(), -1);
  out.nonzeros = 0;
}

void fill_batch(const dataset& d, std::span<const std::uint32_t> samples, batch& out) {
  require_samples(d, samples);
  shape_batch(d, samples.size(), room_for(d, samples, out), out);
  std::visit([&](const auto& f) { fill(f, samples, out); }, d.features());
  if (d.is_tokens()) return;
  if (d.has_targets())
    copy_rows(d.targets(), d.target_dims().size(), samples, out.labels.values());
  else
    copy_rows(d.labels(), 1, samples, out.labels.values<std::int32_t>());
}

void slice_batch(const batch& whole, std::size_t first, std::size_t count, batch& out) {
  if (first > whole.size || count > whole.size - first)
    throw std::out_of_range(
        fmt::format("batch: samples {} to {} of a batch of {}", first, first + count, whole.size));
  for (tensor batch::*const part : {&batch::features, &batch::categories, &batch::labels})
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
