#pragma once
// Matmuls by cuBLASLt. An algorithm is chosen once per kind of matmul and kept: the same shapes, strides, types and
// alignments always run the same one. Algorithms with their own order of summation are excluded, so that split sums
// only go through the workspace, in order. Rank 0 chooses for all ranks (kernels/gemm_algorithms.hpp).

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cuda/kernels/cublaslt.hpp"
#include "tessera/kernels/gemm_algorithms.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// A row-major matrix as it is stored, read as it is or transposed.
struct MatmulOperand {
  ConstView view;
  bool transposed = false;
};

/// The operation on a sum before it is rounded and stored.
enum class MatmulEpilogue : std::uint8_t {
  none,
  bias,           ///< + bias[column]
  bias_gelu,      ///< + bias[column], rounded and kept as before_gelu; d is gelu of the unrounded sum
  gelu_backward,  ///< * gelu'(operand[row, column])
};

/// d[m, n] = epilogue(scale a[m, k] b[k, n] + c_scale c), row-major, in fp32, rounded once. With operands in fp8 the
/// matmul is multiplied by both factors, too.
struct Matmul {
  std::int64_t m = 0, n = 0, k = 0;
  MatmulOperand a, b;  ///< one dtype; or both in fp8, then b alone is transposed, and one of them is e4m3
  ConstView c;         ///< of d's dtype; empty: nothing is added. May be d's own memory.
  float scale = 1.0f, c_scale = 1.0f;
  View d;
  MatmulEpilogue epilogue = MatmulEpilogue::none;
  ConstView operand;  ///< of the epilogue: bias [n], or gelu's input [m, n]; of d's dtype
  View before_gelu;   ///< bias_gelu: [m, n], of d's dtype
  const float *a_factor = nullptr, *b_factor = nullptr;  ///< of operands in fp8, in device memory
  bool is_coarse = false;  ///< fp8: sums may lose bits on the way, where that is faster (fast accumulation)
};

/// Returns the largest power of two that divides an address, up to the needs of vectors and copies of tiles. For an
/// empty view the limit.
std::uint32_t alignment_of(const ConstView& view);
/// Return what the library's epilogue reads, or writes as gelu's input; null: nothing.
const void* bias_of(const Matmul& p);
const void* gelu_input_of(const Matmul& p);

class Matmuls {
 public:
  /// `workspace`: `workspace_bytes` of device memory, aligned to 256 bytes.
  Matmuls(void* workspace, std::int64_t workspace_bytes, GemmSettings settings = {});

  /// Launches the matmul. The first one of a kind selects an algorithm, agreed by all ranks. Returns false without
  /// launching if cuBLASLt does not support it: types (d has a's type or fp32; any, where a and b are fp8), an epilogue
  /// or fp8 on unaligned memory, no algorithm. A matmul into fp32 without epilogue is always possible; of fp8 if `n`
  /// and `k` are multiples of 16.
  bool run(cudaStream_t stream, const Matmul& p);
  /// The same; UsageError if not supported.
  void require(cudaStream_t stream, const Matmul& p);
  /// Only selects the algorithm, on a rank that does not run a matmul that another one requires.
  void prepare(cudaStream_t stream, const Matmul& p);

  std::string library_version() const;  ///< "13.1.0"
  std::string library_name() const { return "cuBLASLt " + library_version(); }

 private:
  struct Plan {
    CublasLtHandle<cublasLtMatmulDesc_t> description;
    CublasLtHandle<cublasLtMatrixLayout_t> a, b, d;  ///< c has d's layout
    GemmAlgorithm choice;
  };
  /// Shapes, strides, types, flags (TF32 is one) and alignments.
  using Key = std::array<std::int64_t, 16>;

  Key key_of(const Matmul& p) const;
  bool rounds(const Matmul& p) const { return settings_.rounds_to_tf32 && p.a.view.dtype == DType::fp32; }
  Plan make_plan(cudaStream_t stream, const Matmul& p);
  const Plan& plan_of(cudaStream_t stream, const Matmul& p);
  [[noreturn]] void refuse(const Matmul& p) const;
  /// Sets the addresses of the epilogue's bias and gelu's input in the plan's description; null: it has none.
  void set_places(const Plan& plan, const void* bias, const void* gelu_input) const;
  void set_factors(const Plan& plan, const Matmul& p) const;
  /// Returns this rank's choice: the kept one, if the library still takes it, or a new one.
  GemmAlgorithm choose(cudaStream_t stream, const Matmul& p, const Plan& plan, const GemmAlgorithm* kept) const;
  /// Returns the library's candidates, its favourite first.
  std::vector<GemmAlgorithm> candidates(const Matmul& p, const Plan& plan) const;
  /// Returns the fastest of them on the matmul's own operands, whose result is written several times.
  GemmAlgorithm fastest(cudaStream_t stream, const Matmul& p, const Plan& plan,
                        const std::vector<GemmAlgorithm>& all) const;
  /// Returns whether the library runs the choice here; fills in the workspace that it needs.
  bool accepts(const Plan& plan, GemmAlgorithm& choice) const;
  cublasStatus_t launch(cudaStream_t stream, const Matmul& p, const Plan& plan, const GemmAlgorithm& choice) const;
  CublasLtHandle<cublasLtMatrixLayout_t> layout(DType dtype, std::int64_t rows, std::int64_t columns,
                                                std::int64_t stride) const;

  CublasLt library_;
  CublasLtHandle<cublasLtHandle_t> handle_;
  std::map<Key, Plan> plans_;
  void* workspace_;
  std::int64_t workspace_bytes_;
  GemmSettings settings_;
};

}  // namespace tessera
