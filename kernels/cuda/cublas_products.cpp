#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/kernels/cuda/loaded_library.hpp>
#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <cublasLt.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>

namespace mailgrad::cuda {
namespace {

/// Opens the library that MAILGRAD_CUBLAS names, or the one that the loader or CUDA's usual folder has.
void* open_cublas() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  const char* const named = std::getenv("MAILGRAD_CUBLAS");
  std::string tried;
  for (const std::string& path :
       {named != nullptr ? std::string(named) : std::string(), name, "/usr/local/cuda/lib64/" + name}) {
    if (path.empty()) continue;
    if (void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  fail_with(world_errc::no_such_device,
            "a GPU needs cuBLAS, and none was found as {}; MAILGRAD_CUBLAS may name it", tried);
}

/// The functions of cuBLASLt, found when the first GPU asks for them.
struct cublas_functions {
  loaded_library library{open_cublas(), "cuBLAS"};
  decltype(&cublasLtCreate) create = library.find("cublasLtCreate");
  decltype(&cublasLtDestroy) destroy = library.find("cublasLtDestroy");
  decltype(&cublasLtMatmul) matmul = library.find("cublasLtMatmul");
  decltype(&cublasLtMatmulDescCreate) description_create = library.find("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) description_destroy = library.find("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) description_set = library.find("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) layout_create = library.find("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = library.find("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = library.find("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) preference_create =
      library.find("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy =
      library.find("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set =
      library.find("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = library.find("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtGetStatusString) words_of = library.find("cublasLtGetStatusString");
  decltype(&cublasLtGetVersion) version = library.find("cublasLtGetVersion");
};

const cublas_functions& cublas() { return functions_of_library<cublas_functions>(); }

/// As much as NVIDIA advises for Hopper. Each stream has its own, without which the bits could differ.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

/// Memory of `gpu`, of which cuBLAS takes some beside the workspace that it is given.
[[noreturn]] void lacks_memory(std::uint32_t gpu, const char* what, cublasStatus_t status) {
  fail_with<out_of_memory>("cuda:{}: out of memory: {} says {}, beside its workspace of {}", gpu, what,
                           cublas().words_of(status), byte_count(workspace_bytes).text());
}

/// Of what cuBLAS keeps on the host: no GPU is in question.
void require(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    fail_with<out_of_memory>("the host, for cuBLAS: out of memory: {} says {}", what,
                             cublas().words_of(status));
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_with(world_errc::device_failure, "{}: {}", what, cublas().words_of(status));
}

/// Ends an object of cuBLAS by this member of cublas_functions.
template <auto End>
struct ends {
  template <class T>
  void operator()(T* x) const noexcept {
    static_cast<void>((cublas().*End)(x));
  }
};
template <class T, auto End>
using owned = std::unique_ptr<std::remove_pointer_t<T>, ends<End>>;
using owned_description = owned<cublasLtMatmulDesc_t, &cublas_functions::description_destroy>;
using owned_layout = owned<cublasLtMatrixLayout_t, &cublas_functions::layout_destroy>;

/// What cuBLAS was asked for before; the same question gets the same algorithm, and so the same bits.
using question = std::tuple<std::size_t, std::size_t, std::size_t, operand_order, operand_order, std::size_t,
                            bool, bool, cudaDataType_t, cudaDataType_t>;

struct prepared {
  owned_description description;
  owned_layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
};

int counted(std::size_t n) {
  if (n > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    fail_with<shape_error>("gemm: cuBLAS cannot count an extent of {}", n);
  return static_cast<int>(n);
}

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t name, const T& value) {
  require(cublas().description_set(description, name, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
}

/// A matrix as cuBLAS counts it: by columns, each `rows` long.
owned_layout layout(cudaDataType_t type, std::size_t rows, std::size_t columns, std::size_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  require(cublas().layout_create(&made, type, static_cast<std::uint64_t>(counted(rows)),
                                 static_cast<std::uint64_t>(counted(columns)), counted(rows)),
          "cublasLtMatrixLayoutCreate");
  owned_layout result(made);
  const std::int32_t count = counted(batch);
  const auto distance = static_cast<std::int64_t>(rows * columns);
  require(cublas().layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "cublasLtMatrixLayoutSetAttribute");
  require(cublas().layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance),
          "cublasLtMatrixLayoutSetAttribute");
  return result;
}

cublasOperation_t operation_of(operand_order o) {
  return o == operand_order::as_is ? CUBLAS_OP_N : CUBLAS_OP_T;
}

/// A matrix by rows is its transpose by columns, so cuBLAS is asked for C^T = B^T A^T.
class cublas_products final : public products {
public:
  cublas_products(std::uint32_t gpu, product_precision p) : products(p), gpu_(gpu) {
    const cublas_functions& functions = cublas();
    runtime::make_current(gpu); // which the handle is made for
    cublasLtHandle_t made = nullptr;
    require_here(functions.create(&made), "cublasLtCreate");
    handle_.reset(made);
  }
  cublas_products(const cublas_products&) = delete;
  cublas_products& operator=(const cublas_products&) = delete;
  ~cublas_products() override { runtime::release(gpu_, workspace_); }

  void take_workspace() override {
    if (workspace_ != nullptr) return;
    workspace_ =
        naming_memory("what cuBLAS works in", [this] { return runtime::allocate(gpu_, workspace_bytes); });
  }

  void run(const cuda_stream& s, const gemm_shape& g, const float* a, const float* b, float* c,
           const float* bias) override {
    queue(s, g, {CUDA_R_32F, CUDA_R_32F}, a, b, c, bias);
  }
  void run(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
           const float* bias) override {
    queue(s, g, {CUDA_R_16BF, CUDA_R_32F}, a, b, c, bias);
  }
  void run(const cuda_stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, bfloat16* c,
           const bfloat16* bias) override {
    queue(s, g, {CUDA_R_16BF, CUDA_R_16BF}, a, b, c, bias);
  }

private:
  /// Of the operands, and of the result with its bias.
  struct types {
    cudaDataType_t operands, result;
  };
  void require_here(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_ALLOC_FAILED) lacks_memory(gpu_, what, status);
    if (status != CUBLAS_STATUS_SUCCESS)
      fail_with(world_errc::device_failure, "cuda:{}: {}: {}", gpu_, what, cublas().words_of(status));
  }

  void queue(const cuda_stream& s, const gemm_shape& g, const types& t, const void* a, const void* b, void* c,
             const void* bias) {
    if (g.batch * g.m * g.n == 0) return;
    take_workspace();
    const auto bits = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address); };
    // cuBLAS is not told of the bias's alignment, and an algorithm may want that of C for it.
    const bool aligned = (bits(a) | bits(b) | bits(c) | bits(bias)) % 16 == 0;
    prepared& p = product_for(g, t, bias != nullptr, aligned);
    if (bias != nullptr) set(p.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    runtime::make_current(s.device);
    const float one = 1, zero = 0;
    require_here(cublas().matmul(handle_.get(), p.description.get(), &one, b, p.b.get(), a, p.a.get(), &zero,
                                 c, p.c.get(), c, p.c.get(), &p.algorithm, workspace_, workspace_bytes,
                                 static_cast<cudaStream_t>(s.stream)),
                 "cublasLtMatmul");
  }

  prepared& product_for(const gemm_shape& g, const types& t, bool biased, bool aligned) {
    const question asked{g.m, g.n, g.k, g.a, g.b, g.batch, biased, aligned, t.operands, t.result};
    const auto found = known_.find(asked);
    return found != known_.end() ? found->second
                                 : known_.emplace(asked, prepare(g, t, biased, aligned)).first->second;
  }

  prepared prepare(const gemm_shape& g, const types& t, bool biased, bool aligned) {
    const bool rounds = precision() == product_precision::tf32 && t.operands == CUDA_R_32F;
    cublasLtMatmulDesc_t description = nullptr;
    require(cublas().description_create(
                &description, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "cublasLtMatmulDescCreate");
    const auto operand = [&](operand_order o, std::size_t rows, std::size_t columns) {
      return o == operand_order::as_is ? layout(t.operands, columns, rows, g.batch)
                                       : layout(t.operands, rows, columns, g.batch);
    };
    prepared p{.description = owned_description(description),
               .a = operand(g.a, g.m, g.k),
               .b = operand(g.b, g.k, g.n),
               .c = layout(t.result, g.n, g.m, g.batch),
               .algorithm = {}};
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(g.b));
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(g.a));
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE,
        biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
    p.algorithm = choose(p, t, aligned);
    return p;
  }

  cublasLtMatmulAlgo_t choose(const prepared& p, const types& t, bool aligned) {
    cublasLtMatmulPreference_t made = nullptr;
    require(cublas().preference_create(&made), "cublasLtMatmulPreferenceCreate");
    const owned<cublasLtMatmulPreference_t, &cublas_functions::preference_destroy> preference(made);
    const auto alignment = [aligned](cudaDataType_t type) -> std::uint32_t {
      return aligned ? 16 : type == CUDA_R_16BF ? sizeof(bfloat16) : sizeof(float);
    };
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      require(cublas().preference_set(made, name, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(t.operands));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(t.operands));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(t.result));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(t.result));
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    require_here(cublas().heuristic(handle_.get(), p.description.get(), p.b.get(), p.a.get(), p.c.get(),
                                    p.c.get(), made, 1, &best, &count),
                 "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0)
      fail_with(world_errc::device_failure, "cuda:{}: cuBLAS has no algorithm for a product", gpu_);
    return best.algo;
  }

  std::uint32_t gpu_;
  owned<cublasLtHandle_t, &cublas_functions::destroy> handle_;
  void* workspace_ = nullptr;
  std::map<question, prepared> known_;
};

} // namespace

std::string format_products() {
  const std::size_t version = cublas().version(); // 130102 is 13.1.2
  return fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<products> make_products(std::uint32_t gpu, product_precision p) {
  return std::make_unique<cublas_products>(gpu, p);
}

} // namespace mailgrad::cuda
