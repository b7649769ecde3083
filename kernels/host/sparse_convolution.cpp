#include <mailgrad/kernels/host/convolution.hpp>

#include <array>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace mailgrad {
namespace {

template <std::size_t Packets>
void add_terms(float* sum, std::span<const term> terms, const float* base) {
  simd::vector s[Packets]; // a plain array, since a template argument would lose the type's attributes
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) s[i] = simd::load(sum + i * packet_size);
  for (const term& t : terms) {
    const float* run = base + t.offset;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < Packets; ++i) s[i] += t.factor * simd::load(run + i * packet_size);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) simd::store(sum + i * packet_size, s[i]);
}

template <std::size_t... Packets>
constexpr std::array<add_terms_function, sizeof...(Packets)> table(std::index_sequence<Packets...>) {
  return {add_terms<Packets + 1>...};
}

/// Returns the function for runs of n = packets * packet_size floats, 0 < packets <= max_packets. It keeps
/// the sums in registers.
add_terms_function add_terms_of(std::size_t packets) noexcept {
  static constexpr auto by_packets = table(std::make_index_sequence<max_packets>());
  return by_packets[packets - 1];
}

/// How one image is laid out for the sparse kernels: with its padding, and with the channels in blocks. A
/// block is so small that it stays in the L1 cache, and that a row of a window has at most `max_packets`
/// packets.
struct blocked_image {
  explicit blocked_image(const window_grid& g)
      : height((g.out_height - 1) * g.stride_rows + g.rows),
        width((g.out_width - 1) * g.stride_columns + g.columns) {
    const std::size_t packets = (g.channels + packet_size - 1) / packet_size;
    blocks = (packets + max_packets / g.columns - 1) / (max_packets / g.columns);
    channels = (packets + blocks - 1) / blocks * packet_size;
    run = g.columns * channels;
  }

  std::size_t block_size() const noexcept { return height * width * channels; }
  std::size_t size() const noexcept { return blocks * block_size(); }
  std::size_t window_offset(const window_grid& g, std::size_t i, std::size_t j) const noexcept {
    return (i * g.stride_rows * width + j * g.stride_columns) * channels;
  }

  std::size_t height, width;
  std::size_t blocks = 0;
  std::size_t channels = 0; ///< in one block, a multiple of `packet_size`
  std::size_t run = 0;      ///< floats in one row of a window
};

/// The common part of both gradients that skip zeros: the layout of the image and that of the weights.
class sparse_plan : public convolution_plan {
public:
  /// `places`: how many numbers list_terms() keeps to find the terms again.
  sparse_plan(const convolution_shape& c, std::unique_ptr<convolution_plan> dense, std::size_t places)
      : shape_(c), layout_(c.windows), add_terms_(add_terms_of(layout_.run / packet_size)),
        dense_(std::move(dense)), place_count_(places) {}

  std::size_t scratch_bytes() const noexcept override {
    scratch_parts parts;
    take(parts);
    return std::max(parts.used(), dense_->scratch_bytes());
  }

protected:
  struct memory {
    std::span<float> runs, image;
    std::span<term> terms;           ///< with room for every window and output channel
    std::span<std::uint32_t> places; ///< as list_terms() of each gradient says
  };
  memory take(scratch_parts& parts) const {
    return {parts.take<float>(runs_size()), parts.take<float>(layout_.size()),
            parts.take<term>(grid().windows() * shape_.out_channels),
            parts.take<std::uint32_t>(place_count_)};
  }

  const window_grid& grid() const { return shape_.windows; }

  bool too_dense(const float* dy) const {
    std::uint32_t filled = 0;
#pragma omp simd reduction(+ : filled)
    for (std::size_t k = 0; k < shape_.y_size(); ++k) filled += dy[k] != 0.0F ? 1U : 0U;
    return static_cast<double>(filled) > dense_part * static_cast<double>(shape_.y_size());
  }

  /// The offset of the weights of output channel `out`, in row `row` of the window, for channel block
  /// `block`.
  std::size_t run_offset(std::size_t block, std::size_t row, std::size_t out) const {
    return ((block * grid().rows + row) * shape_.out_channels + out) * layout_.run;
  }
  std::size_t runs_size() const { return run_offset(layout_.blocks, 0, 0); }

  /// Calls visit(index in the caller's weights, index in the runs) for each weight.
  template <class Visit>
  void for_each_weight(Visit visit) const {
    std::size_t k = 0;
    for (std::size_t row = 0; row < grid().rows; ++row)
      for (std::size_t column = 0; column < grid().columns; ++column)
        for (std::size_t c = 0; c < grid().channels; ++c) {
          const std::size_t in_run = column * layout_.channels + c % layout_.channels;
          std::size_t in_runs = run_offset(c / layout_.channels, row, 0) + in_run;
          for (std::size_t out = 0; out < shape_.out_channels; ++out, in_runs += layout_.run)
            visit(k++, in_runs);
        }
  }

  /// Calls visit(offset in the caller's image, offset in the blocked image, count) for every pixel and
  /// channel block that a window reaches.
  template <class Visit>
  void for_each_pixel(Visit visit) const {
    const std::size_t rows =
        std::min(grid().height, layout_.height - std::min(layout_.height, grid().pad_top));
    const std::size_t columns =
        std::min(grid().width, layout_.width - std::min(layout_.width, grid().pad_left));
    for (std::size_t block = 0; block < layout_.blocks; ++block) {
      const std::size_t first = block * layout_.channels;
      const std::size_t count = std::min(layout_.channels, grid().channels - first);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j)
          visit((i * grid().width + j) * grid().channels + first,
                block * layout_.block_size() +
                    ((i + grid().pad_top) * layout_.width + j + grid().pad_left) * layout_.channels,
                count);
    }
  }

  convolution_shape shape_;
  blocked_image layout_;
  add_terms_function add_terms_;
  std::unique_ptr<convolution_plan> dense_;
  std::size_t place_count_;
};

std::uint64_t byte_of_mask(const float* values) noexcept {
#ifdef __AVX__
  const __m256 filled = _mm256_cmp_ps(_mm256_loadu_ps(values), _mm256_setzero_ps(), _CMP_NEQ_UQ);
  return static_cast<std::uint64_t>(_mm256_movemask_ps(filled));
#else
  std::uint64_t mask = 0;
  for (std::size_t k = 0; k < 8; ++k) mask |= std::uint64_t{values[k] != 0.0F} << k;
  return mask;
#endif
}

/// Computes dx. Each window adds, for every output channel, dy times the weights of that channel.
class sparse_data_gradient : public sparse_plan {
public:
  sparse_data_gradient(const convolution_shape& c, std::unique_ptr<convolution_plan> dense)
      : sparse_plan(c, std::move(dense), c.windows.windows() + 1) {}

  void run(const stream& s, const float* dy, const float* w, float* dx, void* scratch) override {
    require_host(s, "convolution");
    if (too_dense(dy)) return dense_->run(s, dy, w, dx, scratch);
    scratch_parts parts(static_cast<std::byte*>(scratch));
    const memory m = take(parts);
    std::ranges::fill(m.runs, 0.0F);
    for_each_weight([&](std::size_t ours, std::size_t theirs) { m.runs[theirs] = w[ours]; });
    std::fill_n(dx, shape_.x_size(), 0.0F);
    for (std::size_t image = 0; image < grid().batch; ++image) {
      list_terms(dy + image * grid().windows() * shape_.out_channels, m);
      add_image(m);
      float* to = dx + image * grid().image_size();
      for_each_pixel([&](std::size_t ours, std::size_t theirs, std::size_t count) {
        std::copy_n(&m.image[theirs], count, to + ours);
      });
    }
  }

private:
  /// The terms of all windows, one window after the other. A place is the first term of a window; the last is
  /// the end.
  void list_terms(const float* dy, const memory& m) const {
    std::uint32_t count = 0;
    for (std::size_t window = 0; window < grid().windows(); ++window) {
      m.places[window] = count;
      const float* values = dy + window * shape_.out_channels;
      for_each_filled(values, shape_.out_channels, [&](std::size_t out) {
        m.terms[count++] = {values[out], static_cast<std::uint32_t>(out * layout_.run)};
      });
    }
    m.places[grid().windows()] = count;
  }

  void add_image(const memory& m) const {
    std::ranges::fill(m.image, 0.0F);
    for (std::size_t block = 0; block < layout_.blocks; ++block)
      for (std::size_t row = 0; row < grid().rows; ++row)
        for (std::size_t i = 0; i < grid().out_height; ++i) {
          const inside rows(i, grid().stride_rows, grid().pad_top, grid().rows, grid().height);
          if (row < rows.first || row >= rows.last) continue;
          float* sums = &m.image[block * layout_.block_size() + row * layout_.width * layout_.channels];
          for (std::size_t j = 0; j < grid().out_width; ++j) {
            const std::uint32_t* bounds = &m.places[i * grid().out_width + j];
            add_terms_(sums + layout_.window_offset(grid(), i, j),
                       m.terms.subspan(bounds[0], bounds[1] - bounds[0]), &m.runs[run_offset(block, row, 0)]);
          }
        }
  }
};

/// Computes dw. For each output channel it is the sum of dy times the window, over all windows.
class sparse_weight_gradient : public sparse_plan {
public:
  sparse_weight_gradient(const convolution_shape& c, std::unique_ptr<convolution_plan> dense)
      : sparse_plan(c, std::move(dense), c.out_channels) {}

  void run(const stream& s, const float* x, const float* dy, float* dw, void* scratch) override {
    require_host(s, "convolution");
    if (too_dense(dy)) return dense_->run(s, x, dy, dw, scratch);
    scratch_parts parts(static_cast<std::byte*>(scratch));
    const memory m = take(parts);
    std::ranges::fill(m.runs, 0.0F);
    std::ranges::fill(m.image, 0.0F);
    for (std::size_t image = 0; image < grid().batch; ++image) {
      const float* from = x + image * grid().image_size();
      for_each_pixel([&](std::size_t ours, std::size_t theirs, std::size_t count) {
        std::copy_n(from + ours, count, &m.image[theirs]);
      });
      list_terms(dy + image * grid().windows() * shape_.out_channels, m);
      add_image(m);
    }
    for_each_weight([&](std::size_t ours, std::size_t theirs) { dw[ours] = m.runs[theirs]; });
  }

private:
  /// The terms by output channel, each with room for every window. A place is how many terms a channel has.
  void list_terms(const float* dy, const memory& m) const {
    std::ranges::fill(m.places, 0U);
    for (std::size_t i = 0; i < grid().out_height; ++i)
      for (std::size_t j = 0; j < grid().out_width; ++j, dy += shape_.out_channels) {
        const auto offset = static_cast<std::uint32_t>(layout_.window_offset(grid(), i, j));
        for_each_filled(dy, shape_.out_channels, [&](std::size_t out) {
          m.terms[out * grid().windows() + m.places[out]++] = {dy[out], offset};
        });
      }
  }

  void add_image(const memory& m) const {
    for (std::size_t block = 0; block < layout_.blocks; ++block)
      for (std::size_t row = 0; row < grid().rows; ++row) {
        const float* values = &m.image[block * layout_.block_size() + row * layout_.width * layout_.channels];
        for (std::size_t out = 0; out < shape_.out_channels; ++out)
          add_terms_(&m.runs[run_offset(block, row, out)],
                     m.terms.subspan(out * grid().windows(), m.places[out]), values);
      }
  }
};

} // namespace

std::uint64_t filled_mask(const float* values, std::size_t n) noexcept {
  std::uint64_t mask = 0;
  std::size_t k = 0;
  for (; k + 8 <= n; k += 8) mask |= byte_of_mask(values + k) << k;
  for (; k < n; ++k) mask |= std::uint64_t{values[k] != 0.0F} << k;
  return mask;
}

std::unique_ptr<convolution_plan> plan_sparse_data_gradient(const convolution_shape& c,
                                                            std::unique_ptr<convolution_plan> dense) {
  return std::make_unique<sparse_data_gradient>(c, std::move(dense));
}

std::unique_ptr<convolution_plan> plan_sparse_weight_gradient(const convolution_shape& c,
                                                              std::unique_ptr<convolution_plan> dense) {
  return std::make_unique<sparse_weight_gradient>(c, std::move(dense));
}

} // namespace mailgrad
