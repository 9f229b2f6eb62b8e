#include "kernels/cpu/tile_matmul.hpp"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/cpu/storage.hpp"

// C = alpha A B + beta C of row-major matrices, A and B in bf16, C and its sums in fp32. oneDNN exports it but has it
// in none of its headers, so cmake/Dependencies.cmake looks for it. The public matmul primitive gives the same bits,
// but each call takes 0.5 to 0.9 us more: a quarter of a matmul of 64x64x64, as attention has them.
extern "C" dnnl_status_t dnnl_gemm_bf16bf16f32(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                                               float alpha, const void* a, dnnl_dim_t lda, const void* b,
                                               dnnl_dim_t ldb, float beta, float* c, dnnl_dim_t ldc);
#ifdef __aarch64__  // on Arm, which oneDNN 2.6 has only generic code for
extern "C" {
void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc);
void openblas_set_num_threads(int threads);
int openblas_get_parallel();
char* openblas_get_config();
char* openblas_get_corename();
}
#endif

namespace tessera {

namespace {

constexpr std::int64_t kPanelDepth = 1024;

/// Multiplies row-major matrices in fp32.
dnnl_status_t multiply_fp32(char a_form, char b_form, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                            std::int64_t a_stride, const float* b, std::int64_t b_stride, float beta, float* c,
                            std::int64_t c_stride) {
#ifdef __aarch64__
  static const bool threaded = (openblas_set_num_threads(1), openblas_get_parallel() != 0);  // our threads call it
  TESSERA_ASSERT(threaded,
                 "this OpenBLAS was built without threads, so only one may call it: install libopenblas-openmp-dev");
  const std::array<std::int64_t, 6> sizes = {m, n, k, a_stride, b_stride, c_stride};
  if (std::ranges::max(sizes) > std::numeric_limits<int>::max()) return dnnl_invalid_arguments;
  const float one = 1;
  const auto [rows, columns, depth, lda, ldb, ldc] =
      std::array{int(m), int(n), int(k), int(a_stride), int(b_stride), int(c_stride)};
  // To BLAS a row-major matrix is its transpose: C^T = B^T A^T.
  sgemm_(&b_form, &a_form, &columns, &rows, &depth, &one, b, &ldb, a, &lda, &beta, c, &ldc);
  return dnnl_success;
#else
  return dnnl_sgemm(a_form, b_form, m, n, k, 1.0f, a, a_stride, b, b_stride, beta, c, c_stride);
#endif
}

/// Multiplies operands of one dtype, fp32 or bf16.
void gemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n, std::int64_t k, bool adds, float* c,
          std::int64_t c_stride) {
  omp_set_num_threads(1);  // this thread's setting: oneDNN must not start its own team
  const char a_form = a.transposed ? 'T' : 'N', b_form = b.transposed ? 'T' : 'N';
  const float beta = adds ? 1.0f : 0.0f;
  const dnnl_status_t status =
      a.view.dtype == DType::fp32
          ? multiply_fp32(a_form, b_form, m, n, k, static_cast<const float*>(a.view.data), a.view.stride,
                          static_cast<const float*>(b.view.data), b.view.stride, beta, c, c_stride)
          : dnnl_gemm_bf16bf16f32(a_form, b_form, m, n, k, 1.0f, a.view.data, a.view.stride, b.view.data, b.view.stride,
                                  beta, c, c_stride);
  TESSERA_ASSERT(status == dnnl_success, "the library's {} matmul {}x{}x{} ends with status {}", name_of(a.view.dtype),
                 m, n, k, static_cast<int>(status));
}

/// Converts [rows, columns] (as read) of a 16-bit operand to fp32, stored the way the operand is.
Operand to_panel(const VectorKernels& vector, ScratchLayout& scratch, const Operand& operand, std::int64_t rows,
                 std::int64_t columns) {
  if (operand.view.dtype == DType::fp32) return operand;
  if (operand.transposed) std::swap(rows, columns);
  auto* panel = scratch.take<float>(rows * columns);
  const auto convert = vector.to_float[storage_index(operand.view.dtype)];
  for (std::int64_t row = 0; row < rows; ++row) convert(operand.view.at(row), panel + row * columns, columns);
  return {{panel, DType::fp32, columns}, operand.transposed};
}

}  // namespace

bool multiplies(DType dtype) {
  // oneDNN emulates bf16 on processors without these instructions, slower than fp32.
  constexpr unsigned kBf16 = dnnl_cpu_isa_avx512_core_bf16;
  static const bool has_bf16 = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kBf16) == kBf16;
  return dtype == DType::fp32 || (dtype == DType::bf16 && has_bf16);
}

void tile_matmul(const VectorKernels& vector, ScratchLayout scratch, const Operand& a, const Operand& b, std::int64_t m,
                 std::int64_t n, std::int64_t k, bool adds, float* c, std::int64_t c_stride) {
  if (a.view.dtype == b.view.dtype && multiplies(a.view.dtype)) {
    gemm(a, b, m, n, k, adds, c, c_stride);
    return;
  }
  for (std::int64_t first = 0; first < k; first += kPanelDepth) {
    const std::int64_t depth = std::min(kPanelDepth, k - first);
    ScratchLayout panels = scratch;
    const Operand a_panel = to_panel(vector, panels, a.from(0, first), m, depth);
    const Operand b_panel = to_panel(vector, panels, b.from(first, 0), depth, n);
    gemm(a_panel, b_panel, m, n, depth, adds || first > 0, c, c_stride);
  }
}

Implementation matrix_library() {
#ifdef __aarch64__
  std::string name, version;
  std::istringstream(openblas_get_config()) >> name >> version;  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  return {fmt::format("{} {} for {}", name, version, openblas_get_corename()), {{"openblas", version}}};
#else
  const dnnl_version_t& is = *dnnl_version();
  const std::string version = fmt::format("{}.{}.{}", is.major, is.minor, is.patch);
  return {fmt::format("oneDNN {}{}", version, multiplies(DType::bf16) ? " with bf16 matmuls" : ""),
          {{"onednn", version}}};
#endif
}

}  // namespace tessera
