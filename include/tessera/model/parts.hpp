#pragma once
// The model as the schedule sees it: parts in forward order. Each is a run of layers (model/layer.hpp), from which
// follow the tensors it reads, the values it saves for backward, scratch and FLOPs. model/decoder.hpp makes the calls
// that compute it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/backend/device_kind.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/base/id.hpp"
#include "tessera/kernels/gpu_attention.hpp"
#include "tessera/model/family.hpp"
#include "tessera/model/layer.hpp"

namespace tessera {

using TensorId = Id<struct ParameterTensor>;
using PartId = Id<struct Part>;

/// Rows of a vocabulary's table in memory are a multiple of this, so that GPUs multiply whole tiles.
inline constexpr std::int64_t kTableRows = 64;

/// One parameter tensor, under its Hugging Face name and shape (row-major).
struct ParameterTensor {
  int block = -1;                   ///< -1: of no block
  std::string name;                 ///< "transformer.h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  ///< one or two dimensions
  std::int64_t elements = 0;
  Initialization initialization = Initialization::zero;
  double standard_deviation = 0.0;  ///< of Initialization::normal
  double bound = 0.0;               ///< of Initialization::uniform
  bool decays = false;              ///< AdamW's weight decay applies (two or more dimensions)
  bool is_table = false;            ///< vocabulary-sized: its unit does not count in shard.limit_all_gathers
  bool trains = true;               ///< false: it is frozen, and has neither a gradient nor an optimizer's state
  bool is_adapter = false;          ///< of Architecture::adapters; these are the model's last tensors
  TensorId follows = {};  ///< the tensor behind which it lies in memory without a gap, as rows of one weight, or none

  /// The outputs of each matrix that it consists of, side by side; empty: it is one.
  std::vector<std::int64_t> stacked = {};

  /// Returns whether it is a matrix of a block that trains, which an optimizer may update as a whole.
  bool is_block_matrix() const { return trains && block >= 0 && shape.size() == 2; }
  /// Returns the elements that it takes in its unit, where rows of zeros follow a table's rows (kTableRows).
  std::int64_t padded_elements() const;
};

/// A value that forward saves for backward (and that recompute makes again).
struct SavedTensor {
  std::string name;           ///< "qkv"
  DType dtype = DType::fp32;  ///< e4m3: codes, and behind them their factor
  std::int64_t elements = 0;
  std::int64_t numbers = 0;  ///< of the elements: what is behind codes is none of them
};

/// Constants that parts read: computed once on the host (model/initialize.hpp), equal on every rank.
struct ConstantTensor {
  std::string name;  ///< "rotary"
  DType dtype = DType::fp32;
  std::int64_t elements = 0;
  RotaryTable angles = {};
  bool operator==(const ConstantTensor&) const = default;
};

/// The cost of one direction of a part per micro-batch.
struct PartCost {
  std::int64_t scratch_bytes = 0;         ///< private workspace while it runs
  std::int64_t flops = 0;                 ///< of its kernel calls (kernels/kernel_call.hpp)
  std::vector<std::int64_t> places = {};  ///< in the workspace, of its pieces; the decoder numbers them
};

/// The smallest unit of compute in a schedule.
struct Part {
  std::string name;  ///< "embed", "h.0.attn", "h.0.mlp", "head"
  PartKind kind = PartKind::embedding;
  int block = -1;                      ///< of attention and mlp parts
  std::vector<TensorId> tensors;       ///< those of its layers, in their order; a tied head's is the token table
  std::vector<bool> read_in_backward;  ///< per tensor: backward reads the parameter itself
  std::vector<SavedTensor> saved;
  /// The head's `backward` is forward and backward in one (training). `recompute` makes only the saved values; where
  /// the output is wanted too, it costs what forward does.
  PartCost forward, backward, recompute;
  std::vector<std::int32_t> constants = {};  ///< numbers of ModelParts::constants that every direction reads
  /// Rows that the layers take at a time, but for the last of them; 0: all at once. Such a part saves nothing: backward
  /// begins each chunk with its forward, and adds what follows from it to the gradients of the chunks before.
  std::int64_t chunk = 0;
  std::vector<Layer> layers = {};  ///< in forward order
  std::vector<BackwardTurn> backward_turns = {};
  IndexedVector<MatrixId, Matrix> matrices = {};  ///< that the layers read and write
};

/// All tensors (in forward order of first use) and all parts of one model at one micro-batch shape.
struct ModelParts {
  Architecture architecture;
  std::int64_t batch = 0;               ///< sequences per micro-batch
  std::int64_t sequence = 0;            ///< tokens per sequence
  DType compute = DType::fp32;          ///< dtype of parameters as read, activations and saved values
  DType gradient = DType::fp32;         ///< dtype of parameter gradients as parts write them
  DeviceKind device = DeviceKind::cpu;  ///< the device whose kernels the scratch is for
  /// Sequences hold several documents. Positions come with the tokens, and a token sees only those of its document.
  bool documents = false;
  /// Of a micro-batch, where cuDNN's attention is told their borders (AttentionShape::documents); else 0.
  std::int64_t most_documents = 0;
  /// MLP parts save what the activation has made, instead of making it again in backward (memory.keep_activated).
  bool keeps_activated = false;
  std::int64_t mlp_chunk = 0;                  ///< Part::chunk of MLP parts (memory.mlp_chunk)
  GpuAttention attention = GpuAttention::own;  ///< whose kernels, on a GPU
  DType logits = DType::fp32;          ///< the type in which a loss stores logits: fp32 or `compute` (precision.logits)
  std::optional<Fp8Linears> fp8 = {};  ///< none: all linears multiply numbers of `compute` (precision.linear)
  /// Rows of PartialSums [rows, width] behind the residual gradient. The norm whose backward finishes that gradient
  /// makes them, and the bias of the projection in front of the norm takes its gradient from them. 0: there are none.
  std::int64_t gradient_sum_rows = 0;
  /// Its largest magnitude follows, which that norm finds for the projection in front of it: that multiplies in fp8.
  bool measures_gradient = false;
  /// Generation: positions that each sequence may have, and the most tokens that one call takes of it. 0: training and
  /// evaluation.
  std::int64_t cache = 0, chunk = 0;
  IndexedVector<TensorId, ParameterTensor> tensors;
  IndexedVector<PartId, Part> parts;
  std::vector<ConstantTensor> constants;

  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t residual_elements() const { return tokens() * architecture.width; }  ///< [tokens, width]
  /// Returns the elements of the residual gradient in `compute`, partial sums included.
  std::int64_t residual_gradient_elements() const;
  /// Returns the elements in front of the partial sums.
  std::int64_t gradient_sums_offset() const;
  /// Returns the elements in front of the largest magnitude.
  std::int64_t gradient_largest_offset() const;
  bool generates() const { return cache > 0; }
  /// Returns the elements of an attention part's cache: [batch, Layer::cache, kv_heads * head_width] of keys, then of
  /// values. 0: the part has none.
  std::int64_t cache_elements(const Part& part) const;
  /// Returns the integers that a micro-batch brings: tokens, targets and, with documents, positions, each [batch,
  /// sequence], and where wanted their borders; or what GenerationInputs says.
  std::int64_t input_integers() const {
    return (documents ? 3 : 2) * tokens() + (most_documents > 0 ? most_documents + 1 : 0) +
           (generates() ? 2 * batch : 0);
  }
  /// Returns the borders of documents in the memory of an input; null where they are not wanted.
  std::int32_t* borders_in(std::int32_t* tokens_in_memory) const {
    return most_documents > 0 ? tokens_in_memory + 3 * tokens() : nullptr;
  }
  std::int64_t parameter_count() const;
  /// Returns the first tensor that trains. Where all or the adapters train, the ones behind it do, too.
  TensorId first_trained_tensor() const;
  /// Returns the first part with a tensor that trains, at which backward ends; the end if nothing trains.
  PartId first_trained() const;
  bool trains() const { return first_trained() < parts.end_id(); }
  /// Returns the FLOPs of one micro-batch's forward and backward, without recomputation.
  std::int64_t training_flops() const;
};

/// The inputs of a segment of generation besides its tokens, behind them in memory.
struct GenerationInputs {
  /// `tokens`: the start of the memory, input_integers() of it.
  GenerationInputs(std::int32_t* tokens, const ModelParts& model)
      : positions(tokens + model.tokens()), counts(positions + model.tokens()), rows(counts + model.batch) {}
  std::int32_t* positions;  ///< [batch, sequence]: of each token in its sequence; 0 where there is no token
  std::int32_t* counts;     ///< [batch]: tokens that each sequence brings, the first ones of its row
  std::int32_t* rows;       ///< [batch]: row of the residual stream whose logits are wanted, 0 to tokens() - 1
};

/// Returns the parameter inventory alone: independent of micro-batch shape and dtype.
IndexedVector<TensorId, ParameterTensor> parameter_tensors(const Architecture& architecture);

/// Choices among what parts store and who computes them. `attention` becomes own where cuDNN is not given this one.
struct PartChoices {
  bool keeps_activated = false;  ///< as in ModelParts
  bool has_fp32_logits = false;  ///< though `compute` may have 16 bits
  GpuAttention attention = GpuAttention::own;
  bool documents = false;                                   ///< as in ModelParts
  std::int64_t most_documents = 0;                          ///< of a sequence; 0: not known, so that cuDNN has no use
  std::function<bool(const ParameterTensor&)> trains = {};  ///< whether a tensor trains; without it all do
  std::optional<Fp8Linears> fp8 = {};                       ///< as in ModelParts
  std::int64_t mlp_chunk = 0;                               ///< as in ModelParts; there is none of all tokens
};

/// Declares the parts of a model. UsageError if the architecture is impossible (width not divisible by heads, ...), or
/// the sequence longer than its context. `gradient` (precision.reduce) decides whether the head needs an fp32
/// accumulator, `device` how much scratch the kernels need.
ModelParts declare_parts(const Architecture& architecture, std::int64_t batch, std::int64_t sequence, DType compute,
                         DType gradient = DType::fp32, DeviceKind device = DeviceKind::cpu,
                         const PartChoices& choices = {});

/// Declares the same parts for generation: each call takes up to `rows` tokens of each sequence, other calls up to
/// `chunk`, and each sequence has up to `positions`. The cache holds all of them, but in layers with a window no more
/// than the window and a chunk. Only forward is used, and the head makes logits of one row per sequence.
/// MLPs save nothing if those of the training do not, whose parts name the values of both.
ModelParts declare_generation(const Architecture& architecture, std::int64_t batch, std::int64_t rows,
                              std::int64_t chunk, std::int64_t positions, DType compute, DeviceKind device,
                              const std::optional<Fp8Linears>& fp8 = {}, bool mlp_saves = true);

/// Returns "9 of 28 linears in fp8 (sides from 1024 on, gradients e5m2)"; empty if none may be.
std::string describe_fp8(const ModelParts& model);

/// Returns "rank 16, alpha 32, on ...; 41.9M of 8.07B parameters train"; empty without adapters.
std::string describe_adapters(const ModelParts& model);

/// Finds the borders of documents from the positions in the memory of an input, where they are wanted
/// (AttentionForward::borders). InternalError if there are more documents than planned.
void fill_borders(const ModelParts& model, std::int32_t* input);

/// Returns the first attention that sees all, or the first one if all have windows: `ModelParts::attention` is for it.
const Layer& attention_layer(const ModelParts& model);
AttentionShape attention_shape(const ModelParts& model, const Layer& attention);

}  // namespace tessera
