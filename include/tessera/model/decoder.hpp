#pragma once
// A decoder, part by part: the kernel calls of a schedule's forward, recompute or backward of a part. They touch only
// the given buffers, at whose addresses nothing is read when the calls are made.

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/kernels/kernels.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

/// The buffers of one operation on one part. Spans follow the order of Part::tensors and Part::saved.
/// Activations and saved values are in ModelParts::compute unless their declaration says otherwise.
struct PartBuffers {
  const std::int32_t* tokens = nullptr;                   ///< [batch, sequence]
  const std::int32_t* targets = nullptr;                  ///< [batch, sequence]; the head's
  const std::int32_t* positions = nullptr;                ///< [batch, sequence] of ModelParts::documents; generation
  const std::int32_t* borders = nullptr;                  ///< ModelParts::borders_in
  const std::int32_t *counts = nullptr, *rows = nullptr;  ///< generation: GenerationInputs
  bool evaluation = false;                                ///< forward without dropout
  std::int64_t first_row = 0;                             ///< of the micro-batch that the buffers hold (Part::chunk)
  const void* input = nullptr;                            ///< residual stream [tokens, width]; null for embedding
  void* output =
      nullptr;  ///< residual stream [tokens, width]; null for the head, and in a recompute whose output is not read
  /// [tokens, width]: d output on entry, d input on exit (the head writes, embedding reads). Behind it lie its partial
  /// sums and largest magnitude: ModelParts::residual_gradient_elements() in all.
  void* residual_gradient = nullptr;
  std::span<void* const> saved;
  std::span<const void* const> parameters;  ///< in ModelParts::compute, or `codes`; null where backward reads none
  /// Per tensor, may be empty: max |weight| of the linear in fp8 whose weight begins with it; null: not known.
  std::span<const float* const> magnitudes;
  std::span<const bool> codes;  ///< per tensor, may be empty: the parameter is codes of e4m3, of known magnitude
  std::span<const void* const> constants;  ///< in the order of Part::constants
  std::span<void* const> gradients;        ///< in gradient_dtype
  std::span<const bool>
      gradient_adds;  ///< per tensor: add to the memory (a tied table's second contribution) instead of storing
  DType gradient_dtype = DType::fp32;
  void* scratch = nullptr;        ///< PartCost::scratch_bytes of this direction
  void* cache = nullptr;          ///< generation, attention: ModelParts::cache_elements() of it, updated
  float* logits = nullptr;        ///< generation, the head: [batch, vocab]
  float* token_losses = nullptr;  ///< the head in an evaluation, may be null: [batch, sequence], -log p of each target
  double* sample_losses = nullptr;  ///< the head in training, may be null: [batch], the sum of each one's tokens
  double* loss = nullptr;           ///< the head: sum over tokens of -log p(target) of this micro-batch (stored)
  const StepScalars* scalars = nullptr;
};

/// Returns calls that write output, unless it is null, and saved values: a recompute makes the same bits again. Head:
/// loss only (evaluation), or logits (generation).
std::vector<KernelArguments> part_forward(const ModelParts& model, const Part& part, const PartBuffers& buffers);
/// Returns calls that write gradients and turn residual_gradient from d output into d input. Head: loss, forward and
/// backward in one. Embedding leaves residual_gradient as it is.
std::vector<KernelArguments> part_backward(const ModelParts& model, const Part& part, const PartBuffers& buffers);

}  // namespace tessera
