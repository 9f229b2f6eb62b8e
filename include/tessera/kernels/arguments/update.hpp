#pragma once
// Updates of parameters and their state.

#include <cstdint>
#include <span>

#include "tessera/kernels/step_scalars.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// Elements [begin, end) of an updated range, with or without weight decay.
struct DecayRun {
  std::int64_t begin = 0, end = 0;
  bool decays = false;
  bool is_padding = false;   ///< is not updated, only copied
  float scale = 1.0f;        ///< Muon: of the rate, by the matrix's shape
  std::uint32_t tensor = 0;  ///< the number of its tensor, and its first element's in that: they place the random words
  std::int64_t first = 0;    ///< by which states are rounded (kernels/state_rounding.hpp)
};

/// With states, g = gradient * clip_coefficient:
///   adamw   AdamW with decoupled decay (Loshchilov & Hutter 2019), in PyTorch's order, with states m and v:
///     p -= lr wd p;  m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g^2;  p -= lr/bc1 * m / (sqrt(v / bc2) + eps)
///   muon    Muon's update from an orthogonal direction o, with one state m:
///     m += (1 - momentum)(g - m);  p -= lr wd p;  p -= lr scale o
enum class UpdateRule : std::uint8_t { adamw, muon };
constexpr const char* name_of(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::adamw:
      return "adamw";
    case UpdateRule::muon:
      return "muon";
  }
  return "";
}

/// An optimizer's update. Every split of the range gives the same bits. When scalars->skip is set, it only makes the
/// copy, if one is wanted.
struct ParameterUpdate {
  UpdateRule rule = UpdateRule::adamw;
  std::int64_t elements = 0;
  float* master = nullptr;           ///< [elements], updated in place, as are the states
  std::span<void* const> states;     ///< [elements] each; host memory, read when submitted
  DType states_dtype = DType::fp32;  ///< fp32, or bf16, rounded at random
  const float* direction = nullptr;  ///< Muon: [elements], orthogonal
  double momentum = 0;               ///< Muon: 1 - momentum is taken in double
  const void* gradient = nullptr;    ///< [elements]
  DType gradient_dtype = DType::fp32;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;  ///< 1 - beta is taken in double
  /// Ascending, disjoint; elements outside every run are left alone. Host memory, read when submitted.
  std::span<const DecayRun> runs;
  void* copy = nullptr;  ///< stored: the new master as cast() converts it, or the old one of a skipped step
  DType copy_dtype = DType::fp32;
  const StepScalars* scalars = nullptr;
  /// Checksums of the master and of each state, which change with them: what is read is taken off, what is written is
  /// added. Null: they are not kept. Device memory.
  std::uint64_t* sums = nullptr;
  std::int64_t first = 0;  ///< the number of the first element in what the sums are of
};

/// The direction that Muon makes orthogonal, with the momentum that its update will leave behind (Nesterov). With g =
/// gradient * clip_coefficient, and m the momentum:
///   m' = m + (1 - momentum)(g - m);  output = g + momentum (m' - g)
struct MuonDirection {
  std::int64_t elements = 0;
  const void* state = nullptr;  ///< [elements]: m, which stays as it is
  DType state_dtype = DType::fp32;
  const void* gradient = nullptr;  ///< [elements]
  DType gradient_dtype = DType::fp32;
  double momentum = 0.95;
  float* output = nullptr;  ///< [elements], stored
  const StepScalars* scalars = nullptr;
};

/// A nearly orthogonal matrix, the same bits on any number of threads, by Newton-Schulz iterations (Jordan et al. 2024,
/// as torch.optim.Muon has them).
///   X = input / max(|input|, 1e-7) in the Frobenius norm. Then, `steps` times, with G = X X^T:
///   X = a X + (b G + c G G) X.
/// A CPU's iterations are in fp32, a GPU's multiply in bf16 with fp32 sums.
/// Here a, b, c are 3.4445, -4.7750 and 2.0315. With more rows than columns it is X = a X + X (b G + c G G) with G =
/// X^T X, which is the same for the transposed matrix.
struct Orthogonalize {
  std::int64_t rows = 0, columns = 0;
  /// fp32 [rows, columns]. Empty: another rank's matrix. Nothing is computed, but the ranks agree on its algorithms.
  ConstView input;
  View output;  ///< fp32 [rows, columns]; may be the input's own memory
  std::int64_t steps = 5;
  void* scratch = nullptr;  ///< KernelNeeds::orthogonalize
};

}  // namespace tessera
