#pragma once
// How an optimizer's states become bf16, written once for hosts and GPUs: up or down at random, the nearer number more
// often, so that the mean is the value itself. Small changes, which rounding to nearest would drop in every step, are
// then kept on average. The random word of an element is a function of seed, step, tensor and place in the tensor, so
// that neither ranks nor slices, threads or devices show. The word's lower half is the first state's, the upper half
// the second's.

#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/base/host_device.hpp"

namespace tessera {

/// Returns the number of an element's word in its tensor's stream: that of a step, for tensors of up to 2^34 elements.
TESSERA_HOST_DEVICE constexpr std::uint64_t rounding_word(std::int64_t step, std::int64_t element) {
  return (static_cast<std::uint64_t>(step) << 34) + static_cast<std::uint64_t>(element);
}

/// Rounds a float to a bf16 by the 16 lower bits of `random`; both as the bits of floats. NaN stays NaN (quiet).
TESSERA_HOST_DEVICE constexpr std::uint32_t rounded_at_random(std::uint32_t x, std::uint32_t random) {
  const bool is_nan = (x & 0x7fffffffu) > 0x7f800000u;
  return (is_nan ? x | 0x400000u : x + (random & 0xffffu)) & 0xffff0000u;
}

/// Calls f.template operator()<S>() with the type of states that are kept in `dtype`.
template <class F>
void with_state_type(DType dtype, F&& f) {
  dtype == DType::fp32 ? f.template operator()<float>() : f.template operator()<bf16>();
}

}  // namespace tessera
