// All matrices here are row-major and cuBLASLt's are column-major, so cuBLASLt computes the transposed matmul: d^T [n,
// m] = b^T [n, k] a^T [k, m]. A row-major matrix in memory *is* its transpose.

#include "cuda/kernels/matmul.hpp"

#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    default:
      throw InternalError("matmuls of dtype {}: fp32, bf16, fp16, e4m3, e5m2", name_of(dtype));
  }
}

bool in_sixteens(const ConstView& view, bool one_row) {
  return alignment_of(view) >= 16 && (one_row || view.stride * size_of(view.dtype) % 16 == 0);
}

bool is_fp8(const Matmul& p) { return size_of(p.a.view.dtype) == 1; }

/// Returns whether the library multiplies operands of these types and in these places.
bool operands_allowed(const Matmul& p) {
  const DType a = p.a.view.dtype, b = p.b.view.dtype;
  if (!is_fp8(p)) return a == b && (p.d.dtype == a || p.d.dtype == DType::fp32);
  return !p.a.transposed && p.b.transposed && (a == DType::e4m3 || b == DType::e4m3) && p.k % 16 == 0 &&
         in_sixteens(p.a.view, false) && in_sixteens(p.b.view, false) && in_sixteens(p.c, false) &&
         in_sixteens(p.d, false) && p.n % 16 == 0;
}

/// Returns whether the library's fused epilogues are known to take it: 16-byte vectors everywhere.
bool epilogue_allowed(const Matmul& p) {
  if (p.epilogue == MatmulEpilogue::none) return true;
  if (p.operand.dtype != p.d.dtype || (p.d.dtype != p.a.view.dtype && !is_fp8(p))) return false;
  if (is_fp8(p) && p.d.dtype == DType::fp32) return false;  // its bias would be bf16
  // Its fp32 GELU is not known to have fp32's accuracy.
  if (p.epilogue != MatmulEpilogue::bias && p.d.dtype == DType::fp32) return false;
  if (p.epilogue == MatmulEpilogue::bias_gelu) {
    if (p.before_gelu.dtype != p.d.dtype || !in_sixteens(p.before_gelu, false)) return false;
  }
  return in_sixteens(p.operand, p.epilogue != MatmulEpilogue::gelu_backward) && in_sixteens(p.d, false) &&
         in_sixteens(p.c, false) && p.n * size_of(p.d.dtype) % 16 == 0;
}

template <class Value>
void set(decltype(CublasLt::desc_set) function, cublasLtMatmulDesc_t description,
         cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_cublaslt(function(description, attribute, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
}

cublasLtEpilogue_t epilogue_of(MatmulEpilogue epilogue) {
  switch (epilogue) {
    case MatmulEpilogue::none:
      break;
    case MatmulEpilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatmulEpilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case MatmulEpilogue::gelu_backward:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

std::uint32_t alignment_of(const ConstView& view) {
  constexpr std::uint32_t kMost = 16;
  if (!view) return kMost;
  const auto bits = reinterpret_cast<std::uintptr_t>(view.data) | kMost;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

const void* bias_of(const Matmul& p) {
  return p.epilogue == MatmulEpilogue::bias || p.epilogue == MatmulEpilogue::bias_gelu ? p.operand.data : nullptr;
}
const void* gelu_input_of(const Matmul& p) {
  if (p.epilogue == MatmulEpilogue::bias_gelu) return p.before_gelu.data;
  return p.epilogue == MatmulEpilogue::gelu_backward ? p.operand.data : nullptr;
}

void check_cublaslt(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError("{} ends with status {}", call, static_cast<int>(status));
}

CublasLt::CublasLt()
    : library(open_cuda_library({"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, {"cu13", "cublas"}})) {}

Matmuls::Matmuls(void* workspace, std::int64_t workspace_bytes, GemmSettings settings)
    : workspace_(workspace), workspace_bytes_(workspace_bytes), settings_(std::move(settings)) {
  cublasLtHandle_t handle = nullptr;
  check_cublaslt(library_.create(&handle), "cublasLtCreate");
  handle_ = {handle, {library_.destroy}};
}

std::string Matmuls::library_version() const {
  const std::size_t version = library_.version();
  return version >= 100000 ? fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
                           : fmt::format("{}", version);
}

Matmuls::Key Matmuls::key_of(const Matmul& p) const {
  const std::int64_t flags =
      (p.a.transposed ? 1 : 0) | (p.b.transposed ? 2 : 0) | (p.c ? 4 : 0) | static_cast<std::int64_t>(p.epilogue) << 3 |
      static_cast<std::int64_t>(p.a.view.dtype) << 8 | static_cast<std::int64_t>(p.d.dtype) << 16 |
      (rounds(p) ? 1 << 24 : 0) | (is_fp8(p) ? static_cast<std::int64_t>(p.b.view.dtype) << 32 : 0) |
      std::int64_t{p.is_coarse} << 40;
  return {p.m,
          p.n,
          p.k,
          p.a.view.stride,
          p.b.view.stride,
          p.c ? p.c.stride : 0,
          p.d.stride,
          p.operand ? p.operand.stride : 0,
          p.before_gelu ? p.before_gelu.stride : 0,
          flags,
          alignment_of(p.a.view),
          alignment_of(p.b.view),
          alignment_of(p.c),
          alignment_of(p.d),
          alignment_of(p.operand),
          alignment_of(p.before_gelu)};
}

CublasLtHandle<cublasLtMatrixLayout_t> Matmuls::layout(DType dtype, std::int64_t rows, std::int64_t columns,
                                                       std::int64_t stride) const {
  cublasLtMatrixLayout_t made = nullptr;
  check_cublaslt(library_.layout_create(&made, type_of(dtype), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), stride),
                 "cublasLtMatrixLayoutCreate");
  return {made, {library_.layout_destroy}};
}

/// Unsupported matmuls are the same on all ranks, so the ranks need no agreement.
Matmuls::Plan Matmuls::make_plan(cudaStream_t stream, const Matmul& p) {
  Plan plan;
  const DType in = p.a.view.dtype;
  if (!operands_allowed(p) || !epilogue_allowed(p)) return plan;
  if (p.c && p.c.stride != p.d.stride) return plan;  // one layout for both

  cublasLtMatmulDesc_t description = nullptr;
  const auto compute = rounds(p) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_cublaslt(library_.desc_create(&description, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  plan.description = {description, {library_.desc_destroy}};
  const auto operation = [](bool transposed) {
    return static_cast<std::int32_t>(transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  };
  set(library_.desc_set, description, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.b.transposed));
  set(library_.desc_set, description, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.a.transposed));
  if (p.epilogue != MatmulEpilogue::none) {
    set(library_.desc_set, description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue));
    if (gelu_input_of(p) != nullptr) {
      const bool kept = p.epilogue == MatmulEpilogue::bias_gelu;
      set(library_.desc_set, description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
          kept ? p.before_gelu.stride : p.operand.stride);
    }
    set_places(plan, bias_of(p), gelu_input_of(p));
  }
  if (is_fp8(p)) {
    if (p.is_coarse) set(library_.desc_set, description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    set_factors(plan, p);
  }
  const DType other = p.b.view.dtype;
  plan.a = p.b.transposed ? layout(other, p.k, p.n, p.b.view.stride) : layout(other, p.n, p.k, p.b.view.stride);
  plan.b = p.a.transposed ? layout(in, p.m, p.k, p.a.view.stride) : layout(in, p.k, p.m, p.a.view.stride);
  plan.d = layout(p.d.dtype, p.n, p.m, p.d.stride);

  const Key numbers = key_of(p);
  const GemmAlgorithms::Key key(numbers.begin(), numbers.end());
  const GemmAlgorithm* const kept = settings_.choices != nullptr ? settings_.choices->find(key) : nullptr;
  GemmAlgorithm choice;
  if (settings_.chooses) choice = choose(stream, p, plan, kept);
  if (settings_.agree) settings_.agree(std::as_writable_bytes(std::span(&choice, 1)));
  const bool told = !settings_.chooses && choice.possible != 0;
  if (told && !accepts(plan, choice)) {
    throw refusal("a matmul {} x {} x {} of {} into {} does not work", p.m, p.n, p.k, name_of(in), name_of(p.d.dtype))
        .because("{} here refuses the algorithm that rank 0 runs", library_name())
        .use("the same GPU, driver and library on all ranks");
  }
  if (settings_.choices != nullptr) settings_.choices->set(key, choice);
  plan.choice = choice;
  return plan;
}

void Matmuls::set_places(const Plan& plan, const void* bias, const void* gelu_input) const {
  if (bias != nullptr) set(library_.desc_set, plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (gelu_input == nullptr) return;
  set(library_.desc_set, plan.description.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, gelu_input);
}

/// (The library's A is our b.) Their addresses are multiples of 16, as it needs.
void Matmuls::set_factors(const Plan& plan, const Matmul& p) const {
  set(library_.desc_set, plan.description.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b_factor);
  set(library_.desc_set, plan.description.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a_factor);
}

const Matmuls::Plan& Matmuls::plan_of(cudaStream_t stream, const Matmul& p) {
  const Key key = key_of(p);
  const auto found = plans_.find(key);
  return found != plans_.end() ? found->second : plans_.emplace(key, make_plan(stream, p)).first->second;
}

bool Matmuls::run(cudaStream_t stream, const Matmul& p) {
  const Plan& plan = plan_of(stream, p);
  if (plan.choice.possible == 0) return false;
  set_places(plan, bias_of(p), gelu_input_of(p));
  if (is_fp8(p)) set_factors(plan, p);
  check_cublaslt(launch(stream, p, plan, plan.choice), "cublasLtMatmul");
  return true;
}

void Matmuls::require(cudaStream_t stream, const Matmul& p) {
  if (!run(stream, p)) refuse(p);
}

void Matmuls::prepare(cudaStream_t stream, const Matmul& p) {
  if (plan_of(stream, p).choice.possible == 0) refuse(p);
}

void Matmuls::refuse(const Matmul& p) const {
  throw refusal("a matmul {} x {} x {} of {} into {} does not work", p.m, p.n, p.k, name_of(p.a.view.dtype),
                name_of(p.d.dtype))
      .because("cuBLASLt has no algorithm for it")
      .use("a version other than {}", library_name());
}

}  // namespace tessera
