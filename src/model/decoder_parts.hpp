#pragma once
// The directions of each kind of part, one source file per kind. decoder.cpp has checked their arguments.

#include "tessera/kernels/scratch_layout.hpp"
#include "tessera/model/decoder.hpp"

namespace tessera {

/// Returns the role of the bias that goes with a weight or gain. A part may have no such bias.
constexpr Role bias_of(Role role) { return static_cast<Role>(static_cast<int>(role) + 1); }

/// The common arguments of every function here.
struct PartCall {
  Kernels& kernels;
  Stream& stream;
  const ModelParts& model;
  const Part& part;
  const PartBuffers& buffers;

  const Architecture& architecture() const { return model.architecture; }
  /// Returns a [rows, columns] matrix in the compute dtype.
  ConstView read(const void* data, std::int64_t columns) const { return {data, model.compute, columns}; }
  View write(void* data, std::int64_t columns) const { return {data, model.compute, columns}; }
  /// Returns the place of a parameter among the part's tensors; their number if the part has none of this role.
  std::size_t place_of(Role role) const;
  bool has(Role role) const { return place_of(role) < part.tensors.size(); }
  /// Returns a parameter, `columns` wide; empty if the part has none of this role. Gradients and saved values likewise.
  ConstView parameter(Role role, std::int64_t columns) const;
  GradientView gradient(Role role, std::int64_t columns) const;
  void* saved(SavedRole role) const;
  float* saved_floats(SavedRole role) const { return static_cast<float*>(saved(role)); }
  /// Returns the workspace of a direction, to be divided.
  ScratchLayout scratch(const PartCost& direction) const { return {buffers.scratch, direction.scratch_bytes}; }
  Dropout dropout(DropoutSite site) const;
  /// Returns the partial sums of the residual gradient; empty if the model has none.
  PartialSums residual_gradient_sums() const;
};

/// Starts output = input W + bias of a linear [tokens, in] to [tokens, out]: the caller sets input, output and the
/// rest.
LinearForward linear_forward(const PartCall& call, Role weight, std::int64_t in, std::int64_t out);
LinearBackward linear_backward(const PartCall& call, Role weight, std::int64_t in, std::int64_t out);

/// Applies the norm at the start of both halves of a block; saves mean and deviation.
void normalize_input(const PartCall& call, Role gain, void* normalized);
/// Adds the norm's input gradient to residual_gradient. Writes the gradients of gain and bias, and forward's output to
/// `normalized`.
void normalize_input_backward(const PartCall& call, Role gain, const void* normalized_gradient, void* normalized,
                              void* scratch);
/// Compute the two halves of a linear's backward: the gradient of its input, and those of weight and bias, which read
/// the input.
void input_gradient(const PartCall& call, LinearBackward linear, const View& gradient, bool adds);
void weight_gradients(const PartCall& call, LinearBackward linear, const ConstView& input);
/// Returns the gradient of a half's contribution to the residual stream: d output, through the dropout's mask (into
/// `masked`) if there is one.
ConstView branch_gradient(const PartCall& call, DropoutSite site, void* masked);

void embedding_forward_part(const PartCall& call);
void embedding_backward_part(const PartCall& call);
/// Runs forward and recompute alike: writes output only if there is one.
void attention_forward_part(const PartCall& part);
void attention_backward_part(const PartCall& part);
void mlp_forward_part(const PartCall& part);
void mlp_backward_part(const PartCall& part);
void head_loss_part(const PartCall& call);
/// Computes the logits of one row per sequence.
void head_logits_part(const PartCall& call);
void head_training_part(const PartCall& call);

}  // namespace tessera
