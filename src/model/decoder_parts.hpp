#pragma once
// The directions of each kind of part, one source file a kind. decoder.cpp has checked their arguments.

#include "model/part_order.hpp"
#include "tessera/kernels/scratch_layout.hpp"
#include "tessera/model/decoder.hpp"

namespace tessera {

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
  /// Returns parameter number `tensor` of the part, `columns` wide; empty for -1. Gradients and saved values likewise.
  ConstView parameter(int tensor, std::int64_t columns) const {
    if (tensor < 0) return {};
    return read(buffers.parameters[static_cast<std::size_t>(tensor)], columns);
  }
  GradientView gradient(int tensor, std::int64_t columns) const {
    if (tensor < 0) return {};
    const auto i = static_cast<std::size_t>(tensor);
    return {{buffers.gradients[i], buffers.gradient_dtype, columns},
            !buffers.gradient_adds.empty() && buffers.gradient_adds[i]};
  }
  void* saved(int value) const { return value < 0 ? nullptr : buffers.saved[static_cast<std::size_t>(value)]; }
  float* saved_floats(int value) const { return static_cast<float*>(saved(value)); }
  /// Returns the workspace of a direction, to be divided.
  ScratchLayout scratch(const PartCost& direction) const { return {buffers.scratch, direction.scratch_bytes}; }
  Dropout dropout(DropoutSite site) const;
  /// Returns the partial sums of the residual gradient; empty if the model has none.
  PartialSums residual_gradient_sums() const;
};

/// Starts output = input W + bias of a linear [tokens, in] to [tokens, out]: the caller sets input, output and the
/// rest.
LinearForward linear_forward(const PartCall& call, const LinearTensors& tensors, std::int64_t in, std::int64_t out);
LinearBackward linear_backward(const PartCall& call, const LinearTensors& tensors, std::int64_t in, std::int64_t out);

/// Applies the norm at the start of both halves of a block; saves mean and deviation.
void normalize_input(const PartCall& call, const NormTensors& tensors, const NormSaved& saved, void* normalized);
/// Adds the norm's input gradient to residual_gradient. Writes the gradients of gain and bias, and forward's output to
/// `normalized`.
void normalize_input_backward(const PartCall& call, const NormTensors& tensors, const NormSaved& saved,
                              const void* normalized_gradient, void* normalized, void* scratch);
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
/// Computes the logits of one row a sequence.
void head_logits_part(const PartCall& call);
void head_training_part(const PartCall& call);

}  // namespace tessera
