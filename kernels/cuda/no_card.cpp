#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/cuda/lane_words.hpp>
#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>

// The runtime of a build without CUDA: there is no card, and nothing can be asked of one.
namespace mailgrad::cuda {

namespace {

constexpr const char* why = "this build has no CUDA; configure it with -DMAILGRAD_CUDA=ON";

[[noreturn]] void refuse() { throw device_error(world_errc::no_such_device, why); }

} // namespace

namespace runtime {

found_cards find_cards() { return {.cards = {}, .driver = {}, .why_none = why}; }
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
generated_kernels count_generated_kernels() { return {0, generated_kernels_in_words()}; }
chain_kernels_user::chain_kernels_user() = default;
chain_kernels_user::~chain_kernels_user() = default;
std::string wait_for_chain_kernels() { return generated_kernels_in_words(); }
void compute(chains) {}
bool interprets_chains() noexcept { return true; }
std::string generated_kernels_in_words() { return std::string("none: ") + why; }
std::string tried_kernels_in_words(std::uint32_t) { return generated_kernels_in_words(); }
std::string products_in_words() { refuse(); }
std::unique_ptr<products> make_products(std::uint32_t, product_precision) { refuse(); }

} // namespace mailgrad::cuda
