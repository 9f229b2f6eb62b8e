#pragma once
// The inner loops of the CPU kernels as a table of functions, one table per instruction set. Each loop works on one row
// (or a small tile) and is written once over a vector of 16 lanes (lanes.inc). Sums always use 16 lanes and one fixed
// tree, so that all tables give the same bits.

#include <cstdint>

#include "tessera/base/instruction_set.hpp"

namespace tessera {

/// The storage type of a function of a family: the index into its array.
struct StorageIndex {
  enum : int { fp32 = 0, bf16 = 1, fp16 = 2, count = 3 };
};

/// AdamW's coefficients for a run of elements with one decay setting.
struct AdamWCoefficients {
  float clip = 1;   ///< gradient times this
  float decay = 0;  ///< lr * weight_decay, 0 if the run does not decay
  float one_minus_beta1 = 0;
  float beta2 = 0, one_minus_beta2 = 0;
  float step_size = 0;  ///< lr / bias_correction1
  float inverse_bias_correction2 = 1;
  float epsilon = 0;
};

/// Arguments named x, y, c are rows of n elements. `const void*` is the storage type of the index; float is fp32.
struct VectorKernels {
  template <class Function>
  using ByStorage = Function[StorageIndex::count];

  // Conversions.
  ByStorage<void (*)(const void* x, float* out, std::int64_t n)> to_float;
  ByStorage<void (*)(const float* x, void* out, std::int64_t n)> from_float;
  ByStorage<void (*)(const float* x, void* out, std::int64_t n)> add_from_float;  ///< out = round(out + x)

  // Plain fp32 rows.
  void (*add)(const float* x, const float* y, float* out, std::int64_t n);
  void (*multiply)(const float* x, const float* y, float* out, std::int64_t n);
  void (*scale)(float* x, float factor, std::int64_t n);
  ByStorage<float (*)(const void* x, const void* y, std::int64_t n)> dot;

  /// out[j] = sum over rows of y[row][j], j < n: groups of 32 rows are summed first, then the groups.
  ByStorage<void (*)(const void* y, std::int64_t stride, std::int64_t rows, std::int64_t n, float* out)> column_sums;

  // Norms.
  ByStorage<void (*)(const void* x, std::int64_t n, bool subtract_mean, float epsilon, float* mean, float* rstd)>
      norm_statistics;
  /// `addend`: bias or residual, or null.
  ByStorage<void (*)(const void* x, float mean, float rstd, const void* gain, float gain_offset, const void* addend,
                     void* out, std::int64_t n)>
      norm_apply;
  /// dx (+)= gradient of the norm; adds dy * xhat to gain_sums and dy to bias_sums (null: not wanted).
  ByStorage<void (*)(const void* x, const void* dy, float mean, float rstd, bool subtract_mean, const void* gain,
                     float gain_offset, void* dx, bool adds, float* gain_sums, float* bias_sums, std::int64_t n)>
      norm_backward;

  // Operations on a tile of a matmul while it is in cache.
  /// y = residual + mask * (c + bias), stored to out; activated = gelu(y as stored). Null pointers leave a term out.
  ByStorage<void (*)(const float* c, const void* bias, const float* mask, const void* residual, void* out,
                     void* activated, std::int64_t n)>
      linear_epilogue;
  ByStorage<void (*)(const void* x, void* out, std::int64_t n)> gelu;
  ByStorage<void (*)(const float* c, const void* before, void* out, std::int64_t n)>
      gelu_backward;  ///< out = c * gelu'(before)

  // Llama's halves of a block, and Gemma's.
  /// One head: pairs (x[i], x[half + i]) rotated by angle i; out may be x.
  ByStorage<void (*)(const void* x, const float* cosine, const float* sine, void* out, std::int64_t half)> rotary;
  /// out = activation(gate) * up, by GateActivation; out may be either.
  ByStorage<void (*)(const void* gate, const void* up, void* out, std::int64_t n)> glu[2];
  /// Each gradient may be any of the inputs.
  ByStorage<void (*)(const void* gate, const void* up, const void* output_gradient, void* gate_gradient,
                     void* up_gradient, std::int64_t n)>
      glu_backward[2];

  // Softmax.
  /// One tile of online softmax: s becomes exp(scale * s - new maximum); updates maximum and sum. Returns the factor by
  /// which the earlier sum shrinks.
  float (*softmax_online)(float* s, std::int64_t n, float scale, float* maximum, float* sum);
  /// s becomes p = exp(scale * s - log_sum_exp).
  void (*softmax_again)(float* s, std::int64_t n, float scale, float log_sum_exp);
  /// dp becomes p * (dp - delta) * scale.
  void (*softmax_backward)(const float* p, float* dp, std::int64_t n, float delta, float scale);
  /// maximum of x and sum of exp(x - maximum).
  void (*log_sum_exp_parts)(const float* x, std::int64_t n, float* maximum, float* sum);

  // The optimizer.
  /// m and v in fp32, or in bf16 (the second), rounded at random by `words`: one per element, and up to 15 more are
  /// read.
  ByStorage<void (*)(const AdamWCoefficients& k, const void* gradient, float* p, void* m, void* v,
                     const std::uint32_t* words, std::int64_t n)>
      adamw[2];
  /// out[i] = sum of squares of x[64 i .. 64 i + 64) in double; the last chunk may be short.
  ByStorage<void (*)(const void* x, std::int64_t n, double* out)> square_chunks;

  /// Returns the sum of word i of n * (weight + 2 i) mod 2^64.
  std::uint64_t (*checksum)(const void* words, std::int64_t n, std::uint64_t weight);
};

/// Returns the table for a set that this processor supports.
const VectorKernels& vector_kernels(InstructionSet set);

}  // namespace tessera
