#include "comm/tree_sum.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "tessera/base/math.hpp"

#define TESSERA_KERNEL "comm/tree_sum_kernel.inc"
#include "tessera/base/each_instruction_set.inc"

namespace tessera {

detail::TreeSum* detail::tree_sum_of(InstructionSet set) {
  constexpr TreeSum* versions[] = TESSERA_VERSIONS(sum);
  return versions[static_cast<std::size_t>(set)];
}

void tree_sum(const void* const* sources, std::int64_t count, DType wire_dtype, void* sum, DType sum_dtype,
              std::int64_t elements) {
  static detail::TreeSum* const best = detail::tree_sum_of(best_instruction_set());
  TESSERA_ASSERT(count >= 1, "a sum over {} sources", count);
  best(sources, count, wire_dtype, sum, sum_dtype, elements);
}

}  // namespace tessera
