// tree_sum for processors with AVX2.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "comm/tree_sum.hpp"
#include "tessera/base/math.hpp"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c,bmi2")
#define TREE_SUM_NAME tree_sum_avx2
#include "comm/tree_sum_kernel.inc"
#endif
