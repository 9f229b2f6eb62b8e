#include "comm/tree_sum.hpp"

#include "tessera/base/instruction_set.hpp"

namespace tessera {

detail::TreeSum detail::best_tree_sum() {
#if defined(__x86_64__)
  switch (best_instruction_set()) {
    case InstructionSet::avx512:
      return tree_sum_avx512;
    case InstructionSet::avx2:
      return tree_sum_avx2;
    case InstructionSet::scalar:
      break;
  }
#endif
  return tree_sum_baseline;
}

void tree_sum(const void* const* sources, std::int64_t count, DType wire_dtype, void* sum, DType sum_dtype,
              std::int64_t elements) {
  static const detail::TreeSum best = detail::best_tree_sum();
  TESSERA_ASSERT(count >= 1, "a sum over {} sources", count);
  best(sources, count, wire_dtype, sum, sum_dtype, elements);
}

}  // namespace tessera
