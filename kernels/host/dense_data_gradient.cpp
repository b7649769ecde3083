#include <mailgrad/kernels/host/convolution.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

// The gradient of a convolution with respect to its images, zeros included: by oneDNN, or by Eigen in a build
// without it.

#ifdef MAILGRAD_HAS_ONEDNN

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

namespace mailgrad {
namespace {

/// Keeps oneDNN on the calling thread, since each CPU device has one thread. OpenMP keeps this number for
/// each calling thread. Without it, each would start a thread for every core.
void use_one_thread() noexcept {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

using tag = dnnl::memory::format_tag;
constexpr auto direct = dnnl::algorithm::convolution_direct;

const dnnl::engine& cpu() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

dnnl::memory::dim extent(std::size_t n) { return static_cast<dnnl::memory::dim>(n); }

dnnl::memory::desc float_desc(const dnnl::memory::dims& dims, tag layout) {
  return {dims, dnnl::memory::data_type::f32, layout};
}

dnnl::primitive_attr scratchpad_from_caller() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// A convolution described for oneDNN. Images keep the layout of the caller, since oneDNN's blocked layout is
/// no faster on AVX2. oneDNN chooses the layout of the weights.
struct problem {
  explicit problem(const convolution_shape& c)
      : x{extent(c.windows.batch), extent(c.windows.channels), extent(c.windows.height),
          extent(c.windows.width)},
        w{extent(c.out_channels), extent(c.windows.channels), extent(c.windows.rows),
          extent(c.windows.columns)},
        y{extent(c.windows.batch), extent(c.out_channels), extent(c.windows.out_height),
          extent(c.windows.out_width)},
        stride{extent(c.windows.stride_rows), extent(c.windows.stride_columns)},
        before{extent(c.windows.pad_top), extent(c.windows.pad_left)}, after{extent(c.windows.pad_bottom),
                                                                             extent(c.windows.pad_right)} {}

#if DNNL_VERSION_MAJOR >= 3 // Debian 12 has 2.6
  dnnl::convolution_forward::primitive_desc forward() const {
    return {cpu(), dnnl::prop_kind::forward_training, direct, image(x), weights(), image(y), stride, before,
            after, scratchpad_from_caller()};
  }
  dnnl::convolution_backward_data::primitive_desc data_gradient() const {
    return {cpu(),  direct, image(x), weights(), image(y),
            stride, before, after,    forward(), scratchpad_from_caller()};
  }
#else
  dnnl::convolution_forward::primitive_desc forward() const {
    return {{dnnl::prop_kind::forward_training, direct, image(x), weights(), image(y), stride, before, after},
            scratchpad_from_caller(),
            cpu()};
  }
  dnnl::convolution_backward_data::primitive_desc data_gradient() const {
    return {{direct, image(x), weights(), image(y), stride, before, after},
            scratchpad_from_caller(),
            cpu(),
            forward()};
  }
#endif

  static dnnl::memory::desc image(const dnnl::memory::dims& dims) { return float_desc(dims, tag::nhwc); }
  dnnl::memory::desc weights() const { return float_desc(w, tag::any); }
  dnnl::memory::desc our_weights() const { return float_desc(w, tag::hwio); }

  dnnl::memory::dims x, w, y, stride, before, after;
};

/// Runs a primitive through the C interface, since the C++ interface builds a map and a vector in every call.
/// The few small objects that oneDNN itself allocates in a call cannot be avoided.
class prepared_call {
public:
  prepared_call(dnnl::primitive what, std::vector<dnnl_exec_arg_t> arguments)
      : what_(std::move(what)), arguments_(std::move(arguments)) {}

  void run(const dnnl::stream& order) const {
    const auto status = dnnl_primitive_execute(what_.get(), order.get(), static_cast<int>(arguments_.size()),
                                               arguments_.data());
    if (status != dnnl_success)
      throw device_error(world_errc::device_failure,
                         fmt::format("convolution: oneDNN failed with status {}", static_cast<int>(status)));
  }

private:
  dnnl::primitive what_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// An operand in the caller's layout (outer) and in that of the primitive (inner). If the two differ, the
/// inner one is a copy in scratch memory.
struct operand {
  operand(int what, const dnnl::memory::desc& ours, const dnnl::memory::desc& wanted)
      : argument(what), outer(ours, cpu(), DNNL_MEMORY_NONE), inner(wanted, cpu(), DNNL_MEMORY_NONE),
        copied(ours != wanted) {}

  std::size_t copy_bytes() const { return copied ? aligned(inner.get_desc().get_size()) : 0; }

  /// Makes the operand refer to the caller's memory; returns the scratch memory that is left.
  std::byte* place(const float* memory, std::byte* scratch) {
    auto* writable = const_cast<float*>(memory); // oneDNN has no const memory, but only reads sources
    outer.set_data_handle(writable);
    inner.set_data_handle(copied ? static_cast<void*>(scratch) : writable);
    return scratch + copy_bytes();
  }

  int argument;
  dnnl::memory outer, inner;
  bool copied;
};

class onednn_plan : public convolution_plan {
public:
  onednn_plan(const dnnl::primitive& what, const dnnl::memory::desc& scratchpad, operand left, operand right,
              operand result)
      : left_(std::move(left)), right_(std::move(right)), result_(std::move(result)),
        scratchpad_(scratchpad, cpu(), DNNL_MEMORY_NONE) {
    add_copy(left_.copied, left_.outer, left_.inner);
    add_copy(right_.copied, right_.outer, right_.inner);
    calls_.push_back({what,
                      {{left_.argument, left_.inner.get()},
                       {right_.argument, right_.inner.get()},
                       {result_.argument, result_.inner.get()},
                       {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}}});
    add_copy(result_.copied, result_.inner, result_.outer);
  }

  std::size_t scratch_bytes() const noexcept override {
    return left_.copy_bytes() + right_.copy_bytes() + result_.copy_bytes() +
           scratchpad_.get_desc().get_size();
  }

  void run(const stream& s, const float* left, const float* right, float* result, void* scratch) override {
    require_host(s, "convolution");
    use_one_thread();
    auto* rest = static_cast<std::byte*>(scratch);
    rest = left_.place(left, rest);
    rest = right_.place(right, rest);
    rest = result_.place(result, rest);
    scratchpad_.set_data_handle(rest);
    for (const prepared_call& c : calls_) c.run(order_);
  }

private:
  void add_copy(bool needed, const dnnl::memory& from, const dnnl::memory& to) {
    if (!needed) return;
    const dnnl::reorder::primitive_desc copy(cpu(), from.get_desc(), cpu(), to.get_desc(),
                                             scratchpad_from_caller());
    calls_.push_back({dnnl::reorder(copy), {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}}});
  }

  operand left_, right_, result_;
  dnnl::memory scratchpad_;
  dnnl::stream order_{cpu()};
  std::vector<prepared_call> calls_;
};

} // namespace

std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c) {
  use_one_thread();
  const problem p(c);
  const auto chosen = p.data_gradient();
  return std::make_unique<onednn_plan>(
      dnnl::convolution_backward_data(chosen), chosen.scratchpad_desc(),
      operand(DNNL_ARG_DIFF_DST, problem::image(p.y), chosen.diff_dst_desc()),
      operand(DNNL_ARG_WEIGHTS, p.our_weights(), chosen.weights_desc()),
      operand(DNNL_ARG_DIFF_SRC, problem::image(p.x), chosen.diff_src_desc()));
}

} // namespace mailgrad

#else

#include <Eigen/Core>

namespace mailgrad {
namespace {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using matrix_in = Eigen::Map<const matrix>;
using matrix_out = Eigen::Map<matrix>;

Eigen::Index index(std::size_t n) { return static_cast<Eigen::Index>(n); }

/// Calls visit(offset in the image, offset in the unfolded image, count) for each run of values that lies
/// inside the image and is contiguous in both: the columns of one row of one window.
template <class Visit>
void for_each_run(const window_grid& g, Visit visit) {
  for (std::size_t i = 0; i < g.out_height; ++i) {
    const inside rows(i, g.stride_rows, g.pad_top, g.rows, g.height);
    for (std::size_t j = 0; j < g.out_width; ++j) {
      const inside columns(j, g.stride_columns, g.pad_left, g.columns, g.width);
      if (columns.first >= columns.last) continue;
      for (std::size_t r = rows.first; r < rows.last; ++r) {
        const std::size_t row = i * g.stride_rows + r - g.pad_top;
        const std::size_t column = j * g.stride_columns + columns.first - g.pad_left;
        visit((row * g.width + column) * g.channels,
              (((i * g.out_width + j) * g.rows + r) * g.columns + columns.first) * g.channels,
              (columns.last - columns.first) * g.channels);
      }
    }
  }
}

/// Computes dx. The product of dy with the weights has a gradient for each value of each window; those of the
/// same pixel are added up.
class eigen_data_gradient : public convolution_plan {
public:
  explicit eigen_data_gradient(const convolution_shape& c) : shape_(c) {}

  std::size_t scratch_bytes() const noexcept override {
    return grid().windows() * grid().window_size() * sizeof(float);
  }

  void run(const stream& s, const float* dy, const float* w, float* dx, void* scratch) override {
    require_host(s, "convolution");
    auto* memory = static_cast<float*>(scratch);
    matrix_out unfolded(memory, index(grid().windows()), index(grid().window_size()));
    const matrix_in weights(w, index(grid().window_size()), index(shape_.out_channels));
    std::fill_n(dx, shape_.x_size(), 0.0F);
    for (std::size_t image = 0; image < grid().batch; ++image) {
      const matrix_in result(dy + image * grid().windows() * shape_.out_channels, index(grid().windows()),
                             index(shape_.out_channels));
      unfolded.noalias() = result * weights.transpose();
      float* to = dx + image * grid().image_size();
      for_each_run(grid(), [&](std::size_t in_image, std::size_t in_windows, std::size_t count) {
#pragma omp simd
        for (std::size_t k = 0; k < count; ++k) to[in_image + k] += memory[in_windows + k];
      });
    }
  }

private:
  const window_grid& grid() const { return shape_.windows; }

  convolution_shape shape_;
};

} // namespace

std::unique_ptr<convolution_plan> plan_dense_data_gradient(const convolution_shape& c) {
  return std::make_unique<eigen_data_gradient>(c);
}

} // namespace mailgrad

#endif
