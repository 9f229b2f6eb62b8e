#pragma once
// The calls of an implementation of Kernels, seen by an observer: what is called, on which sizes, with how much work.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/kernels/kernel_cost.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// The main work of a kernel. The head is one kernel: norm, vocabulary matmuls and cross-entropy.
enum class KernelGroup : std::uint8_t { linear, attention, head, other };

/// The work of one call.
struct KernelCall {
  std::string name, shape;
  KernelGroup group = KernelGroup::other;
  KernelCost cost;
  DType dtype = DType::fp32;  ///< of the result; of an update, a square sum and a cast to e4m3: of what they read
  /// Linears and the head: tokens, in, out. Attention: batch x heads, sequence, width of a head. Otherwise 0.
  std::array<std::int64_t, 3> sizes{};
  bool has_gelu = false;    ///< a linear: takes GELU, or its gradient, along
  bool has_window = false;  ///< attention
  bool is_fp8 = false;      ///< a linear of a GPU: multiplies 8-bit floats
};

/// Returns whether a call of this name is part of what makes the operands of linears in fp8.
inline bool makes_fp8(std::string_view name) {
  return name == "to fp8" || name == "to codes" || name == "largest magnitude";
}

class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  /// `run` runs the call. Calls that only handle a few numbers are not observed.
  virtual void call(const KernelCall& call, const std::function<void()>& run) = 0;
};

/// Passes every call to `observer`; both must outlive it. Without `inner` there is nothing to run.
std::unique_ptr<Kernels> make_observed_kernels(Kernels* inner, KernelObserver& observer);

}  // namespace tessera
