// fill_normals for processors with AVX-512.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/normals.hpp"
#include "tessera/base/counter_rng.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own "undefined" intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma")
#define FILL_NORMALS_NAME fill_normals_avx512
#define FILL_NORMALS_LANES 8
#include "base/normals/normals_kernel.inc"
#endif
