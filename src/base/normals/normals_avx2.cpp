// fill_normals for processors with AVX2.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/normals.hpp"
#include "tessera/base/counter_rng.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC target("avx2,fma")
#define FILL_NORMALS_NAME fill_normals_avx2
#define FILL_NORMALS_LANES 4
#include "base/normals/normals_kernel.inc"
#endif
