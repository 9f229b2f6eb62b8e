#include "kernels/cpu/tile_product.hpp"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <array>

#include "kernels/cpu/storage.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kPanelDepth = 1024;

void sgemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n, std::int64_t k, bool adds, float* c,
           std::int64_t c_stride) {
  omp_set_num_threads(1);  // this thread's setting: oneDNN must not start a team of its own
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, static_cast<const float*>(a.view.data),
      a.view.stride, static_cast<const float*>(b.view.data), b.view.stride, adds ? 1.0f : 0.0f, c, c_stride);
  TESSERA_ASSERT(status == dnnl_success, "dnnl_sgemm {}x{}x{} ends with status {}", m, n, k, static_cast<int>(status));
}

/// [rows, columns] (as read) of a 16-bit operand as fp32, stored the way the operand is.
Operand to_panel(const VectorKernels& vector, Carver& scratch, const Operand& operand, std::int64_t rows,
                 std::int64_t columns) {
  if (operand.view.dtype == DType::fp32) return operand;
  if (operand.transposed) std::swap(rows, columns);
  auto* panel = scratch.take<float>(rows * columns);
  const auto convert = vector.to_float[storage_index(operand.view.dtype)];
  for (std::int64_t row = 0; row < rows; ++row) convert(operand.view.at(row), panel + row * columns, columns);
  return {{panel, DType::fp32, columns}, operand.transposed};
}

}  // namespace

void tile_product(const VectorKernels& vector, Carver scratch, const Operand& a, const Operand& b, std::int64_t m,
                  std::int64_t n, std::int64_t k, bool adds, float* c, std::int64_t c_stride) {
  if (a.view.dtype == DType::fp32 && b.view.dtype == DType::fp32) {
    sgemm(a, b, m, n, k, adds, c, c_stride);
    return;
  }
  for (std::int64_t first = 0; first < k; first += kPanelDepth) {
    const std::int64_t depth = std::min(kPanelDepth, k - first);
    Carver panels = scratch;
    const Operand a_panel = to_panel(vector, panels, a.from(0, first), m, depth);
    const Operand b_panel = to_panel(vector, panels, b.from(first, 0), depth, n);
    sgemm(a_panel, b_panel, m, n, depth, adds || first > 0, c, c_stride);
  }
}

std::string matrix_library_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace tessera
