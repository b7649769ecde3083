#include <mailgrad/kernels/copy_rows.hpp>
#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>

#include <type_traits>

namespace mailgrad::cuda {

namespace {

/// So many copies are an argument of one launch; more take several.
constexpr std::size_t copies_at_once = 64;

/// One copy, as a kernel visits it.
struct copied_part {
  const float* from;
  float* to;
  const std::int32_t* numbers; ///< null: those of all rows, from the first on
  std::size_t stride;
  std::uint32_t first, height;  ///< the first row of the part, and how many it has
  std::uint32_t n;              ///< floats or packs of all rows that are asked for
  divider<std::uint32_t> width; ///< in these

  /// The place of row `i` of those that are asked for; at least `height` if the part has it not, since a
  /// number below the first one becomes too large.
  __device__ std::uint32_t place_of(std::uint32_t i) const {
    return numbers ? static_cast<std::uint32_t>(numbers[i * stride]) - first : i;
  }
};

struct copy_list {
  copied_part items[copies_at_once];
};

/// store_floats() where other threads may store the same numbers at the same time.
template <unsigned size>
__device__ void store_as_others_do(float* x, const moved_floats<size>& m) {
#ifdef __CUDACC__
  if constexpr (size == 1)
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(x)), "f"(m.v[0])
                 : "memory");
  else
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(x)),
                 "f"(m.v[0]), "f"(m.v[1]), "f"(m.v[2]), "f"(m.v[3])
                 : "memory");
#else
  using moved = std::conditional_t<size == 1, moved_floats<1>, float_pack>; // which has to be aligned
  auto& to = *reinterpret_cast<moved*>(x);
  for (unsigned k = 0; k < size; ++k) std::atomic_ref(to.v[k]).store(m.v[k], std::memory_order_relaxed);
#endif
}

/// Blocks (x, y) make copy y. Each thread moves one float or one pack at a time.
template <unsigned size>
__global__ void copy_rows_kernel(copy_list list) {
  const copied_part c = list.items[blockIdx.y];
  for (std::size_t k = grid_thread(); k < c.n; k += grid_threads()) {
    auto column = static_cast<std::uint32_t>(k);
    const std::uint32_t row = c.place_of(c.width.divide(column));
    if (row >= c.height) continue;
    const std::size_t at = (std::size_t{row} * c.width.by() + column) * size;
    store_as_others_do(c.to + at, load_floats<size>(c.from + at));
  }
}

/// Collects copies until a launch has as many as it takes.
class row_launches {
public:
  row_launches(const cuda_stream& s, bool packs) : s_(s), packs_(packs) {}

  void add(const row_copy& c) {
    const std::size_t rows = c.is_whole() ? c.height() : c.count;
    if (c.width == 0) return;
    for_row_chunks(s_, "copy_rows", rows, c.width,
                   [&](std::size_t first, std::size_t count) { add(c, first, count); });
  }
  void queue() {
    if (count_ == 0) return;
    const dim3 grid(blocks_for(longest_), static_cast<unsigned>(count_));
    launch(s_, "copy_rows", grid, threads_per_block, 0,
           packs_ ? copy_rows_kernel<float_pack::size> : copy_rows_kernel<1>, list_);
    count_ = longest_ = 0;
  }

private:
  /// Adds `count` of its rows from `first` on.
  void add(const row_copy& c, std::size_t first, std::size_t count) {
    const std::size_t size = packs_ ? float_pack::size : 1, n = count * c.width / size;
    copied_part part{c.from,
                     c.to,
                     c.numbers,
                     c.stride,
                     static_cast<std::uint32_t>(c.row_begin),
                     static_cast<std::uint32_t>(c.height()),
                     static_cast<std::uint32_t>(n),
                     divider<std::uint32_t>(c.width / size)};
    if (c.is_whole()) {
      part.numbers = nullptr;
      part.from += first * c.width;
      part.to += first * c.width;
    } else {
      part.numbers += first * c.stride;
    }
    list_.items[count_++] = part;
    longest_ = std::max(longest_, n);
    if (count_ == copies_at_once) queue();
  }

  const cuda_stream& s_;
  bool packs_;
  copy_list list_{};
  std::size_t count_ = 0, longest_ = 0;
};

} // namespace

void copy_rows(const cuda_stream& s, std::span<const row_copy> copies) {
  bool packs = true;
  for (const row_copy& c : copies)
    packs = packs && c.width % float_pack::size == 0 && are_packs(c.from, c.to);
  row_launches launches(s, packs);
  for (const row_copy& c : copies) launches.add(c);
  launches.queue();
}

} // namespace mailgrad::cuda
