#pragma once
// The calls of kernels, one struct for each: what it computes, on which sizes and memory. Shapes are written as [rows,
// columns]; all matrices are row-major. Vectors are views of one row, whose stride nobody reads.
//
// Some kernels take a number `largest`, which may be null. They raise it to the largest magnitude of what they store,
// so that no other pass has to look for it. Magnitudes are compared by their bits in fp32, where infinity and NaN are
// above all others.

#include <cstdint>
#include <span>

#include "tessera/backend/device_kind.hpp"
#include "tessera/base/exact_sum.hpp"
#include "tessera/base/fp8.hpp"
#include "tessera/kernels/reduced_scalars.hpp"
#include "tessera/kernels/step_scalars.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// The layout of a linear's weight: GPT-2's Conv1D stores [in, out], all others [out, in].
enum class WeightLayout : std::uint8_t { in_out, out_in };

/// The site of a dropout in a model: keeps the masks of one layer apart.
enum class DropoutSite : std::uint32_t { embedding = 0, attention = 1, attention_residual = 2, mlp_residual = 3 };

/// Counter-based dropout: element e of sample s is dropped as a function of (seed, step, s, layer, site, e) alone. Kept
/// elements are scaled by 1 / (1 - probability). probability 0 costs nothing.
struct Dropout {
  float probability = 0;
  std::int64_t sequence = 0;  ///< tokens per sample: row r belongs to sample first_sample + r / sequence
  std::int32_t layer = 0;
  DropoutSite site = DropoutSite::embedding;
  const StepScalars* scalars = nullptr;  ///< seed, step and first_sample; read when the kernel runs

  bool on() const { return probability > 0; }
};

/// out[t] = dropout(scale * token_table[tokens[t]] + position_table[position of t]); position_table may be empty
/// (rotary).
struct EmbeddingForward {
  std::int64_t batch = 0, sequence = 0, width = 0, vocab = 0;
  const std::int32_t* tokens = nullptr;     ///< [batch, sequence], each in [0, vocab)
  const std::int32_t* positions = nullptr;  ///< [batch, sequence]: rows of position_table; null: t mod sequence
  ConstView token_table;                    ///< [vocab, width]
  ConstView position_table;                 ///< [> every position, width]
  View output;                              ///< [batch * sequence, width]
  Dropout dropout;
  float scale = 1;  ///< of the token's row (Gemma: sqrt(width))
};

struct EmbeddingBackward {
  std::int64_t batch = 0, sequence = 0, width = 0, vocab = 0, context = 0;
  const std::int32_t* tokens = nullptr;
  const std::int32_t* positions = nullptr;  ///< forward's
  ConstView output_gradient;                ///< [batch * sequence, width]
  /// [vocab, width]: rows of absent tokens become zero (or stay, when adding). Empty, as all gradients of parameters
  /// may be: not computed.
  GradientView token_gradient;
  GradientView position_gradient;  ///< [context, width]
  Dropout dropout;                 ///< forward's
  void* scratch = nullptr;         ///< embedding_backward_scratch_bytes
  float scale = 1;                 ///< forward's: of token_gradient, before it is added to memory
};

/// output = residual + norm(input), rounded once. Layer norm, or RMS norm when subtract_mean is false (then mean and
/// bias are not used).
struct NormForward {
  std::int64_t tokens = 0, width = 0;
  float epsilon = 0;
  float gain_offset = 0;  ///< added to every gain: 1 where a weight w means a gain of 1 + w (Gemma)
  bool subtract_mean = true;
  ConstView input;       ///< [tokens, width]
  ConstView gain, bias;  ///< [width]; bias may be empty
  ConstView residual;    ///< [tokens, width] in output's dtype, or empty; there is no bias then
  /// [tokens, width] in input's dtype; may be the residual's own memory. Empty: statistics only, without a residual.
  View output;
  float* mean = nullptr;                  ///< [tokens], written; null for RMS norm
  float* reciprocal_deviation = nullptr;  ///< [tokens]: 1 / sqrt(variance + epsilon)
  float* largest = nullptr;               ///< of output
};

struct NormBackward {
  std::int64_t tokens = 0, width = 0;
  float gain_offset = 0;  ///< forward's
  bool subtract_mean = true;
  ConstView input;              ///< forward's
  ConstView gain, bias;         ///< [width]; bias is read for `normalized` alone and may be empty
  const float* mean = nullptr;  ///< null for RMS norm
  const float* reciprocal_deviation = nullptr;
  ConstView output_gradient;  ///< [tokens, width] in input's dtype
  View input_gradient;        ///< [tokens, width] in input's dtype; may be output_gradient's own memory
  bool input_adds = false;    ///< input_gradient += (a residual path runs in parallel to the norm)
  View normalized;  ///< [tokens, width]: forward's output without a residual again, the same bits; may be empty
  /// Stored: sums of input_gradient as it is stored, in KernelNeeds::gradient_sum_rows rows. May be empty.
  PartialSums input_gradient_sums;
  GradientView gain_gradient, bias_gradient;                         ///< [width]
  void* scratch = nullptr;                                           ///< norm_backward_scratch_bytes
  float *normalized_largest = nullptr, *gradient_largest = nullptr;  ///< of normalized, of input_gradient
};

/// Rounds an operand of a linear; the same bits on any number of threads:
/// output = what the input is in fp8: input * scale rounded to `type`, with the scale
///   s = largest_of(type) / max |input|, at most 2^126; 1 if all numbers are 0.
/// The factor 1 / s takes sums back. It is NaN if one of the numbers is not finite, so that nothing hides that.
struct Fp8Arguments {
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

/// Makes the codes of e4m3 that Fp8Arguments make of x in `rounded_to`, where *largest is as above.
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

/// output = gelu(input); the same bits as LinearForward::activated.
struct GeluForward {
  std::int64_t rows = 0, columns = 0;
  ConstView input;           ///< [rows, columns]
  View output;               ///< [rows, columns] in input's dtype
  float* largest = nullptr;  ///< of output
};

/// Causal attention of `batch` sequences; query head h reads key/value head h / (heads / kv_heads). Query i sees keys
/// i - window + 1 to i (Beltagy et al. 2020), or all up to i without a window.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_width = 0;
  std::int64_t window = 0;     ///< keys that a query sees, its own among them; 0: all
  std::int64_t documents = 0;  ///< of all sequences together, at most, where `borders` says where they begin

  /// Whether some query does not see all keys before it. Not for AttentionCached, whose earlier keys are in the cache.
  bool has_window() const { return window > 0 && window < sequence; }
};

/// output = dropout(softmax(q k^T / sqrt(head_width), causal)) v, without a stored [sequence, sequence] matrix. Online
/// softmax over tiles of keys (Milakov & Gimelshein 2018; Dao et al. 2022).
struct AttentionForward {
  AttentionShape shape;
  ConstView query;       ///< [tokens, heads * head_width]
  ConstView key, value;  ///< [tokens, kv_heads * head_width]
  View output;           ///< [tokens, heads * head_width]
  /// [batch, heads, sequence]: of the scaled scores. Where cuDNN keeps documents apart, it is [batch, sequence, heads].
  float* log_sum_exp = nullptr;
  /// [batch, sequence]: a row's number in its document, whose keys alone it sees, as far as its window goes. Null: one
  /// document per sequence.
  const std::int32_t* positions = nullptr;
  Dropout dropout;
  /// [shape.documents + 1]: the first token of each document among those of all sequences, then batch * sequence until
  /// the end. It says the same as positions. Null: shape.documents is 0.
  const std::int32_t* borders = nullptr;
};

/// The same for the next tokens of sequences whose earlier keys and values lie in a cache, which it extends. Sequence b
/// brings counts[b] tokens, 0 to shape.sequence; the first is at position positions[b, 0]. Their keys and values are
/// put into the cache. Then the query at position p reads the cache's positions up to p that its window holds. Rows of
/// `output` beyond counts[b] become 0. A sequence's slots are a ring: position p lies in slot p % limit. Keys are read
/// in the order of their positions, so that the bits do not depend on the limit. On CPUs a query's tile of 64 positions
/// has the same bits as in AttentionForward where the call has the whole tile. On GPUs a query's bits do not depend on
/// the other rows of the call.
struct AttentionCached {
  AttentionShape shape;  ///< `sequence`: rows that each sequence has in this call
  /// Slots of each sequence in the cache: as many as all its positions or, with a window, at least window +
  /// shape.sequence - 1, so that the call's last token leaves what its first one sees.
  std::int64_t limit = 0;
  const std::int32_t* positions = nullptr;  ///< [batch, sequence]; the first of each sequence counts
  const std::int32_t* counts = nullptr;     ///< [batch]
  ConstView query;                          ///< [batch * sequence, heads * head_width]
  ConstView key, value;                     ///< [batch * sequence, kv_heads * head_width]
  View key_cache, value_cache;              ///< [batch * limit, kv_heads * head_width] in key's dtype
  View output;                              ///< [batch * sequence, heads * head_width]

  bool goes_round() const { return shape.window > 0 && limit >= shape.window + shape.sequence - 1; }
};

struct AttentionBackward {
  AttentionShape shape;
  ConstView query, key, value, output;  ///< forward's, in one dtype
  const float* log_sum_exp = nullptr;
  const std::int32_t* positions = nullptr;            ///< forward's
  ConstView output_gradient;                          ///< [tokens, heads * head_width]
  View query_gradient, key_gradient, value_gradient;  ///< shaped and typed as query, key, value; stored
  Dropout dropout;
  void* scratch = nullptr;                ///< attention_backward_scratch_bytes
  const std::int32_t* borders = nullptr;  ///< forward's
};

/// Rotary positions (Su et al. 2021) in the half-split form of Llama and Qwen. With i < head_width / 2 and position p
/// = positions[row], the angle has (cos, sin) = table[p, i]. It rotates the pair (x[i], x[i + head_width / 2]) of
/// each head. `inverse` rotates back, which is the backward of a rotation. May be in place.
struct RotaryArguments {
  std::int64_t batch = 0, sequence = 0, heads = 0, head_width = 0;
  const float* table = nullptr;             ///< [> every position, head_width / 2, 2]: cosine, sine
  const std::int32_t* positions = nullptr;  ///< [batch, sequence]; null: row mod sequence
  bool inverse = false;
  ConstView input;  ///< [batch * sequence, heads * head_width]
  View output;      ///< shaped and typed as input
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
};

/// output = input with the mask of `dropout`, which must be on.
struct DropoutArguments {
  std::int64_t rows = 0, columns = 0;
  ConstView input;  ///< [rows, columns]
  View output;      ///< [rows, columns]; may be the input's own memory
  Dropout dropout;
};

/// A target that the loss leaves out.
inline constexpr std::int32_t kUncounted = -1;

/// Everything that the size of the head's scratch depends on.
struct HeadShape {
  std::int64_t tokens = 0, width = 0, vocab = 0;
  /// Rows of the table and of its gradient in memory: the vocabulary's, then zeros that make a GPU's matmuls whole.
  std::int64_t table_rows = 0;
  DType compute = DType::fp32;   ///< of the input
  DType logits = DType::fp32;    ///< the type in which logits are stored: fp32, or the input's
  DType gradient = DType::fp32;  ///< of the table's gradient: 16 bits need an fp32 sum if there are several chunks
  bool training = false;         ///< loss and gradients, otherwise the loss alone
};

/// Final norm, vocabulary matmul and cross-entropy in one, in chunks of tokens: [tokens, vocab] never exists as a
/// whole. The loss alone, or all gradients too where it is for training. Per token: loss = log(sum_v exp(logit_v)) -
/// logit_target, of logits as they are stored.
struct HeadArguments {
  std::int64_t tokens = 0, width = 0, vocab = 0;
  std::int64_t table_rows = 0;  ///< see HeadShape
  DType logits = DType::fp32;   ///< see HeadShape
  float epsilon = 0;
  float gain_offset = 0;  ///< as in NormForward
  bool subtract_mean = true;
  ConstView input;                        ///< [tokens, width]
  ConstView gain, bias;                   ///< [width]; bias may be empty
  ConstView table;                        ///< [table_rows, width]: zeros from `vocab` on
  const std::int32_t* targets = nullptr;  ///< [tokens], each in [0, vocab), or kUncounted: no loss and no gradient
  double* loss = nullptr;                 ///< stored: the sum of the tokens' losses
  float* token_losses = nullptr;          ///< [tokens], stored: each one's; may be null
  double* sample_losses = nullptr;        ///< [samples], stored: the sum of each one's tokens; may be null
  std::int64_t samples = 1;               ///< of tokens / samples tokens each
  void* scratch = nullptr;                ///< head_scratch_bytes
  // Training only; gradients of parameters may be empty:
  View input_gradient;              ///< [tokens, width], stored
  PartialSums input_gradient_sums;  ///< as in NormBackward
  GradientView gain_gradient, bias_gradient;
  GradientView table_gradient;           ///< [table_rows, width]: zeros from `vocab` on stay, or are stored
  const StepScalars* scalars = nullptr;  ///< gradient_scale: the start value of d loss
  float* gradient_largest = nullptr;     ///< of input_gradient

  bool training() const { return input_gradient.data != nullptr; }
  HeadShape shape() const {
    const DType gradient = table_gradient ? table_gradient.view.dtype : DType::fp32;
    return {tokens, width, vocab, table_rows, input.dtype, logits, gradient, training()};
  }
};

/// to[i] = from[i] in another type (or the same: a copy). Cores also take e4m3, whose numbers `from` has then.
struct Cast {
  ConstView from;
  View to;
  std::int64_t elements = 0;
};

struct FillZero {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// out[i] = a[i] + b[i] in fp32, rounded once; out may be a or b.
struct Add {
  ConstView a, b;
  View out;
  std::int64_t elements = 0;
};

/// Adds the sum of squares of x to *sum. Chunks of 64 elements are summed in double in one fixed order, and the chunks
/// exactly, so that the result is the same for every split of x at multiples of 64. A chunk with NaN or infinity counts
/// as non_finite.
struct SquareSum {
  ConstView x;
  std::int64_t elements = 0;
  ExactSum* sum = nullptr;
};

/// The weight of word i of 32 bits in a checksum, which is the sum of word * weight mod 2^64. Weights are odd, so that
/// one flipped bit always changes the sum; they differ, so that words cannot change places. A sum has no order.
constexpr std::uint64_t checksum_weight(std::int64_t i) { return 2 * static_cast<std::uint64_t>(i) + 1; }

/// Adds the checksum of `words` words of 32 bits, numbered from `first` on, to *sum.
struct ChecksumArguments {
  const void* data = nullptr;
  std::int64_t words = 0, first = 0;
  std::uint64_t* sum = nullptr;
};

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

/// An optimizer's update. Every split of the range gives the same bits. When scalars->skip is set, it only makes the
/// copy, if one is wanted.
struct UpdateArguments {
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
struct DirectionArguments {
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
struct OrthogonalizeArguments {
  std::int64_t rows = 0, columns = 0;
  /// fp32 [rows, columns]. Empty: another rank's matrix. Nothing is computed, but the ranks agree on its algorithms.
  ConstView input;
  View output;  ///< fp32 [rows, columns]; may be the input's own memory
  std::int64_t steps = 5;
  void* scratch = nullptr;  ///< KernelNeeds::orthogonalize
};

/// The losses of a step's samples, in memory: the bits of how many micro-batches are in place, then the samples of the
/// last one that was computed, then those of every micro-batch.
struct SampleLosses {
  double* data = nullptr;
  std::int64_t samples = 0;  ///< of a micro-batch

  static constexpr std::int64_t bytes(std::int64_t samples, std::int64_t micro_batches) {
    return (1 + (1 + micro_batches) * samples) * std::int64_t{sizeof(double)};
  }
  TESSERA_HOST_DEVICE double* last() const { return data + 1; }
  TESSERA_HOST_DEVICE double* of(std::int64_t micro_batch) const { return data + 1 + (1 + micro_batch) * samples; }
};

/// Adds a micro-batch's loss to the step's sums: scalars->micro_loss to the reduced scalars if scalars->counts_loss.
struct AccountArguments {
  const StepScalars* scalars = nullptr;
  ReducedScalars* reduced = nullptr;
  bool starts = false;  ///< the step's first: clears the reduced scalars
  SampleLosses losses;  ///< those of the micro-batch are copied to its place; may be none
};

/// The step's decision, from sums that are complete over all ranks: outcome, skip, clip coefficient, Adam's step and
/// bias corrections, and the next loss scale. With scales_loss, the scale is halved on overflow and doubled after 2000
/// good steps (Micikevicius et al. 2018).
struct ClipArguments {
  const ReducedScalars* reduced = nullptr;
  StepScalars* scalars = nullptr;
  double clip = 0;  ///< largest norm; 0: no clipping
  double beta1 = 0.9, beta2 = 0.999;
  bool scales_loss = false;     ///< fp16: dynamic loss scaling
  bool skips_failures = false;  ///< a step that is not finite counts as skipped
};

}  // namespace tessera
