// tree_sum for any processor.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "comm/tree_sum.hpp"
#include "tessera/base/math.hpp"

#define TREE_SUM_NAME tree_sum_baseline
#include "comm/tree_sum_kernel.inc"
