#pragma once
// A model as data. A part is a list of layers that read and write matrices, and what else there is to know about it
// follows from the list: its tensors and their order, what it saves for backward, its scratch, its FLOPs, and the
// kernels of forward and backward. src/model/blocks.cpp makes the list from a family's row and a block's number.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/base/fp8.hpp"
#include "tessera/base/id.hpp"
#include "tessera/kernels/arguments.hpp"

namespace tessera {

using MatrixId = Id<struct Matrix>;

/// A matrix inside a part.
struct Matrix {
  enum class Place : std::uint8_t {
    input,    ///< the residual stream that the part reads
    output,   ///< the residual stream that it writes
    saved,    ///< forward leaves it for backward
    scratch,  ///< it is gone when the part has run
    logits    ///< generation
  };
  /// What makes it again in backward, for the gradients of weights that it is multiplied with: nothing, the backward of
  /// the layer that made it, or GELU before that.
  enum class Again : std::uint8_t { never, by_backward, by_gelu };

  std::string name = {};  ///< "qkv"
  Place place = Place::scratch;
  DType dtype = DType::fp32;
  std::int64_t rows = 0, columns = 0;
  std::int64_t scratch_stride = 0;  ///< elements from row to row in scratch, as is its gradient; 0: as its slices say
  Again again = Again::never;
  bool is_for_output = false;  ///< without the part's output nobody needs it
  bool feeds_gradient = true;  ///< one of the weights that it is multiplied with trains; of those with `again` alone
  /// Index in Part::saved of what is saved. Of a matrix in scratch that is its copy in fp8, in place of itself: in
  /// backward nothing but linears in fp8 reads it.
  std::int32_t slot = -1;
  /// The matrix whose gradient has the memory that this one's gradient has, because the layer between works in place.
  /// This matrix itself if there is no such layer.
  MatrixId gradient_with = {};

  /// The layers that make the matrix, or its gradient, find its largest magnitude for the linears in fp8 that read it.
  bool is_measured = false, is_gradient_measured = false;

  /// GPUs: the layer that makes the matrix again, or its gradient, makes copies in fp8, and no numbers: nothing but
  /// linears in fp8 reads them.
  bool is_again_in_fp8 = false, is_gradient_in_fp8 = false;

  bool is_saved_in_fp8() const { return place == Place::scratch && slot >= 0; }
  bool operator==(const Matrix&) const = default;
};

/// The residual stream in every part's list of matrices.
inline constexpr MatrixId kPartInput{0}, kPartOutput{1};

/// Some columns of a matrix, or some of its elements as a matrix of other rows. The layer knows their number.
struct MatrixSlice {
  MatrixId matrix = {};
  std::int64_t offset = 0;  ///< of the first element
  std::int64_t stride = 0;  ///< elements from row to row
  bool operator==(const MatrixSlice&) const = default;
};

enum class LayerKind : std::uint8_t {
  embedding,  ///< -> the rows of `table` that tokens name, plus those of positions in `weight`, if it has one. With an
              ///< input, of one row for each sequence (generation)
  norm,       ///< rows -> normalized rows, 1 / deviation [, mean]
  linear,     ///< rows -> rows [, GELU of them]. Of it or a norm, what becomes the part's output is added to its input
  rotary,     ///< rotates `heads` heads of each row, in place
  attention,  ///< queries, keys, values -> each head's output, log-sum-exp
  glu,        ///< gate, up -> activation(gate) * up
  head        ///< the part's input -> loss: final norm, vocabulary's matmul and cross-entropy in one
};

/// How linears of blocks multiply in fp8: operands are e4m3, gradients a type of their choice.
struct Fp8Linears {
  std::int64_t smallest = 0;  ///< side of those that do
  Fp8 gradients = Fp8::e5m2;
};

/// A step of the computation. Attributes that its kind does not have stay as they are here.
struct Layer {
  LayerKind kind = LayerKind::norm;
  std::vector<MatrixSlice> inputs = {}, outputs = {};  ///< in the order that its kind says
  std::int32_t weight = -1, bias = -1, table = -1;     ///< places in Part::tensors; -1: there is none
  std::int64_t rows = 0, in = 0, out = 0;              ///< [rows, in] becomes [rows, out]
  bool adds_gradient = false;                          ///< a layer before it reads the same input
  bool ends_gradient = true;                           ///< linear: none behind it reads the same input
  bool adds_output = false;                            ///< linear: to what an earlier one has left there
  std::int32_t adapter = -1;                           ///< linear: of an adapter's A, the number of its dropout's mask
  WeightLayout layout = WeightLayout::in_out;          ///< linear
  bool is_fp8 = false;                                 ///< linear: multiplies in fp8
  std::optional<DropoutSite> dropout = {};             ///< embedding, linear, attention
  bool subtracts_mean = false;                         ///< norm, head
  double epsilon = 0, gain_offset = 0;                 ///< norm, head
  GateActivation activation = GateActivation::silu;    ///< glu
  std::int64_t heads = 0, kv_heads = 0, head_width = 0;  ///< rotary, attention
  std::int64_t window = 0;                               ///< attention: keys that a query sees; 0: all before it
  std::int64_t cache = 0;                                ///< attention in generation: positions that its cache holds
  double scale = 1;                                      ///< embedding: of the token's row; linear: of the matmul
  std::int32_t constant = -1;                            ///< rotary: place in Part::constants of its table
  std::int64_t table_rows = 0;                           ///< embedding; head: rows of the table in memory

  bool operator==(const Layer&) const = default;
};

/// A turn of a layer in backward. A linear may have two: first its input's gradient, then, when its input is there
/// again, those of weight and bias.
struct BackwardTurn {
  enum class Half : std::uint8_t { both, input, weights };
  std::size_t layer = 0;
  Half half = Half::both;
};

}  // namespace tessera
