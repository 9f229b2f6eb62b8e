#pragma once
// Linears, and their operands in fp8.

#include <cstdint>

#include "tessera/base/fp8.hpp"
#include "tessera/kernels/arguments/dropout.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// The layout of a linear's weight: GPT-2's Conv1D stores [in, out], all others [out, in].
enum class WeightLayout : std::uint8_t { in_out, out_in };

/// Rounds an operand of a linear; the same bits on any number of threads:
/// output = what the input is in fp8: input * scale rounded to `type`, with the scale
///   s = largest_of(type) / max |input|, at most 2^126; 1 if all numbers are 0.
/// The factor 1 / s takes sums back. It is NaN if one of the numbers is not finite, so that nothing hides that.
struct ToFp8 {
  std::int64_t rows = 0, columns = 0;
  Fp8 type = Fp8::e4m3;
  ConstView input;                 ///< [rows, columns]; of e4m3: codes, which stay what they are, with `largest`
  View output;                     ///< [rows, columns] as KernelNeeds::packs_fp8 says; GPUs: may be empty
  View turned;                     ///< GPUs: [columns, rows], the same numbers transposed; may be empty
  float* factor = nullptr;         ///< stored, at an address that 16 divides; another number behind it is scratch
  const float* largest = nullptr;  ///< max |input| where that is known; null: it is found in a pass of its own
};

/// Raises *largest to the bits of max |x|, rounded to a type: as floats and as integers, magnitudes have one order.
/// Those of NaN are above all others.
struct LargestMagnitude {
  ConstView x;  ///< [elements], at an address that 16 divides
  std::int64_t elements = 0;
  DType rounded_to = DType::fp32;
  std::int64_t* largest = nullptr;
};

/// Makes the codes of e4m3 that ToFp8 make of x in `rounded_to`, where *largest is as above.
struct ToCodes {
  ConstView x;  ///< [elements], at an address that 16 divides
  std::int64_t elements = 0;
  DType rounded_to = DType::fp32;
  const std::int64_t* largest = nullptr;
  void* codes = nullptr;  ///< at an address that 8 divides
};

/// A linear's operand [rows, columns] in fp8. A GPU's matmuls add up along rows of both their operands, and each reads
/// the copy in which it finds that: weights [out, in] forward, [in, out] backward; for a weight's gradient [in, tokens]
/// and [out, tokens].
struct Fp8Operand {
  ConstView view;                 ///< [rows, columns]
  ConstView turned;               ///< [columns, rows]
  const float* factor = nullptr;  ///< sums are multiplied by it; null: there is no such operand

  explicit operator bool() const { return factor != nullptr; }
};

/// Where a kernel of a GPU writes a matrix in fp8, in place of its numbers: the copies that ToFp8 makes of them.
struct Fp8Output {
  Fp8 type = Fp8::e4m3;
  View output, turned;      ///< `output` may be empty
  float* factor = nullptr;  ///< null: the matrix is not wanted

  explicit operator bool() const { return factor != nullptr; }
};

/// output = residual + dropout(scale input W + bias), and activated = gelu(output) where asked. GELU is the tanh form:
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel; "gelu_new").
struct LinearForward {
  std::int64_t tokens = 0, in = 0, out = 0;
  ConstView input;   ///< [tokens, in]
  ConstView weight;  ///< [in, out] or [out, in], in input's dtype; not read where weight8 is there
  WeightLayout layout = WeightLayout::in_out;
  ConstView bias;        ///< [out] or empty
  ConstView residual;    ///< [tokens, out] in output's dtype, or empty
  View output;           ///< [tokens, out]; may be the residual's own memory. May be empty when `activated` is not.
  View activated;        ///< [tokens, out] or empty: gelu of the output as stored
  bool is_kept = false;  ///< `activated` is not recomputed: it may be of the output before it was rounded
  Dropout dropout;
  Fp8Operand input8 = {}, weight8 = {};  ///< multiplied in place of input and weight where they are there
  float scale = 1;                       ///< of the matmul
  float* largest = nullptr;              ///< of `activated`, which is of the output as stored then
};

/// Gradients of output = scale input W + bias. Each of the three may be left out (empty).
struct LinearBackward {
  std::int64_t tokens = 0, in = 0, out = 0;
  ConstView input;   ///< [tokens, in]; read for the weight's gradient
  ConstView weight;  ///< read for the input's gradient
  WeightLayout layout = WeightLayout::in_out;
  ConstView output_gradient;  ///< [tokens, out] in input's dtype
  View input_gradient;        ///< [tokens, in]
  bool input_adds = false;    ///< input_gradient += (several linears read one input), rounded once
  /// [tokens, in] or empty: input = gelu(before_gelu), and input_gradient is taken through it, with what it adds to
  ConstView before_gelu;
  PartialSums output_gradient_sums;  ///< made by the norm backward that made output_gradient; may be empty
  GradientView weight_gradient;      ///< in `layout`
  GradientView bias_gradient;        ///< [out]: the sum of output_gradient's rows
  Fp8Operand input8 = {}, weight8 = {}, gradient8 = {};  ///< as in LinearForward, of those that matmuls read
  float scale = 1;                                       ///< forward's
  /// The input was dropped out on its way to this linear alone, and what input_gradient gets has that mask.
  Dropout input_dropout = {};
};

}  // namespace tessera
