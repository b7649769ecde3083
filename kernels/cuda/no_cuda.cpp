#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/kernels/vectors.hpp>

// What a build without CUDA has in the place of a GPU.
namespace mailgrad::cuda {

// Its kernels refuse.

template <auto Kernel>
constexpr std::string_view name_of = "";

template <class... Arguments, void (*Kernel)(const stream&, Arguments...)>
typename body<Kernel>::function* body<Kernel>::get() {
  return [](const cuda_stream& s, Arguments...) { refuse_gpu(s, name_of<Kernel>); };
}

template <std::unique_ptr<convolution_plan> (*Plan)(const convolution_shape&, device_kind)>
typename body<Plan>::function* body<Plan>::get() {
  return [](const cuda_stream& s, const convolution_shape&, const float*, const float*, float*) {
    refuse_gpu(s, name_of<Plan>);
  };
}

/// A kernel that has no body for a GPU, and what it is called when it refuses.
#define MAILGRAD_NO_BODY(kernel) MAILGRAD_NO_BODY_CALLED(#kernel, kernel)
#define MAILGRAD_NO_BODY_CALLED(name, kernel)                                                                \
  template <>                                                                                                \
  constexpr std::string_view name_of<kernel> = name;                                                         \
  template struct body<kernel>;

MAILGRAD_NO_BODY(add_to_sum)
MAILGRAD_NO_BODY(average_pool)
MAILGRAD_NO_BODY(average_pool_gradient)
MAILGRAD_NO_BODY(begin_sum)
MAILGRAD_NO_BODY(bias_gelu)
MAILGRAD_NO_BODY(bias_gelu_gradient)
MAILGRAD_NO_BODY(bias_relu_gradient)
MAILGRAD_NO_BODY(broadcast)
MAILGRAD_NO_BODY(causal_attention)
MAILGRAD_NO_BODY(causal_attention_gradient)
MAILGRAD_NO_BODY(copy_rows)
MAILGRAD_NO_BODY(count_right_labels)
MAILGRAD_NO_BODY(cross_entropy)
MAILGRAD_NO_BODY(cross_entropy_gradient)
MAILGRAD_NO_BODY(dropout)
MAILGRAD_NO_BODY(elementwise)
MAILGRAD_NO_BODY(fill)
MAILGRAD_NO_BODY(gather)
MAILGRAD_NO_BODY(gather_tables)
MAILGRAD_NO_BODY(gather_tables_gradient)
MAILGRAD_NO_BODY(layer_norm)
MAILGRAD_NO_BODY(layer_norm_gradient)
MAILGRAD_NO_BODY(map_weights)
MAILGRAD_NO_BODY(max_pool)
MAILGRAD_NO_BODY(max_pool_gradient)
MAILGRAD_NO_BODY(mean_squared_difference)
MAILGRAD_NO_BODY(pairwise_dots)
MAILGRAD_NO_BODY(pairwise_dots_gradient)
MAILGRAD_NO_BODY(round_floats)
MAILGRAD_NO_BODY(scale_in_place)
MAILGRAD_NO_BODY(scatter_rows)
MAILGRAD_NO_BODY(softmax)
MAILGRAD_NO_BODY(softmax_gradient)
MAILGRAD_NO_BODY(sparse_product)
MAILGRAD_NO_BODY(sparse_product_gradient)
MAILGRAD_NO_BODY(sum)
MAILGRAD_NO_BODY(update)
MAILGRAD_NO_BODY(update_summed_rows)
MAILGRAD_NO_BODY(widen_floats)
MAILGRAD_NO_BODY_CALLED("convolution", plan_convolution)
MAILGRAD_NO_BODY_CALLED("convolution_data_gradient", plan_convolution_data_gradient)
MAILGRAD_NO_BODY_CALLED("convolution_weight_gradient", plan_convolution_weight_gradient)
MAILGRAD_NO_BODY_CALLED("strided_copy", copy_box)

template <>
body<sum_pairs>::function* body<sum_pairs>::get() {
  return [](const cuda_stream& s, pair_sum what, std::span<const float>, std::span<const float>, double*) {
    refuse_gpu(s, what == pair_sum::inner_product ? "inner_product" : "squared_distance");
  };
}

void write_record(const cuda_stream& s, const float*, const double*, step_record*) {
  refuse_gpu(s, "write_record");
}

// Its runtime has no GPU, and nothing can be asked of one.

namespace {

constexpr const char* why = "this build has no CUDA; configure it with -DMAILGRAD_CUDA=ON";

[[noreturn]] void refuse() { throw device_error(world_errc::no_such_device, why); }

} // namespace

namespace runtime {

found_gpus find_gpus() { return {.gpus = {}, .driver = {}, .why_none = why}; }
void* allocate(std::uint32_t, std::size_t) { refuse(); }
void release(std::uint32_t, void*) noexcept {}
void* allocate_pinned(std::size_t) { refuse(); }
void release_pinned(void*) noexcept {}
void* create_stream(std::uint32_t, urgency) { refuse(); }
void destroy_stream(std::uint32_t, void*) noexcept {}
void synchronise(void*) { refuse(); }
void* create_event(std::uint32_t, event_kind) { refuse(); }
void destroy_event(void*) noexcept {}
void record(void*, void*) { refuse(); }
void wait(void*, void*) { refuse(); }
bool has_passed(void*) { refuse(); }
float milliseconds_between(void*, void*) { refuse(); }
void copy(void*, void*, const void*, std::size_t) { refuse(); }
void fill(void*, void*, std::uint8_t, std::size_t) { refuse(); }
void make_current(std::uint32_t) { refuse(); }
void check_launch(const char*) { refuse(); }
void* load_kernel(std::uint32_t, std::span<const std::byte>, const char*) { refuse(); }
void begin_capture(void*) { refuse(); }
void* end_capture(void*) { refuse(); }
void launch_graph(void*, void*) { refuse(); }
void destroy_graph(void*) noexcept {}

} // namespace runtime

void begin_step(const cuda_stream&, std::uint64_t, std::uint64_t) { refuse(); }
chain_kernel_counts count_chain_kernels() noexcept { return {}; }
generated_kernels count_generated_kernels() { return {0, format_generated_kernels()}; }
chain_kernels_user::chain_kernels_user() = default;
chain_kernels_user::~chain_kernels_user() = default;
std::string wait_for_chain_kernels() { return format_generated_kernels(); }
void compute(chains) {}
bool interprets_chains() noexcept { return true; }
std::string format_generated_kernels() { return std::string("none: ") + why; }
std::string format_tried_kernels(std::uint32_t) { return format_generated_kernels(); }
std::string format_products() { refuse(); }
std::unique_ptr<products> make_products(std::uint32_t, product_precision) { refuse(); }

} // namespace mailgrad::cuda
