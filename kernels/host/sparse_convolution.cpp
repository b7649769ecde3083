#include <mailgrad/kernels/host/sparse_convolution.hpp>

#include <mailgrad/kernels/no_cuda.hpp>
#include <mailgrad/tensor/block.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace mailgrad {

namespace {

using packet [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
constexpr std::size_t lanes = 8;
constexpr std::size_t max_packets = 12; ///< sums that fit into 16 vector registers beside what they need

/// Part of dy that is dense enough to make skipping slower than oneDNN's dense kernels.
constexpr double dense_part = 0.6;

/// A value that is not zero, and where the run of floats that it multiplies begins.
struct term {
  float factor;
  std::uint32_t offset;
};

/// sum[0 .. 8 Packets) += factor * base[offset .. offset + 8 Packets), over the terms.
template <std::size_t Packets>
void add_terms(float* sum, std::span<const term> terms, const float* base) {
  packet s[Packets]; // no std::array: the attributes of packet are none for a template
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) s[i] = *reinterpret_cast<const packet*>(sum + i * lanes);
  for (const term& t : terms) {
    const packet factor = t.factor - packet{};
    const float* run = base + t.offset;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < Packets; ++i)
      s[i] += factor * *reinterpret_cast<const packet*>(run + i * lanes);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < Packets; ++i) *reinterpret_cast<packet*>(sum + i * lanes) = s[i];
}

using add_terms_function = void (*)(float*, std::span<const term>, const float*);

template <std::size_t... Packets>
constexpr std::array<add_terms_function, sizeof...(Packets)> table(std::index_sequence<Packets...>) {
  return {add_terms<Packets + 1>...};
}
constexpr auto add_terms_by_packets = table(std::make_index_sequence<max_packets>());

/// How one image is laid out for these kernels: with its padding, and channels in blocks so small that a row
/// of a window is a run of at most `max_packets` packets and a block of the image stays in the first cache.
struct blocked_image {
  explicit blocked_image(const window_grid& g)
      : height((g.out_height - 1) * g.stride_rows + g.rows),
        width((g.out_width - 1) * g.stride_columns + g.columns) {
    const std::size_t packets = (g.channels + lanes - 1) / lanes;
    blocks = (packets + max_packets / g.columns - 1) / (max_packets / g.columns);
    channels = (packets + blocks - 1) / blocks * lanes;
    run = g.columns * channels;
  }

  std::size_t block_size() const noexcept { return height * width * channels; }
  std::size_t size() const noexcept { return blocks * block_size(); }
  std::size_t window_offset(const window_grid& g, std::size_t i, std::size_t j) const noexcept {
    return (i * g.stride_rows * width + j * g.stride_columns) * channels;
  }

  std::size_t height, width;
  std::size_t blocks = 0;
  std::size_t channels = 0; ///< of one block, a multiple of 8
  std::size_t run = 0;      ///< floats in one row of a window
};

/// Hands out parts of the scratch memory; without memory, only counts them.
class scratch_parts {
public:
  explicit scratch_parts(std::byte* memory = nullptr) : memory_(memory) {}

  template <class T>
  std::span<T> take(std::size_t count) {
    auto* first = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += aligned(count * sizeof(T));
    return {first, memory_ ? count : 0};
  }
  std::size_t used() const noexcept { return used_; }

private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

/// What both gradients share: the layout, the weights in that layout, and the terms of one image of dy.
class sparse_plan : public convolution_plan {
public:
  sparse_plan(const convolution_shape& c, std::unique_ptr<convolution_plan> dense)
      : shape_(c), layout_(c.windows), add_terms_(add_terms_by_packets[layout_.run / lanes - 1]),
        dense_(std::move(dense)) {}

protected:
  const window_grid& grid() const { return shape_.windows; }

  bool too_dense(const float* dy) const {
    std::uint32_t filled = 0;
#pragma omp simd reduction(+ : filled)
    for (std::size_t k = 0; k < shape_.y_size(); ++k) filled += dy[k] != 0.0F ? 1U : 0U;
    return static_cast<double>(filled) > dense_part * static_cast<double>(shape_.y_size());
  }

  /// The weights of output channel `out`, in row `row` of the window, for channel block `block`.
  std::size_t run_offset(std::size_t block, std::size_t row, std::size_t out) const {
    return ((block * grid().rows + row) * shape_.out_channels + out) * layout_.run;
  }
  std::size_t runs_size() const { return run_offset(layout_.blocks, 0, 0); }

  /// Calls visit(index among our weights, index among the runs).
  template <class Visit>
  void for_each_weight(Visit visit) const {
    std::size_t k = 0;
    for (std::size_t row = 0; row < grid().rows; ++row)
      for (std::size_t column = 0; column < grid().columns; ++column)
        for (std::size_t c = 0; c < grid().channels; ++c)
          for (std::size_t out = 0; out < shape_.out_channels; ++out)
            visit(k++, run_offset(c / layout_.channels, row, out) + column * layout_.channels +
                           c % layout_.channels);
  }

  /// Calls visit(offset in our image, offset in the blocked one, count) for every pixel and channel block
  /// that a window reaches.
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
};

/// dx: for each window, the sum over its output channels of dy times their weights.
class sparse_data_gradient : public sparse_plan {
public:
  using sparse_plan::sparse_plan;

  std::size_t scratch_bytes() const noexcept override {
    scratch_parts parts;
    take(parts);
    return std::max(parts.used(), dense_->scratch_bytes());
  }

  void run(const stream& s, const float* dy, const float* w, float* dx, void* scratch) override {
    if (too_dense(dy)) return dense_->run(s, dy, w, dx, scratch);
    require_host(s, "convolution");
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
  struct memory {
    std::span<float> runs, image;
    std::span<term> terms;                ///< by window, one after the other
    std::span<std::uint32_t> first_terms; ///< of each window, and the end
  };

  memory take(scratch_parts& parts) const {
    return {parts.take<float>(runs_size()), parts.take<float>(layout_.size()),
            parts.take<term>(grid().windows() * shape_.out_channels + 1),
            parts.take<std::uint32_t>(grid().windows() + 1)};
  }

  void list_terms(const float* dy, const memory& m) const {
    std::uint32_t count = 0;
    for (std::size_t window = 0; window < grid().windows(); ++window) {
      m.first_terms[window] = count;
      const float* values = dy + window * shape_.out_channels;
      for (std::size_t out = 0; out < shape_.out_channels;
           ++out) { // always written, sometimes kept: no branch
        m.terms[count] = {values[out], static_cast<std::uint32_t>(out * layout_.run)};
        count += values[out] != 0.0F ? 1U : 0U;
      }
    }
    m.first_terms[grid().windows()] = count;
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
            const std::uint32_t* bounds = &m.first_terms[i * grid().out_width + j];
            add_terms_(sums + layout_.window_offset(grid(), i, j),
                       m.terms.subspan(bounds[0], bounds[1] - bounds[0]), &m.runs[run_offset(block, row, 0)]);
          }
        }
  }
};

/// dw: for each output channel, the sum over the windows of dy times the window.
class sparse_weight_gradient : public sparse_plan {
public:
  using sparse_plan::sparse_plan;

  std::size_t scratch_bytes() const noexcept override {
    scratch_parts parts;
    take(parts);
    return std::max(parts.used(), dense_->scratch_bytes());
  }

  void run(const stream& s, const float* x, const float* dy, float* dw, void* scratch) override {
    if (too_dense(dy)) return dense_->run(s, x, dy, dw, scratch);
    require_host(s, "convolution");
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
  struct memory {
    std::span<float> runs, image;
    std::span<term> terms;           ///< by output channel, room for every window in each
    std::span<std::uint32_t> counts; ///< of each output channel
  };

  memory take(scratch_parts& parts) const {
    return {parts.take<float>(runs_size()), parts.take<float>(layout_.size()),
            parts.take<term>((grid().windows() + 1) * shape_.out_channels),
            parts.take<std::uint32_t>(shape_.out_channels)};
  }

  void list_terms(const float* dy, const memory& m) const {
    const std::size_t room = grid().windows() + 1;
    std::ranges::fill(m.counts, 0U);
    for (std::size_t i = 0; i < grid().out_height; ++i)
      for (std::size_t j = 0; j < grid().out_width; ++j) {
        const auto offset = static_cast<std::uint32_t>(layout_.window_offset(grid(), i, j));
        for (std::size_t out = 0; out < shape_.out_channels; ++out, ++dy) { // no branch, as above
          m.terms[out * room + m.counts[out]] = {*dy, offset};
          m.counts[out] += *dy != 0.0F ? 1U : 0U;
        }
      }
  }

  void add_image(const memory& m) const {
    for (std::size_t block = 0; block < layout_.blocks; ++block)
      for (std::size_t row = 0; row < grid().rows; ++row) {
        const float* values = &m.image[block * layout_.block_size() + row * layout_.width * layout_.channels];
        for (std::size_t out = 0; out < shape_.out_channels; ++out)
          add_terms_(&m.runs[run_offset(block, row, out)],
                     m.terms.subspan(out * (grid().windows() + 1), m.counts[out]), values);
      }
  }
};

} // namespace

bool suits_sparse_gradients(const convolution_shape& c) noexcept {
  return c.windows.columns <= max_packets && c.windows.channels >= lanes;
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
