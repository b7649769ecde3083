#include <mailgrad/tensor/small_floats.hpp>

#include <cublasLt.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

// The part of cuBLASLt that products ask for, on the processor: sums in double precision, at once. Where the
// real one would read beside a pack or take a stale algorithm, it reports an error: what was chosen for one
// question must be used for no other. cublas_products.cpp opens it by MAILGRAD_CUBLAS.
namespace {

struct description {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr; ///< of the type of the result
};

struct layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t step; ///< between two columns
  std::int32_t batch = 1;
  std::int64_t distance = 0; ///< between two matrices

  friend bool operator==(const layout&, const layout&) = default;
};

struct preference {
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

/// What an algorithm is kept as: the question that it was chosen for, in 64 bytes.
struct answer {
  std::uint32_t rows, columns, inner, batch;
  std::uint32_t alignment, epilogue, a, b, type, result, compute;

  friend bool operator==(const answer&, const answer&) = default;
};
static_assert(sizeof(answer) <= sizeof(cublasLtMatmulAlgo_t));

bool is_named(const char* variable, std::string_view function) {
  const char* const named = std::getenv(variable);
  return named != nullptr && named == function;
}
/// Whether the test has it that this function lacks memory.
bool lacks_memory(std::string_view function) { return is_named("MADE_CUBLAS_LACKS_MEMORY", function); }
/// Whether it fails for another reason, or finds nothing.
bool fails(std::string_view function) { return is_named("MADE_CUBLAS_FAILS", function); }

template <class Made, class Handle>
cublasStatus_t make(std::string_view function, Handle* handle, const Made& made) {
  if (lacks_memory(function)) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = reinterpret_cast<Handle>(new Made(made));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Made, class Handle>
cublasStatus_t end(Handle handle) {
  delete reinterpret_cast<Made*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Made, class Handle>
const Made& of(Handle handle) {
  return *reinterpret_cast<const Made*>(handle);
}
template <class T>
cublasStatus_t take(T& member, const void* from, std::size_t bytes) {
  if (bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&member, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

answer answer_for(const description& d, const layout& a, const layout& c, std::uint32_t alignment) {
  const auto number = [](auto x) { return static_cast<std::uint32_t>(x); };
  const std::uint64_t inner = d.a == CUBLAS_OP_N ? a.columns : a.rows;
  return {number(c.rows), number(c.columns),  number(inner),    number(c.batch),
          alignment,      number(d.epilogue), number(d.a),      number(d.b),
          number(a.type), number(c.type),     number(d.compute)};
}

/// Whether op(x) has these extents, and its columns do not overlap.
bool fits(const layout& x, cublasOperation_t o, std::uint64_t rows, std::uint64_t columns) {
  const bool as_is = o == CUBLAS_OP_N;
  return x.rows == (as_is ? rows : columns) && x.columns == (as_is ? columns : rows) &&
         x.step >= static_cast<std::int64_t>(x.rows);
}

/// Where an element of op(x) lies.
std::uint64_t place(const layout& l, cublasOperation_t o, std::uint64_t row, std::uint64_t column) {
  const auto step = static_cast<std::uint64_t>(l.step);
  return o == CUBLAS_OP_N ? row + column * step : column + row * step;
}

/// Number i of an array of that type.
double number_at(const void* x, cudaDataType type, std::uint64_t i) {
  if (type == CUDA_R_16BF) return mailgrad::float_of_bfloat16(static_cast<const std::uint16_t*>(x)[i]);
  return static_cast<const float*>(x)[i];
}

/// What is multiplied, of matrix `batch` at x.
double read(const void* x, const layout& l, std::int64_t batch, std::uint64_t place, cublasComputeType_t c) {
  const double found = number_at(x, l.type, static_cast<std::uint64_t>(batch * l.distance) + place);
  return c == CUBLAS_COMPUTE_32F_FAST_TF32 ? mailgrad::tf32_of_float(static_cast<float>(found)) : found;
}

bool is_aligned(const void* address, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

void write(void* x, cudaDataType type, std::uint64_t i, double number) {
  const auto rounded = static_cast<float>(number);
  if (type == CUDA_R_16BF)
    static_cast<std::uint16_t*>(x)[i] = mailgrad::bfloat16_of_float(rounded);
  else
    static_cast<float*>(x)[i] = rounded;
}

/// Matrix number `i` of the batch.
void multiply(const description& d, const void* a, const layout& of_a, const void* b, const layout& of_b,
              void* c, const layout& of_c, std::uint32_t inner, std::int64_t i) {
  for (std::uint64_t column = 0; column < of_c.columns; ++column)
    for (std::uint64_t row = 0; row < of_c.rows; ++row) {
      double sum = d.epilogue == CUBLASLT_EPILOGUE_BIAS ? number_at(d.bias, of_c.type, row) : 0;
      for (std::uint64_t k = 0; k < inner; ++k)
        sum += read(a, of_a, i, place(of_a, d.a, row, k), d.compute) *
               read(b, of_b, i, place(of_b, d.b, k, column), d.compute);
      write(c, of_c.type,
            static_cast<std::uint64_t>(i * of_c.distance) + row +
                column * static_cast<std::uint64_t>(of_c.step),
            sum);
    }
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return make("cublasLtCreate", handle, int{}); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return end<int>(handle); }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE      ? "invalid value"
         : status == CUBLAS_STATUS_EXECUTION_FAILED ? "misaligned address"
         : status == CUBLAS_STATUS_ALLOC_FAILED     ? "no memory"
                                                    : "another error";
}

std::size_t cublasLtGetVersion() { return 130102; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t) {
  return make("cublasLtMatmulDescCreate", d, description{compute});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return end<description>(d); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t name, const void* from,
                                              std::size_t bytes) {
  if (lacks_memory("cublasLtMatmulDescSetAttribute")) return CUBLAS_STATUS_ALLOC_FAILED;
  auto& d = *reinterpret_cast<description*>(handle);
  if (name == CUBLASLT_MATMUL_DESC_TRANSA) return take(d.a, from, bytes);
  if (name == CUBLASLT_MATMUL_DESC_TRANSB) return take(d.b, from, bytes);
  if (name == CUBLASLT_MATMUL_DESC_EPILOGUE) return take(d.epilogue, from, bytes);
  if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return take(d.bias, from, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t step) {
  return make("cublasLtMatrixLayoutCreate", l, layout{type, rows, columns, step});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return end<layout>(l); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t name, const void* from,
                                                std::size_t bytes) {
  if (lacks_memory("cublasLtMatrixLayoutSetAttribute")) return CUBLAS_STATUS_ALLOC_FAILED;
  auto& l = *reinterpret_cast<layout*>(handle);
  if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(l.batch, from, bytes);
  if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return take(l.distance, from, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  return make("cublasLtMatmulPreferenceCreate", p, preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return end<preference>(p); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* from, std::size_t bytes) {
  if (lacks_memory("cublasLtMatmulPreferenceSetAttribute")) return CUBLAS_STATUS_ALLOC_FAILED;
  auto& p = *reinterpret_cast<preference*>(handle);
  if (name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) return take(p.alignment[0], from, bytes);
  if (name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES) return take(p.alignment[1], from, bytes);
  if (name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES) return take(p.alignment[2], from, bytes);
  if (name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) return take(p.alignment[3], from, bytes);
  return CUBLAS_STATUS_SUCCESS; // the size of the workspace, which it does not need
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t c,
                                              cublasLtMatmulPreference_t p, int,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  std::uint32_t least = 256;
  for (const std::uint32_t alignment : of<preference>(p).alignment)
    least = alignment < least ? alignment : least;
  const answer chosen = answer_for(of<description>(d), of<layout>(a), of<layout>(c), least);
  *results = {};
  std::memcpy(&results->algo, &chosen, sizeof chosen);
  *count = fails("cublasLtMatmulAlgoGetHeuristic") ? 0 : 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*, const void* a,
                              cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b,
                              const void*, const void* c, cublasLtMatrixLayout_t layout_c, void* result,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algorithm, void*,
                              std::size_t, cudaStream_t) {
  if (lacks_memory("cublasLtMatmul")) return CUBLAS_STATUS_ALLOC_FAILED;
  if (fails("cublasLtMatmul")) return CUBLAS_STATUS_INTERNAL_ERROR;
  const auto& d = of<description>(operation);
  const auto &of_a = of<layout>(layout_a), &of_b = of<layout>(layout_b), &of_c = of<layout>(layout_c);
  answer chosen{};
  std::memcpy(&chosen, algorithm, sizeof chosen);
  const bool biased = d.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (chosen != answer_for(d, of_a, of_c, chosen.alignment) || of_c != of<layout>(layout_d) || c != result ||
      !fits(of_a, d.a, of_c.rows, chosen.inner) || !fits(of_b, d.b, chosen.inner, of_c.columns) ||
      of_a.type != of_b.type || of_a.batch != of_c.batch || of_b.batch != of_c.batch ||
      (biased && d.bias == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* address : {a, b, c, static_cast<const void*>(biased ? d.bias : c)})
    if (!is_aligned(address, chosen.alignment)) return CUBLAS_STATUS_EXECUTION_FAILED;
  for (std::int64_t i = 0; i < of_c.batch; ++i) multiply(d, a, of_a, b, of_b, result, of_c, chosen.inner, i);
  return CUBLAS_STATUS_SUCCESS;
}
}
