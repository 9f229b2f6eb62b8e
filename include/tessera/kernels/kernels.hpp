#pragma once
// The kernel interface: every operation that a model or the engine computes with, on one device. CPU: methods run at
// once on the calling thread and a ThreadPool; the stream only says whose work it is. CUDA: methods launch on
// stream.native() and return.
//
// Contract of all of them:
//   - Storage may be fp32, bf16 or fp16; arithmetic is fp32, and a value is rounded (nearest even) when it is stored.
//   - The same inputs, shapes, dtypes and instruction set give the same bits: on any number of threads, in any process.
//   - Nothing is allocated; memory that grows with the problem comes in as `scratch` (sizes: kernels/arguments.hpp).
//   - Buffers do not overlap unless an argument says that they may.

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/exact_sum.hpp"
#include "tessera/base/instruction_set.hpp"
#include "tessera/kernels/arguments.hpp"

namespace tessera {

class Stream;
class ThreadPool;

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void embedding_forward(Stream& stream, const EmbeddingForward& a) = 0;
  virtual void embedding_backward(Stream& stream, const EmbeddingBackward& a) = 0;
  virtual void norm_forward(Stream& stream, const NormForward& a) = 0;
  virtual void norm_backward(Stream& stream, const NormBackward& a) = 0;
  /// Rounds an operand of a linear to fp8; the same bits on any number of threads.
  virtual void to_fp8(Stream& stream, const Fp8Arguments& a) = 0;
  /// Raises *largest to the bits of max |x[0..n)|, rounded to a type: as floats and as integers, magnitudes have one
  /// order. Those of NaN are above all others. x starts at an address that 16 divides.
  virtual void largest_magnitude(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                                 std::int64_t* largest) = 0;
  /// Makes the codes of e4m3 that to_fp8() makes of x[0..n) in `rounded_to`, where *largest is as above. x starts at an
  /// address that 16 divides, and the codes at one that 8 divides.
  virtual void to_codes(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                        const std::int64_t* largest, void* codes) = 0;
  virtual void linear_forward(Stream& stream, const LinearForward& a) = 0;
  virtual void linear_backward(Stream& stream, const LinearBackward& a) = 0;
  /// Computes output = gelu(input), both [rows, columns] in one dtype; the same bits as LinearForward::activated.
  /// `largest` is as in kernels/arguments.hpp.
  virtual void gelu(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
                    float* largest) = 0;
  virtual void attention_forward(Stream& stream, const AttentionForward& a) = 0;
  virtual void attention_backward(Stream& stream, const AttentionBackward& a) = 0;
  /// Attends to a cache of keys and values, which it extends. On CPUs a query's tile of 64 positions has the same bits
  /// as in attention_forward where the call has the whole tile. On GPUs a query's bits do not depend on the other rows
  /// of the call.
  virtual void attention_cached(Stream& stream, const AttentionCached& a) = 0;
  /// Rotates queries or keys by their positions' angles.
  virtual void rotary(Stream& stream, const RotaryArguments& a) = 0;
  virtual void glu_forward(Stream& stream, const GluForward& a) = 0;
  virtual void glu_backward(Stream& stream, const GluBackward& a) = 0;
  /// Computes the loss; all gradients too if `a` is for training.
  virtual void head(Stream& stream, const HeadArguments& a) = 0;
  /// Computes output = input with the mask of `dropout` (which must be on) applied; [rows, columns], in place allowed.
  virtual void dropout(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
                       const Dropout& dropout) = 0;

  /// Converts dst[i] = src[i] to another type (or the same: a copy). Cores also take e4m3, whose numbers src has then.
  virtual void cast(Stream& stream, const void* src, DType src_dtype, void* dst, DType dst_dtype, std::int64_t n) = 0;
  virtual void fill_zero(Stream& stream, void* data, std::int64_t bytes) = 0;
  /// Computes out[i] = a[i] + b[i] in fp32, rounded once; out may be a or b.
  virtual void add(Stream& stream, const void* a, DType a_dtype, const void* b, DType b_dtype, void* out,
                   DType out_dtype, std::int64_t n) = 0;
  /// Adds the sum of squares of x[0..n) to *sum. Chunks of 64 elements are summed in double in one fixed order, and the
  /// chunks exactly, so that the result is the same for every split of x at multiples of 64. A chunk with NaN or
  /// infinity counts as non_finite.
  virtual void square_sum(Stream& stream, const void* x, DType dtype, std::int64_t n, ExactSum* sum) = 0;
  /// Adds the checksum of `words` words of 32 bits, numbered from `first` on, to *sum.
  virtual void checksum(Stream& stream, const void* data, std::int64_t words, std::int64_t first,
                        std::uint64_t* sum) = 0;
  /// AdamW with decoupled decay (Loshchilov & Hutter 2019), in PyTorch's order, with states m and v, g = gradient *
  /// clip_coefficient:
  ///   p -= lr wd p;  m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g^2;  p -= lr/bc1 * m / (sqrt(v / bc2) + eps)
  /// Every split of the range gives the same bits. When scalars->skip is set, it only makes the copy, if one is
  /// wanted.
  virtual void adamw(Stream& stream, const UpdateArguments& a) = 0;
  /// Computes the direction that Muon makes orthogonal.
  virtual void muon_direction(Stream& stream, const DirectionArguments& a) = 0;
  /// Muon's update from an orthogonal direction o, with one state m, g = gradient * clip_coefficient:
  ///   m += (1 - momentum)(g - m);  p -= lr wd p;  p -= lr scale o
  /// Skipping and copies as in adamw().
  virtual void muon(Stream& stream, const UpdateArguments& a) = 0;
  /// Makes a matrix nearly orthogonal; the same bits on any number of threads. A CPU's iterations are in fp32, a GPU's
  /// multiply in bf16 with fp32 sums.
  virtual void orthogonalize(Stream& stream, const OrthogonalizeArguments& a) = 0;
  /// Adds a micro-batch's loss to the step's sums.
  virtual void accumulate_loss(Stream& stream, const AccountArguments& a) = 0;
  /// Takes a step's decisions from its sums.
  virtual void clip(Stream& stream, const ClipArguments& a) = 0;

  /// Names the implementation, for the log: "AVX-512, oneDNN 2.6.3".
  virtual std::string description() const = 0;
};

/// Makes kernels on this machine's cores. `pool` must outlive them. Allocates their workspace once. Element-wise
/// results, norms and AdamW have the same bits on all instruction sets; matmuls are oneDNN's, which chooses by itself.
std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool);
/// Makes kernels with a chosen instruction set (tests); UsageError if the machine lacks it.
std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool, InstructionSet set);

}  // namespace tessera
