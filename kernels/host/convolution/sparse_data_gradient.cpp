#include <mailgrad/kernels/host/convolution/sparse_convolution.hpp>

#include <mailgrad/kernels/host/convolution/sparse_plan.hpp>
#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad {

namespace {

/// Computes dx. Each window adds, for every output channel, dy times the weights of that channel.
class sparse_data_gradient : public sparse_plan {
public:
  using sparse_plan::sparse_plan;

  std::size_t scratch_bytes() const noexcept override {
    scratch_parts parts;
    take(parts);
    return std::max(parts.used(), dense_->scratch_bytes());
  }

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
  struct memory {
    std::span<float> runs, image;
    std::span<term> terms;                ///< the terms of all windows, one window after the other
    std::span<std::uint32_t> first_terms; ///< the first term of each window, then the end
  };

  memory take(scratch_parts& parts) const {
    return {parts.take<float>(runs_size()), parts.take<float>(layout_.size()),
            parts.take<term>(grid().windows() * shape_.out_channels),
            parts.take<std::uint32_t>(grid().windows() + 1)};
  }

  void list_terms(const float* dy, const memory& m) const {
    std::uint32_t count = 0;
    for (std::size_t window = 0; window < grid().windows(); ++window) {
      m.first_terms[window] = count;
      const float* values = dy + window * shape_.out_channels;
      for_each_filled(values, shape_.out_channels, [&](std::size_t out) {
        m.terms[count++] = {values[out], static_cast<std::uint32_t>(out * layout_.run)};
      });
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

} // namespace

std::unique_ptr<convolution_plan> plan_sparse_data_gradient(const convolution_shape& c,
                                                            std::unique_ptr<convolution_plan> dense) {
  return std::make_unique<sparse_data_gradient>(c, std::move(dense));
}

} // namespace mailgrad
