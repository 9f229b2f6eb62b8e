#pragma once
// A kernel call seen from outside: which kernel, on which sizes, with how much work.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// The least work of a call. FLOPs are those of matmuls; for attention, those of the visible half. Bytes are those that
/// must come from memory or go there: each input once, each output once, accumulated ones twice.
struct KernelCost {
  double flops = 0, bytes = 0;
};

/// The main work of a kernel. The head is one kernel: norm, vocabulary matmuls and cross-entropy.
enum class KernelGroup : std::uint8_t { linear, attention, head, other };

struct KernelCall {
  std::string name = {}, shape = {};
  KernelGroup group = KernelGroup::other;
  KernelCost cost = {};
  DType dtype = DType::fp32;  ///< of the result; of an update, a square sum and a cast to e4m3: of what they read
  /// Linears and the head: tokens, in, out. Attention: batch x heads, sequence, width of a head. Otherwise 0.
  std::array<std::int64_t, 3> sizes = {};
  bool has_gelu = false;            ///< a linear: takes GELU, or its gradient, along
  bool has_window = false;          ///< attention
  bool is_fp8 = false;              ///< a linear of a GPU: multiplies 8-bit floats
  std::string_view priced_as = {};  ///< the name of its price, if that is not its own
  std::size_t kind = 0;             ///< index in KernelArguments

  template <class Arguments>
  bool is() const {
    return kind == KernelArguments(Arguments()).index();
  }
  /// Returns whether it is part of what makes the operands of linears in fp8.
  bool makes_fp8() const { return is<ToFp8>() || is<ToCodes>() || is<LargestMagnitude>(); }
};

/// Returns what a call is; nothing if it only handles a few numbers, or is another rank's.
std::optional<KernelCall> describe(const KernelArguments& call);

}  // namespace tessera
