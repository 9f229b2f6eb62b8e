// cuBLASLt as far as our kernels call it: the real header's functions over a plain matmul. Whatever is not known to be
// valid for the real library is refused, at the heuristic or at the call.

#include "gpu_emulator/libraries/cublaslt/cublaslt.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_emulator/fp8_codes.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"
#include "gpu_emulator/runtime/library_end.hpp"
#include "tessera/base/dtype.hpp"

namespace {

using tessera::bf16;
using tessera::fp16;

struct Layout {
  cudaDataType type;
  std::int64_t rows, columns, stride;  ///< column-major
};

struct Description {
  bool rounds_to_tf32 = false;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* auxiliary = nullptr;  ///< read by backward, written by forward
  std::int64_t auxiliary_stride = 0;
  const float *a_scale = nullptr, *b_scale = nullptr;  ///< device memory
  std::int8_t fast_accumulation = 0;
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

/// The problem that an algorithm was chosen for; it must not be used for any other.
struct Algorithm {
  std::uint64_t magic;
  std::uint32_t alignment[6];  ///< of a, b, c, d, bias and the input of GELU
  std::uint64_t shape;         ///< a checksum of everything that the heuristic was told
  std::uint64_t variant;       ///< which of kVariants, which have the same bits at different speeds
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr std::uint64_t kMagic = 0x7465737365726131;

using Life = emulator::LibraryEnd<struct CublasLtLibrary>;

/// The settings and counts of tests.
struct Hooks {
  std::mutex lock;
  std::map<int, int> favourite;                 ///< by device; 0 where none is given
  std::map<std::pair<int, int>, int> launches;  ///< by device and variant
  std::map<std::uint32_t, int> epilogues;       ///< launches by epilogue
  std::array<int, 2> of_fp8{};
  int slow_except = -1;
};
Hooks& hooks() {
  static Hooks all;
  return all;
}
int device_now() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

bool is_fp8(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

/// Counts a launch. Returns whether it is to be slow.
bool counted_launch(int variant, const Description& with, const Layout& a) {
  const int device = device_now();
  const std::lock_guard guard(hooks().lock);
  ++hooks().epilogues[with.epilogue];
  if (is_fp8(a.type)) ++hooks().of_fp8[with.fast_accumulation != 0 ? 1 : 0];
  ++hooks().launches[{device, variant}];
  return hooks().slow_except >= 0 && hooks().slow_except != variant;
}

template <class Own, class Handle>
Own& own(Handle handle) {
  return *reinterpret_cast<Own*>(handle);
}

std::uint64_t shape_of(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
  std::uint64_t sum = 17;
  for (const std::int64_t x :
       {std::int64_t{d.rounds_to_tf32}, std::int64_t{d.transpose_a}, std::int64_t{d.transpose_b},
        std::int64_t{d.epilogue} | std::int64_t{d.fast_accumulation} << 32, d.auxiliary_stride}) {
    sum = sum * 1099511628211ull + static_cast<std::uint64_t>(x);
  }
  for (const Layout* l : {&a, &b, &c}) {
    for (const std::int64_t x : {std::int64_t{l->type}, l->rows, l->columns, l->stride}) {
      sum = sum * 1099511628211ull + static_cast<std::uint64_t>(x);
    }
  }
  return sum;
}

bool has_bias(const Description& d) {
  return d.epilogue == CUBLASLT_EPILOGUE_BIAS || d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool has_auxiliary(const Description& d) {
  return d.epilogue == CUBLASLT_EPILOGUE_DGELU || d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
/// The alignment that the heuristic infers from an address (cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_POINTER): up to 256.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

std::size_t bytes_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : is_fp8(type) ? 1 : 2; }

bool is_multiple(const void* address, std::size_t of) { return reinterpret_cast<std::uintptr_t>(address) % of == 0; }

/// The rules for 8-bit factors before compute capability 10 (documentation of cublasLtMatmul): "TN", one of them e4m3,
/// 16-byte vectors everywhere, and scales on 16 bytes, or the real library ends with status 15.
bool takes_fp8(const Description& with, const Layout& a, const Layout& b, const Layout& d,
               const std::uint32_t (&alignment)[4]) {
  const auto vectors = [](std::int64_t elements, cudaDataType type) {
    return elements * static_cast<std::int64_t>(bytes_of(type)) % 16 == 0;
  };
  return is_fp8(a.type) && is_fp8(b.type) && (a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3) &&
         !is_fp8(d.type) && with.transpose_a == CUBLAS_OP_T && with.transpose_b == CUBLAS_OP_N &&
         vectors(a.rows, a.type) && vectors(a.stride, a.type) && vectors(b.stride, b.type) && d.rows % 16 == 0 &&
         vectors(d.stride, d.type) && std::ranges::all_of(alignment, [](std::uint32_t one) { return one >= 16; }) &&
         is_multiple(with.a_scale, 16) && is_multiple(with.b_scale, 16);
}

float load(cudaDataType type, const void* data, std::int64_t i) {
  switch (type) {
    case CUDA_R_16BF:
      return static_cast<float>(static_cast<const bf16*>(data)[i]);
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const fp16*>(data)[i]);
    case CUDA_R_8F_E4M3:
      return emulator::fp8_value(tessera::Fp8::e4m3, static_cast<const std::uint8_t*>(data)[i]);
    case CUDA_R_8F_E5M2:
      return emulator::fp8_value(tessera::Fp8::e5m2, static_cast<const std::uint8_t*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void store(cudaDataType type, void* data, std::int64_t i, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<bf16*>(data)[i] = bf16(value);
      break;
    case CUDA_R_16F:
      static_cast<fp16*>(data)[i] = fp16(value);
      break;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

float gelu(float sum) {
  const double x = static_cast<double>(sum);
  return static_cast<float>(0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
}
float gelu_slope(float stored) {
  const double x = static_cast<double>(stored), root = std::sqrt(2 / M_PI);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return static_cast<float>(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x));
}

struct Call {
  Description description;
  Layout a, b, d;
  float alpha, beta;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  void* workspace;
  std::size_t workspace_bytes;
  bool slow;
};

/// Ten bits of mantissa, to nearest, ties away from zero, as cvt.rna.tf32 does. How the real library rounds is not
/// documented.
float tf32(float x) { return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000u) & ~0x1fffu); }

/// op(matrix) as fp32, column-major and dense.
std::vector<float> as_floats(const Layout& l, const void* data, bool transposed) {
  std::vector<float> out(static_cast<std::size_t>(l.rows * l.columns));
  for (std::int64_t column = 0; column < l.columns; ++column) {
    for (std::int64_t row = 0; row < l.rows; ++row) {
      out[static_cast<std::size_t>(transposed ? row * l.columns + column : column * l.rows + row)] =
          load(l.type, data, column * l.stride + row);
    }
  }
  return out;
}

void compute(const Call& call) {
  if (call.slow) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (call.workspace_bytes > 0) std::memset(call.workspace, 0xff, std::min<std::size_t>(call.workspace_bytes, 4096));
  const bool ta = call.description.transpose_a == CUBLAS_OP_T, tb = call.description.transpose_b == CUBLAS_OP_T;
  std::vector<float> a = as_floats(call.a, call.a_data, ta), b = as_floats(call.b, call.b_data, tb);
  if (call.description.rounds_to_tf32) {
    for (std::vector<float>* factors : {&a, &b}) std::ranges::transform(*factors, factors->begin(), tf32);
  }
  const std::int64_t m = call.d.rows, n = call.d.columns, k = ta ? call.a.rows : call.a.columns;
  // The library chooses by the whole shape: matmuls of other sizes sum in other orders. Here in parts, of 16-bit
  // factors with 18 bits each, so that the difference shows in what is stored.
  const std::int64_t parts = 1 + (m + n) % 3;
  const bool cuts = parts > 1 && call.a.type != CUDA_R_32F && !is_fp8(call.a.type);
  const Description& with = call.description;
  const float scale =
      call.alpha * (with.a_scale != nullptr ? *with.a_scale : 1) * (with.b_scale != nullptr ? *with.b_scale : 1);
  std::vector<float> sum(static_cast<std::size_t>(m)), part(sum.size());
  for (std::int64_t j = 0; j < n; ++j) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (std::int64_t which = 0; which < parts; ++which) {
      std::fill(part.begin(), part.end(), 0.0f);
      for (std::int64_t p = which * k / parts; p < (which + 1) * k / parts; ++p) {
        const float factor = b[static_cast<std::size_t>(j * k + p)];
        const float* column = a.data() + p * m;
        for (std::size_t i = 0; i < part.size(); ++i) part[i] += column[i] * factor;
      }
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += cuts ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(part[i]) & ~0x3fu) : part[i];
      }
    }
    for (std::int64_t i = 0; i < m; ++i) {
      float y = scale * sum[static_cast<std::size_t>(i)];
      const std::int64_t at = j * call.d.stride + i;
      if (call.beta != 0) y += call.beta * load(call.d.type, call.c_data, at);
      const std::int64_t beside = j * call.description.auxiliary_stride + i;
      if (has_bias(call.description)) y += load(call.d.type, call.description.bias, i);
      if (call.description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        store(call.d.type, call.description.auxiliary, beside, y);
        y = gelu(y);
      }
      if (call.description.epilogue == CUBLASLT_EPILOGUE_DGELU) {
        y *= gelu_slope(load(call.d.type, call.description.auxiliary, beside));
      }
      store(call.d.type, call.d_data, at, y);
    }
  }
}

}  // namespace

namespace emulator {

void set_favourite_matmul(int device, int variant) {
  const std::lock_guard guard(hooks().lock);
  hooks().favourite[device] = variant;
}

void set_fast_matmul(int variant) {
  const std::lock_guard guard(hooks().lock);
  hooks().slow_except = variant;
}

std::map<std::pair<int, int>, int> take_matmul_launches() {
  const std::lock_guard guard(hooks().lock);
  return std::exchange(hooks().launches, {});
}

int take_epilogue_launches(int epilogue) {
  const std::lock_guard guard(hooks().lock);
  return std::exchange(hooks().epilogues[static_cast<std::uint32_t>(epilogue)], 0);
}

std::array<int, 2> take_fp8_launches() {
  const std::lock_guard guard(hooks().lock);
  return std::exchange(hooks().of_fp8, {});
}

}  // namespace emulator

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  Life::begin();
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  Life::require("cublasLtDestroy");
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute_type,
                                        cudaDataType_t scale) {
  const bool tf32 = compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  if ((compute_type != CUBLAS_COMPUTE_32F && !tf32) || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.rounds_to_tf32 = tf32});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  Life::require("cublasLtMatmulDescDestroy");
  delete &own<Description>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto& d = own<Description>(handle);
  const auto take = [&](auto& member) {
    if (bytes != sizeof(member)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&member, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(d.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(d.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(d.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(d.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(d.auxiliary);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(d.auxiliary_stride);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return take(d.a_scale);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return take(d.b_scale);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return take(d.fast_accumulation);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF && type != CUDA_R_16F && !is_fp8(type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (rows == 0 || cols == 0 || ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  Life::require("cublasLtMatrixLayoutDestroy");
  delete &own<Layout>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete &own<Preference>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  auto& p = own<Preference>(handle);
  const auto take = [&](auto& member) {
    if (bytes != sizeof(member)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&member, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(p.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(p.reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return take(p.alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return take(p.alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return take(p.alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(p.alignment[3]);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
                                              cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  const auto& description = own<Description>(operation);
  const Layout &a = own<Layout>(a_layout), &b = own<Layout>(b_layout), &d = own<Layout>(d_layout);
  const auto& p = own<Preference>(preference);
  const bool ta = description.transpose_a == CUBLAS_OP_T, tb = description.transpose_b == CUBLAS_OP_T;
  if (wanted < 1 || c_layout != d_layout) return CUBLAS_STATUS_INVALID_VALUE;
  if ((ta ? a.columns : a.rows) != d.rows || (tb ? b.rows : b.columns) != d.columns ||
      (ta ? a.rows : a.columns) != (tb ? b.columns : b.rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (is_fp8(a.type) || is_fp8(b.type)) {
    if (!takes_fp8(description, a, b, d, p.alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  } else {
    if (a.type != b.type || (d.type != a.type && d.type != CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (description.a_scale != nullptr || description.b_scale != nullptr || description.fast_accumulation != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (description.rounds_to_tf32 && a.type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((p.reductions & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0) {
    return CUBLAS_STATUS_NOT_SUPPORTED;  // sums that are not reproducible, or rounded on the way
  }
  const Layout* layouts[] = {&a, &b, &d, &d};
  for (int i = 0; i < 4; ++i) {
    if (p.alignment[i] < bytes_of(layouts[i]->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  switch (description.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      break;
    case CUBLASLT_EPILOGUE_BIAS:
      if (description.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
      if ((d.type != a.type && !is_fp8(a.type)) || p.alignment[3] < 16) return CUBLAS_STATUS_NOT_SUPPORTED;
      if (is_fp8(a.type) && d.type == CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;  // its bias would be bf16
      break;
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      if (description.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_DGELU:
      if (description.auxiliary == nullptr || description.auxiliary_stride < d.rows) return CUBLAS_STATUS_INVALID_VALUE;
      if (d.type == CUDA_R_32F || description.auxiliary_stride % 8 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  int favourite = 0;
  {
    const std::lock_guard guard(hooks().lock);
    const auto given = hooks().favourite.find(device_now());
    if (given != hooks().favourite.end()) favourite = given->second;
  }
  for (; *found < std::min(wanted, emulator::kMatmulVariants); ++*found) {
    const auto variant = static_cast<std::uint64_t>((favourite + *found) % emulator::kMatmulVariants);
    Algorithm algorithm{kMagic, {}, shape_of(description, a, b, d), variant};
    std::memcpy(algorithm.alignment, p.alignment, sizeof(p.alignment));
    if (has_bias(description)) algorithm.alignment[4] = alignment_of(description.bias);
    if (has_auxiliary(description)) algorithm.alignment[5] = alignment_of(description.auxiliary);
    cublasLtMatmulHeuristicResult_t& result = results[*found];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof(algorithm));
    result.workspaceSize = std::min<std::size_t>(p.workspace, 4096);
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  Algorithm algorithm{};
  if (algo == nullptr || result == nullptr || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&algorithm, algo, sizeof(algorithm));
  const std::uint64_t shape = shape_of(own<Description>(operation), own<Layout>(a), own<Layout>(b), own<Layout>(d));
  if (algorithm.magic != kMagic || algorithm.shape != shape) return CUBLAS_STATUS_INVALID_VALUE;
  *result = {};
  result->algo = *algo;
  result->workspaceSize = 4096;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a_data,
                              cublasLtMatrixLayout_t a_layout, const void* b_data, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c_data, cublasLtMatrixLayout_t c_layout, void* d_data,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  Algorithm algorithm{};
  if (algo == nullptr || c_layout != d_layout) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&algorithm, algo, sizeof(algorithm));
  const Call call{
      own<Description>(operation),
      own<Layout>(a_layout),
      own<Layout>(b_layout),
      own<Layout>(d_layout),
      *static_cast<const float*>(alpha),
      *static_cast<const float*>(beta),
      a_data,
      b_data,
      c_data,
      d_data,
      workspace,
      workspace_bytes,
      counted_launch(static_cast<int>(algorithm.variant), own<Description>(operation), own<Layout>(a_layout))};
  if (algorithm.magic != kMagic || algorithm.shape != shape_of(call.description, call.a, call.b, call.d)) {
    return CUBLAS_STATUS_INVALID_VALUE;  // chosen for another matmul
  }
  const void* pointers[] = {a_data, b_data, c_data, d_data};
  for (int i = 0; i < 4; ++i) {
    if (pointers[i] == nullptr || !is_multiple(pointers[i], algorithm.alignment[i])) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Description& ends = call.description;
  if (has_bias(ends) && !is_multiple(ends.bias, algorithm.alignment[4])) return CUBLAS_STATUS_INVALID_VALUE;
  if (has_auxiliary(ends) && !is_multiple(ends.auxiliary, algorithm.alignment[5])) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_multiple(ends.a_scale, 16) || !is_multiple(ends.b_scale, 16)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace_bytes > 0 && (workspace == nullptr || !is_multiple(workspace, 256))) return CUBLAS_STATUS_INVALID_VALUE;
  emulator::enqueue(stream, [call] { compute(call); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
