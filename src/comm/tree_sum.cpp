#include "comm/tree_sum.hpp"

namespace tessera {

detail::TreeSum detail::best_tree_sum() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return tree_sum_avx512;
  }
  if (avx2) return tree_sum_avx2;
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
