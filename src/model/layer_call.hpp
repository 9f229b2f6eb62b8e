#pragma once
// One turn of a layer: its matrices, parameters and gradients as views, for the kernels that it calls.

#include <cstddef>
#include <optional>
#include <vector>

#include "tessera/kernels/scratch_layout.hpp"
#include "tessera/model/decoder.hpp"

namespace tessera {

/// A piece of a part's scratch, with the turns of layers in which it is in use.
struct ScratchPiece {
  std::int64_t bytes = 0, first_turn = -1, last_turn = -1;
};

/// The scratch of one direction of a part: matrices, gradients, and what kernels need. In a dry run it notes sizes and
/// lifetimes, from which PartCost::places follow.
class PartScratch {
 public:
  PartScratch(void* memory, const std::vector<std::int64_t>& places)
      : memory_(static_cast<std::byte*>(memory)), places_(&places) {}
  explicit PartScratch(std::vector<ScratchPiece>& noted) : noted_(&noted) {}

  void begin_turn() { ++turn_; }
  /// Returns a piece. `bytes` returns its size, and is called in a dry run alone.
  template <class Bytes>
  void* piece(std::size_t number, const Bytes& bytes) const {
    if (noted_ == nullptr) return memory_ + (*places_)[number];
    return note(number, bytes());
  }

 private:
  void* note(std::size_t number, std::int64_t bytes) const;

  std::byte* memory_ = nullptr;
  const std::vector<std::int64_t>* places_ = nullptr;
  std::vector<ScratchPiece>* noted_ = nullptr;
  std::int64_t turn_ = -1;
};

/// What is saved of a matrix whose copy in fp8 is (Matrix::slot): codes as a GPU's matmuls read them, transposed and
/// padded, or cores' as they lie; and their factor.
struct SavedFp8 {
  SavedFp8(ScratchLayout& memory, const ModelParts& model, const Matrix& matrix);
  View codes;
  std::int64_t numbers;  ///< codes
  float* factor;
};

/// An address that is not null, for dry runs.
inline void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{4096}); }

/// The arguments of part_forward and part_backward, and the list that they fill.
struct PartCall {
  const ModelParts& model;
  const Part& part;
  const PartBuffers& buffers;
  std::vector<KernelArguments>& kernels;  ///< that are called, in order

  void add(const KernelArguments& kernel) const { kernels.push_back(kernel); }
  /// Returns the type of the parameter at a place in Part::tensors.
  DType parameter_type(std::size_t place) const {
    return !buffers.codes.empty() && buffers.codes[place] ? DType::e4m3 : model.compute;
  }
};

struct LayerCall : PartCall {
  const PartScratch& scratch;
  const Layer& layer;

  const Matrix& matrix_of(const MatrixSlice& slice) const { return part.matrices[slice.matrix]; }
  bool is_saved(const MatrixSlice& slice) const { return matrix_of(slice).slot >= 0; }
  /// Returns whether a matrix is needed in this call.
  bool is_wanted(const MatrixSlice& slice) const {
    return buffers.output != nullptr || !matrix_of(slice).is_for_output;
  }
  /// Returns whether forward computes the layer.
  bool makes_output() const;
  /// Returns the copy in fp8 of a linear's input that forward leaves for backward, if that is what is saved of it.
  std::optional<SavedFp8> saved_input() const;
  /// Returns the copy that backward makes again, if that is what it makes.
  std::optional<SavedFp8> again_in_fp8(const MatrixSlice& slice) const;
  /// Returns the copies of a matrix's gradient, if the layer that makes it makes these.
  Fp8Output gradient_in_fp8(const MatrixSlice& slice) const;
  View view(const MatrixSlice& slice) const;
  /// Returns a matrix of fp32 numbers without gaps.
  float* floats(const MatrixSlice& slice) const { return static_cast<float*>(view(slice).data); }
  /// Returns the gradient of a matrix: the residual gradient if it is the part's input or output.
  View gradient(const MatrixSlice& slice) const;
  /// Returns where the layer that makes a matrix, or its gradient, keeps its largest magnitude; null if it does not.
  float* largest(const MatrixSlice& slice) const {
    return matrix_of(slice).is_measured ? maxima(slice.matrix) : nullptr;
  }
  float* largest_of_gradient(const MatrixSlice& slice) const {
    return matrix_of(slice).is_gradient_measured ? maxima(slice.matrix) + 1 : nullptr;
  }
  /// Makes 0 of them all, when a direction begins.
  void start_maxima() const;
  /// Returns the partial sums of the residual gradient; empty if the model has none.
  PartialSums residual_gradient_sums() const;
  /// Returns where its largest magnitude is; null if nobody finds it.
  float* residual_gradient_largest() const;
  /// Returns the same for the layer that finishes the residual gradient, after it has become 0.
  float* restart_residual_gradient_largest() const;
  /// Returns scratch for d output with the mask of dropout.
  void* masked_gradient() const {
    return scratch.piece(2 * part.matrices.size(), [&] { return layer.rows * layer.out * size_of(model.compute); });
  }
  /// Returns the parameter at a place in Part::tensors, `columns` wide; empty if the layer has none. Gradients
  /// likewise.
  ConstView parameter(std::int32_t place, std::int64_t columns) const;
  /// Returns max |weight| where it is known, else null.
  const float* weight_magnitude() const {
    return buffers.magnitudes.empty() ? nullptr : buffers.magnitudes[static_cast<std::size_t>(layer.weight)];
  }
  GradientView parameter_gradient(std::int32_t place, std::int64_t columns) const;
  Dropout dropout() const;
  /// Returns the dropout of what an adapter reads.
  Dropout adapter_dropout() const;
  /// Returns scratch for a kernel of this layer.
  template <class Bytes>
  void* kernel_scratch(const Bytes& bytes) const {
    return scratch.piece(kernel_piece(), bytes);
  }
  std::size_t kernel_piece() const {
    return 2 * part.matrices.size() + 1 + static_cast<std::size_t>(&layer - part.layers.data());
  }
  /// The piece for the input's copy in fp8, which all linears read that multiply it.
  std::size_t input_piece() const {
    return 2 * part.matrices.size() + 1 + part.layers.size() +
           static_cast<std::size_t>(layer.inputs[0].matrix.number());
  }

 private:
  /// Returns a matrix's two largest magnitudes. Those of all matrices lie behind each other.
  float* maxima(MatrixId matrix) const;
  View in_scratch(const MatrixSlice& slice, std::size_t piece) const;
};

/// Number of pieces that a part's scratch may have.
inline std::size_t scratch_pieces(const Part& part) { return 3 * part.matrices.size() + 2 + part.layers.size(); }

// The directions of each kind of layer, one source file per kind in layers/. A linear's backward has halves.
void embedding_forward(const LayerCall& call);
void embedding_backward(const LayerCall& call, BackwardTurn::Half);
void norm_forward(const LayerCall& call);
/// Of the part's input: adds to the residual gradient, and writes forward's output again.
void norm_backward(const LayerCall& call, BackwardTurn::Half);
void linear_forward(const LayerCall& call);
void linear_backward(const LayerCall& call, BackwardTurn::Half half);
void rotary_forward(const LayerCall& call);
void rotary_backward(const LayerCall& call, BackwardTurn::Half);
void attention_forward(const LayerCall& call);
void attention_backward(const LayerCall& call, BackwardTurn::Half);
void glu_forward(const LayerCall& call);
/// Turns d output into d gate, in place, and d up, or into both in fp8; makes the output again on the way unless it was
/// saved.
void glu_backward(const LayerCall& call, BackwardTurn::Half);
void head_forward(const LayerCall& call);
/// Forward and backward in one.
void head_backward(const LayerCall& call, BackwardTurn::Half);

/// Add the kernels of all layers of a part in one direction, without checks.
void add_forward(const PartCall& call, const PartScratch& scratch);
void add_backward(const PartCall& call, const PartScratch& scratch);

}  // namespace tessera
