#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/pooling.hpp>

namespace mailgrad::cuda {
namespace {

template <class T, unsigned count>
struct alignas(sizeof(T) * count) channels_of {
  T v[count];
};

template <unsigned count>
using floats = channels_of<float, count>;
template <unsigned count>
using positions = channels_of<std::int32_t, count>;

/// Positions from `first` up to but not including `last`.
struct range {
  std::int32_t first, last;
};

struct pool_axis {
  std::int32_t extent, windows, length, stride, pad;
  divider<std::uint32_t> by_stride;

  /// The positions of a window that lie inside the image.
  __device__ range inside(std::int32_t window) const {
    const std::int32_t start = window * stride - pad;
    return {start < 0 ? -start : 0, start + length > extent ? extent - start : length};
  }
  /// The windows that have a pixel.
  __device__ range around(std::int32_t pixel) const {
    const std::int32_t at = pixel + pad, last = in_strides(at) + 1;
    return {at < length ? 0 : in_strides(at - length) + 1, last < windows ? last : windows};
  }

private:
  __device__ std::int32_t in_strides(std::int32_t distance) const {
    return static_cast<std::int32_t>(by_stride(static_cast<std::uint32_t>(distance)));
  }
};

struct pool_numbers {
  pool_axis down, across;
  std::uint32_t channels;
  divider<std::uint32_t> by_packs, by_width, by_out_width, by_height, by_out_height;
  __device__ std::size_t pixel(std::uint32_t image, std::int32_t row, std::int32_t column) const {
    return ((std::size_t{image} * down.extent + row) * across.extent + column) * channels;
  }
  __device__ std::size_t window(std::uint32_t image, std::int32_t i, std::int32_t j) const {
    return ((std::size_t{image} * down.windows + i) * across.windows + j) * channels;
  }
};

struct pack_place {
  std::uint32_t image;
  std::int32_t row, column;
  std::uint32_t channel;
};

template <unsigned count>
__device__ pack_place place_of(std::uint32_t k, const divider<std::uint32_t>& packs,
                               const divider<std::uint32_t>& width, const divider<std::uint32_t>& height) {
  const std::uint32_t pixel = packs.divide(k);
  std::uint32_t column = pixel;
  std::uint32_t row = width.divide(column);
  const std::uint32_t image = height.divide(row);
  return {image, static_cast<std::int32_t>(row), static_cast<std::int32_t>(column), k * count};
}

template <class Pack, class T>
__device__ Pack pack_at(const T* from) {
  return *reinterpret_cast<const Pack*>(from);
}

template <unsigned count>
__global__ void max_pool_kernel(pool_numbers g, const float* x, float* y, std::int32_t* chosen,
                                std::uint32_t packs) {
  for (std::size_t k = grid_thread(); k < packs; k += grid_threads()) {
    const pack_place at =
        place_of<count>(static_cast<std::uint32_t>(k), g.by_packs, g.by_out_width, g.by_out_height);
    const range rows = g.down.inside(at.row), columns = g.across.inside(at.column);
    if (rows.first >= rows.last || columns.first >= columns.last) continue; // the host writes nothing either
    const std::int32_t top = at.row * g.down.stride - g.down.pad;
    const std::int32_t left = at.column * g.across.stride - g.across.pad;
    floats<count> best;
    positions<count> where;
    bool first = true;
    for (std::int32_t r = rows.first; r < rows.last; ++r)
      for (std::int32_t c = columns.first; c < columns.last; ++c) {
        const auto values = pack_at<floats<count>>(x + g.pixel(at.image, top + r, left + c) + at.channel);
#pragma unroll
        for (unsigned i = 0; i < count; ++i) {
          const float value = values.v[i];
          // A NaN is chosen and kept.
          const bool better = first || (!(value <= best.v[i]) && best.v[i] == best.v[i]);
          best.v[i] = better ? value : best.v[i];
          where.v[i] = better ? r * g.across.length + c : where.v[i];
        }
        first = false;
      }
    *reinterpret_cast<floats<count>*>(y + k * count) = best;
    *reinterpret_cast<positions<count>*>(chosen + k * count) = where;
  }
}

template <unsigned count>
__global__ void average_pool_kernel(pool_numbers g, const float* x, float* y, std::uint32_t packs) {
  for (std::size_t k = grid_thread(); k < packs; k += grid_threads()) {
    const pack_place at =
        place_of<count>(static_cast<std::uint32_t>(k), g.by_packs, g.by_out_width, g.by_out_height);
    const range rows = g.down.inside(at.row), columns = g.across.inside(at.column);
    const std::int32_t top = at.row * g.down.stride - g.down.pad;
    const std::int32_t left = at.column * g.across.stride - g.across.pad;
    floats<count> mean{};
    for (std::int32_t r = rows.first; r < rows.last; ++r)
      for (std::int32_t c = columns.first; c < columns.last; ++c) {
        const auto values = pack_at<floats<count>>(x + g.pixel(at.image, top + r, left + c) + at.channel);
#pragma unroll
        for (unsigned i = 0; i < count; ++i) mean.v[i] += values.v[i];
      }
    const bool none = rows.first >= rows.last || columns.first >= columns.last;
    const auto size =
        static_cast<float>(none ? 0 : (rows.last - rows.first) * (columns.last - columns.first));
#pragma unroll
    for (unsigned i = 0; i < count; ++i) mean.v[i] /= size;
    *reinterpret_cast<floats<count>*>(y + k * count) = mean;
  }
}

/// The part of dx that comes from windows whose largest value was this pixel.
template <unsigned count>
struct chosen_parts {
  const float* dy;
  const std::int32_t* chosen;
  __device__ void add(floats<count>& sum, const pool_numbers& g, std::size_t at, std::int32_t position,
                      std::int32_t, std::int32_t) const {
    (void)g;
    const auto gradient = pack_at<floats<count>>(dy + at);
    const auto where = pack_at<positions<count>>(chosen + at);
#pragma unroll
    for (unsigned i = 0; i < count; ++i) sum.v[i] += where.v[i] == position ? gradient.v[i] : 0.0F;
  }
};

/// The part of dx that comes from windows whose mean this pixel is in.
template <unsigned count>
struct equal_parts {
  const float* dy;
  __device__ void add(floats<count>& sum, const pool_numbers& g, std::size_t at, std::int32_t, std::int32_t i,
                      std::int32_t j) const {
    const range rows = g.down.inside(i), columns = g.across.inside(j);
    const auto size = static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
    const auto gradient = pack_at<floats<count>>(dy + at);
#pragma unroll
    for (unsigned n = 0; n < count; ++n) sum.v[n] += gradient.v[n] / size;
  }
};

template <unsigned count, class Parts>
__global__ void gather_gradients_kernel(pool_numbers g, Parts parts, float* dx, std::uint32_t packs) {
  for (std::size_t k = grid_thread(); k < packs; k += grid_threads()) {
    const pack_place at = place_of<count>(static_cast<std::uint32_t>(k), g.by_packs, g.by_width, g.by_height);
    const range down = g.down.around(at.row), across = g.across.around(at.column);
    floats<count> sum{};
    for (std::int32_t i = down.first; i < down.last; ++i)
      for (std::int32_t j = across.first; j < across.last; ++j) {
        const std::int32_t row = at.row + g.down.pad - i * g.down.stride;
        const std::int32_t column = at.column + g.across.pad - j * g.across.stride;
        parts.add(sum, g, g.window(at.image, i, j) + at.channel, row * g.across.length + column, i, j);
      }
    *reinterpret_cast<floats<count>*>(dx + k * count) = sum;
  }
}

pool_numbers numbers_of(const window_grid& g, unsigned count) {
  const auto by = [](std::size_t n) { return divider<std::uint32_t>(std::max<std::size_t>(n, 1)); };
  const auto axis = [&](std::size_t extent, std::size_t windows, std::size_t length, std::size_t stride,
                        std::size_t pad) {
    for (const std::size_t n : {extent, windows, length, stride, pad, windows * stride + length})
      if (n >= std::size_t{1} << 30) throw shape_error("pooling: a GPU takes images of fewer than 2^30 rows");
    return pool_axis{static_cast<std::int32_t>(extent), static_cast<std::int32_t>(windows),
                     static_cast<std::int32_t>(length), static_cast<std::int32_t>(stride),
                     static_cast<std::int32_t>(pad),    by(stride)};
  };
  pool_numbers made{axis(g.height, g.out_height, g.rows, g.stride_rows, g.pad_top),
                    axis(g.width, g.out_width, g.columns, g.stride_columns, g.pad_left),
                    static_cast<std::uint32_t>(g.channels),
                    by(g.channels / count),
                    by(g.width),
                    by(g.out_width),
                    by(g.height),
                    by(g.out_height)};
  return made;
}

constexpr unsigned four = float_pack::size;

/// Calls queue.template operator()<count>(numbers, first image, number of packs) with packs of four channels,
/// or of one, for as many images at a time as can be counted in 32 bits. `size` is that of what the kernel
/// writes of an image.
template <class Queue>
void for_images(const cuda_stream& s, const char* name, const window_grid& g, std::size_t size, bool packs,
                Queue queue) {
  if (size == 0) return;
  packs = packs && g.channels % four == 0;
  const pool_numbers numbers = numbers_of(g, packs ? four : 1);
  for_row_chunks(s, name, g.batch, std::max(size, g.image_size()), [&](std::size_t first, std::size_t count) {
    const std::size_t n = count * size;
    if (packs)
      queue.template operator()<four>(numbers, first, static_cast<std::uint32_t>(n / four));
    else
      queue.template operator()<1>(numbers, first, static_cast<std::uint32_t>(n));
  });
}

std::size_t result_size(const window_grid& g) { return g.windows() * g.channels; }

void max_pool(const cuda_stream& s, const window_grid& g, const float* x, float* y, std::int32_t* chosen) {
  const std::size_t from = g.image_size(), to = result_size(g);
  for_images(s, "max_pool", g, to, are_packs(x, y, chosen),
             [&]<unsigned count>(const pool_numbers& n, std::size_t first, std::uint32_t packs) {
               launch(s, "max_pool", blocks_for(packs), threads_per_block, 0, max_pool_kernel<count>, n,
                      x + first * from, y + first * to, chosen + first * to, packs);
             });
}

void max_pool_gradient(const cuda_stream& s, const window_grid& g, const float* dy,
                       const std::int32_t* chosen, float* dx) {
  const std::size_t from = result_size(g), to = g.image_size();
  for_images(s, "max_pool_gradient", g, to, are_packs(dy, chosen, dx),
             [&]<unsigned count>(const pool_numbers& n, std::size_t first, std::uint32_t packs) {
               const chosen_parts<count> parts{dy + first * from, chosen + first * from};
               launch(s, "max_pool_gradient", blocks_for(packs), threads_per_block, 0,
                      gather_gradients_kernel<count, chosen_parts<count>>, n, parts, dx + first * to, packs);
             });
}

void average_pool(const cuda_stream& s, const window_grid& g, const float* x, float* y) {
  const std::size_t from = g.image_size(), to = result_size(g);
  for_images(s, "average_pool", g, to, are_packs(x, y),
             [&]<unsigned count>(const pool_numbers& n, std::size_t first, std::uint32_t packs) {
               launch(s, "average_pool", blocks_for(packs), threads_per_block, 0, average_pool_kernel<count>,
                      n, x + first * from, y + first * to, packs);
             });
}

void average_pool_gradient(const cuda_stream& s, const window_grid& g, const float* dy, float* dx) {
  const std::size_t from = result_size(g), to = g.image_size();
  for_images(s, "average_pool_gradient", g, to, are_packs(dy, dx),
             [&]<unsigned count>(const pool_numbers& n, std::size_t first, std::uint32_t packs) {
               const equal_parts<count> parts{dy + first * from};
               launch(s, "average_pool_gradient", blocks_for(packs), threads_per_block, 0,
                      gather_gradients_kernel<count, equal_parts<count>>, n, parts, dx + first * to, packs);
             });
}

} // namespace

MAILGRAD_GPU_BODY(max_pool)
MAILGRAD_GPU_BODY(max_pool_gradient)
MAILGRAD_GPU_BODY(average_pool)
MAILGRAD_GPU_BODY(average_pool_gradient)

} // namespace mailgrad::cuda
