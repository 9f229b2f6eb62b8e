#pragma once
// Activations of MLPs.

#include <cstdint>

#include "tessera/kernels/arguments/linear.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// output = gelu(input); the same bits as LinearForward::activated.
struct GeluForward {
  std::int64_t rows = 0, columns = 0;
  ConstView input;           ///< [rows, columns]
  View output;               ///< [rows, columns] in input's dtype
  float* largest = nullptr;  ///< of output
};

/// Of a gated MLP (Shazeer 2020): silu(x) = x / (1 + exp(-x)) in SwiGLU, LinearForward's gelu in GeGLU (Gemma).
enum class GateActivation : std::uint8_t { silu, gelu };

/// output = activation(gate) * up.
struct GluForward {
  std::int64_t tokens = 0, width = 0;
  ConstView gate, up;  ///< [tokens, width]
  View output;         ///< [tokens, width]; may be gate's or up's own memory
  GateActivation activation = GateActivation::silu;
  float* largest = nullptr;  ///< of output
};

struct GluBackward {
  std::int64_t tokens = 0, width = 0;
  ConstView gate, up, output_gradient;  ///< [tokens, width]
  View gate_gradient, up_gradient;      ///< [tokens, width]; each may be one of the three inputs' own memory
  View output;  ///< [tokens, width]: forward's again, the same bits, in separate memory; or empty
  GateActivation activation = GateActivation::silu;                                 ///< forward's
  float *gate_largest = nullptr, *up_largest = nullptr, *output_largest = nullptr;  ///< of the two gradients, of output
  /// GPUs: the three in fp8, in place of what the views above are for. Both gradients, of one type, or none; the
  /// largest magnitudes of what is wanted are found first.
  Fp8Output gate_gradient8 = {}, up_gradient8 = {}, output8 = {};
};

}  // namespace tessera
