#include "kernels/cpu/tile_matmul.hpp"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "kernels/cpu/storage.hpp"

// C = alpha A B + beta C of row-major matrices, A and B in bf16, C and its sums in fp32. oneDNN exports it but has it
// in none of its headers, so cmake/Dependencies.cmake looks for it. The public matmul primitive gives the same bits,
// but each call takes 0.5 to 0.9 us more: a quarter of a matmul of 64x64x64, as attention has them.
extern "C" dnnl_status_t dnnl_gemm_bf16bf16f32(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                                               float alpha, const void* a, dnnl_dim_t lda, const void* b,
                                               dnnl_dim_t ldb, float beta, float* c, dnnl_dim_t ldc);

namespace tessera {

namespace {

constexpr std::int64_t kPanelDepth = 1024;

/// Multiplies operands of one dtype, fp32 or bf16.
void gemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n, std::int64_t k, bool adds, float* c,
          std::int64_t c_stride) {
  omp_set_num_threads(1);  // this thread's setting: oneDNN must not start its own team
  const char a_form = a.transposed ? 'T' : 'N', b_form = b.transposed ? 'T' : 'N';
  const float beta = adds ? 1.0f : 0.0f;
  const dnnl_status_t status =
      a.view.dtype == DType::fp32
          ? dnnl_sgemm(a_form, b_form, m, n, k, 1.0f, static_cast<const float*>(a.view.data), a.view.stride,
                       static_cast<const float*>(b.view.data), b.view.stride, beta, c, c_stride)
          : dnnl_gemm_bf16bf16f32(a_form, b_form, m, n, k, 1.0f, a.view.data, a.view.stride, b.view.data, b.view.stride,
                                  beta, c, c_stride);
  TESSERA_ASSERT(status == dnnl_success, "oneDNN's {} matmul {}x{}x{} ends with status {}", name_of(a.view.dtype), m, n,
                 k, static_cast<int>(status));
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

std::string matrix_library_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}{}", version->major, version->minor, version->patch,
                     multiplies(DType::bf16) ? " with bf16 matmuls" : "");
}

}  // namespace tessera
