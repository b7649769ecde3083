#include <mailgrad/kernels/host/convolution/sparse_convolution.hpp>

#include <mailgrad/kernels/host/convolution/sparse_plan.hpp>
#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad {

namespace {

/// Computes dw. For each output channel it is the sum of dy times the window, over all windows.
class sparse_weight_gradient : public sparse_plan {
public:
  using sparse_plan::sparse_plan;

  std::size_t scratch_bytes() const noexcept override {
    scratch_parts parts;
    take(parts);
    return std::max(parts.used(), dense_->scratch_bytes());
  }

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
  struct memory {
    std::span<float> runs, image;
    std::span<term> terms;           ///< by output channel, each with room for every window
    std::span<std::uint32_t> counts; ///< the number of terms of each output channel
  };

  memory take(scratch_parts& parts) const {
    return {parts.take<float>(runs_size()), parts.take<float>(layout_.size()),
            parts.take<term>(grid().windows() * shape_.out_channels),
            parts.take<std::uint32_t>(shape_.out_channels)};
  }

  void list_terms(const float* dy, const memory& m) const {
    std::ranges::fill(m.counts, 0U);
    for (std::size_t i = 0; i < grid().out_height; ++i)
      for (std::size_t j = 0; j < grid().out_width; ++j, dy += shape_.out_channels) {
        const auto offset = static_cast<std::uint32_t>(layout_.window_offset(grid(), i, j));
        for_each_filled(dy, shape_.out_channels, [&](std::size_t out) {
          m.terms[out * grid().windows() + m.counts[out]++] = {dy[out], offset};
        });
      }
  }

  void add_image(const memory& m) const {
    for (std::size_t block = 0; block < layout_.blocks; ++block)
      for (std::size_t row = 0; row < grid().rows; ++row) {
        const float* values = &m.image[block * layout_.block_size() + row * layout_.width * layout_.channels];
        for (std::size_t out = 0; out < shape_.out_channels; ++out)
          add_terms_(&m.runs[run_offset(block, row, out)],
                     m.terms.subspan(out * grid().windows(), m.counts[out]), values);
      }
  }
};

} // namespace

std::unique_ptr<convolution_plan> plan_sparse_weight_gradient(const convolution_shape& c,
                                                              std::unique_ptr<convolution_plan> dense) {
  return std::make_unique<sparse_weight_gradient>(c, std::move(dense));
}

} // namespace mailgrad
