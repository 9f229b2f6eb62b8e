#pragma once
// The kernels of a step at a ladder of shapes, as calls whose prices are measured.

#include <array>
#include <span>

#include "bench/priced_calls.hpp"
#include "tessera/kernels/kernel_call.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

/// The sizes at which prices are measured, ascending.
struct LadderSizes {
  std::vector<std::int64_t> tokens, widths;                   ///< of linears: in and out
  std::vector<std::int64_t> head_tokens, head_widths, vocab;  ///< of the head
  std::vector<std::int64_t> rows, sequences, head_width;      ///< of attention
  std::vector<std::int64_t> elements;  ///< of all other kernels: multiples of kLadderWidth * kLadderSequence
  std::vector<std::int64_t> sides;     ///< of matrices that Muon makes orthogonal
  std::vector<std::int64_t> messages;  ///< bytes of collectives and copies
  std::int64_t memory = 0;  ///< bytes of each memory that calls walk through: to read, to write, and two of state
  double seconds = 0;       ///< for which kernels are measured
  std::int64_t cached = 0;  ///< bytes that calls of forward and backward find in a cache; 0: none
};

inline constexpr std::int64_t kLadderWidth = 256, kLadderSequence = 64;

class KernelLadder {
 public:
  /// References must outlive the ladder, and the ladder its calls.
  KernelLadder(Device& device, Kernels& kernels, const LadderSizes& sizes);

  /// Returns the calls of the kernels of one type. All of Muon's matrices are fp32.
  std::vector<PricedCalls> all(DType dtype);
  /// Returns those that the host runs for a GPU.
  std::vector<PricedCalls> of_host(DType dtype);
  /// Returns linears in fp8 of one shape that all() has, too.
  std::vector<PricedCalls> of_fp8(DType dtype);
  /// Returns attention by own kernels.
  std::vector<PricedCalls> of_own_attention(DType dtype);

 private:
  using Call = std::function<KernelArguments()>;

  /// Returns the sizes at which matmuls and attention of a type are measured. In fp32 GPUs take some twelve times as
  /// long as in 16 bits, a minute at the largest sizes, whose prices follow from their FLOPs.
  std::span<const std::int64_t> of_matmuls(const std::vector<std::int64_t>& sizes, DType t) const;

  /// Adds a call, which is at other places of memory each time, to the price of its name. In a step it finds its data
  /// in memory: optimizer state and parameters were last touched by the step before.
  void add_stored(const Call& call, const StreamWork& before = nullptr);
  /// The same for a call that finds its data in a cache if they fit there, because the operation before it wrote or
  /// read them: it is made twice at the same place, and timed the second time.
  void add(const Call& call);
  /// Both for a call that `fill` completes.
  template <class Arguments, class Fill>
  void add(const Fill& fill) {
    add(made<Arguments>(fill));
  }
  template <class Arguments, class Fill>
  void add_stored(const Fill& fill) {
    add_stored(made<Arguments>(fill));
  }
  template <class Arguments, class Fill>
  static Call made(const Fill& fill) {
    return [fill] {
      Arguments a;
      fill(a);
      return a;
    };
  }

  std::vector<PricedCalls> take() {
    by_ = PricedBy::device;
    return std::move(prices_);
  }
  ConstView read(DType t, std::int64_t rows, std::int64_t columns) {
    return {from_.next(rows * columns * size_of(t)), t, columns};
  }
  View write(DType t, std::int64_t rows, std::int64_t columns) {
    return {to_.next(rows * columns * size_of(t)), t, columns};
  }
  static float* floats(RotatingMemory& memory, std::int64_t count) {
    return reinterpret_cast<float*>(memory.next(count * size_of(DType::fp32)));
  }
  /// Returns scratch. It grows while calls are asked, so that it suffices for all of them when they run.
  void* need(std::int64_t bytes);

  void add_activations(DType t, std::int64_t elements);
  void add_state(DType t, std::int64_t elements);
  void add_elements(DType t, std::int64_t elements);
  /// The operands of a linear in fp8; empty: it has none.
  struct Rounded {
    Fp8Operand input = {}, weight = {}, gradient = {};
  };
  void add_linear(DType t, std::int64_t tokens, std::int64_t in, std::int64_t out, const Rounded& in_fp8);
  /// Returns the type of memory that holds copies in fp8. Sizes are multiples of kFp8Pad.
  DType type_in_fp8(DType t) const { return kernel_needs(device_.kind()).packs_fp8() ? DType::e4m3 : t; }
  /// Returns numbers of a type in fp8, in memory of their own.
  Fp8Operand rounded(DType t, std::int64_t rows, std::int64_t columns);
  void add_attentions(DType t);
  void add_attention(DType t, const AttentionShape& shape);
  void add_head(DType t, std::int64_t tokens, std::int64_t width, std::int64_t vocab);
  void add_matrix(std::int64_t side);
  ParameterUpdate update(DType t, std::int64_t elements, UpdateRule rule);

  Device& device_;
  Kernels& kernels_;
  LadderSizes sizes_;
  RotatingMemory from_, to_, state_, squares_;
  std::vector<std::unique_ptr<DeviceMemory>> rounded_;
  std::unique_ptr<DeviceMemory> scratch_, scalars_, sum_, few_tokens_, tokens_;
  std::unique_ptr<Stream> stream_;
  PricedBy by_ = PricedBy::device;
  std::vector<PricedCalls> prices_;
  DecayRun run_;
  std::array<void*, 2> states_{};
};

}  // namespace tessera
