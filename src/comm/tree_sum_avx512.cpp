// tree_sum for processors with AVX-512.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "comm/tree_sum.hpp"
#include "tessera/base/math.hpp"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi2")
#define TREE_SUM_NAME tree_sum_avx512
#include "comm/tree_sum_kernel.inc"
#endif
