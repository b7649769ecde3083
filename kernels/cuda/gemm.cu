#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/gemm.hpp>

// The kernels of gemm.hpp that are our own. The products themselves are asked of products.hpp.
namespace mailgrad::cuda {
namespace {

/// More numbers of one sample than shared memory holds are read where they lie.
constexpr std::size_t most_in_block = (48 << 10) / sizeof(float);

/// The vectors of the sample that a block works on. They lie in shared memory, a vector every `step` floats:
/// an odd number, so that the same number of neighbouring vectors lies in different banks.
struct sample_vectors {
  const float* values;
  std::size_t step;
  __device__ const float* vector(std::size_t i) const { return values + i * step; }
};

inline std::size_t step_in_block(const vector_sets& sets) { return sets.width | 1; }
inline std::size_t floats_in_block(const vector_sets& sets) { return sets.count * step_in_block(sets); }

/// Copies the vectors of a sample to `workspace`, or leaves them where they are if it is null.
__device__ inline sample_vectors load_sample(const vector_sets& sets, const float* x, float* workspace) {
  if (workspace == nullptr) return {x, sets.width};
  const std::size_t step = sets.width | 1;
  for (std::size_t k = threadIdx.x; k < sets.count * sets.width; k += blockDim.x)
    workspace[k / sets.width * step + k % sets.width] = x[k];
  return {workspace, step};
}

/// The vectors of pair number `pair` in the order (1,0), (2,0), (2,1) and so on: those of the first vector
/// begin at i (i - 1) / 2.
struct vector_pair {
  std::size_t i, j;
  __device__ explicit vector_pair(std::size_t pair)
      : i(static_cast<std::size_t>((1 + sqrtf(1 + 8 * static_cast<float>(pair))) / 2)), j(0) {
    while (first(i) > pair) --i; // the root is rounded
    while (first(i + 1) <= pair) ++i;
    j = pair - first(i);
  }
  __device__ static std::size_t first(std::size_t i) { return i * (i - 1) / 2; }
};

/// Each block has samples in turn, and each thread pairs of them.
__global__ void dots_kernel(vector_sets sets, const float* x, float* dots, bool in_block) {
  float* const workspace = in_block ? shared_memory<float>() : nullptr;
  const std::size_t pairs = sets.count * (sets.count - 1) / 2;
  for (std::size_t sample = blockIdx.x; sample < sets.samples; sample += gridDim.x) {
    const sample_vectors of = load_sample(sets, x + sample * sets.count * sets.width, workspace);
    __syncthreads();
    for (std::size_t pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
      const vector_pair p(pair);
      const float *const a = of.vector(p.i), *const b = of.vector(p.j);
      float sum = 0;
      for (std::size_t k = 0; k < sets.width; ++k) sum += a[k] * b[k];
      dots[sample * pairs + pair] = sum;
    }
    __syncthreads(); // the next sample takes the same memory
  }
}

/// Each thread has numbers of some vectors, and adds up what the vector meets: row i of a symmetric matrix
/// whose diagonal is 0, times the vectors.
__global__ void dots_gradient_kernel(vector_sets sets, const float* x, const float* ddots, float* dx,
                                     bool in_block) {
  float* const workspace = in_block ? shared_memory<float>() : nullptr;
  const std::size_t pairs = sets.count * (sets.count - 1) / 2, numbers = sets.count * sets.width;
  for (std::size_t sample = blockIdx.x; sample < sets.samples; sample += gridDim.x) {
    const sample_vectors of = load_sample(sets, x + sample * numbers, workspace);
    const float* const weights = ddots + sample * pairs;
    __syncthreads();
    for (std::size_t n = threadIdx.x; n < numbers; n += blockDim.x) {
      const std::size_t i = n / sets.width, k = n % sets.width;
      float sum = 0;
      for (std::size_t j = 0; j < i; ++j) sum += weights[i * (i - 1) / 2 + j] * of.vector(j)[k];
      for (std::size_t j = i + 1; j < sets.count; ++j) sum += weights[j * (j - 1) / 2 + i] * of.vector(j)[k];
      dx[sample * numbers + n] = sum;
    }
    __syncthreads(); // the next sample takes the same memory
  }
}

/// The shared memory of a block that keeps a sample; 0: it does not fit.
std::size_t bytes_of_block(const vector_sets& sets) {
  return floats_in_block(sets) <= most_in_block ? floats_in_block(sets) * sizeof(float) : 0;
}

void pairwise_dots(const cuda_stream& s, const vector_sets& sets, const float* x, float* dots) {
  if (sets.samples * sets.pairs() == 0) return;
  const std::size_t bytes = bytes_of_block(sets);
  launch(s, "pairwise_dots", blocks_for(sets.samples, 1), threads_per_block, bytes, dots_kernel, sets, x,
         dots, bytes > 0);
}

void pairwise_dots_gradient(const cuda_stream& s, const vector_sets& sets, const float* x, const float* ddots,
                            float* dx) {
  if (sets.samples * sets.count * sets.width == 0) return;
  const std::size_t bytes = bytes_of_block(sets);
  launch(s, "pairwise_dots_gradient", blocks_for(sets.samples, 1), threads_per_block, bytes,
         dots_gradient_kernel, sets, x, ddots, dx, bytes > 0);
}

} // namespace

MAILGRAD_GPU_BODY(pairwise_dots)
MAILGRAD_GPU_BODY(pairwise_dots_gradient)

} // namespace mailgrad::cuda
