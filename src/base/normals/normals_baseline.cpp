// fill_normals for any processor.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/normals.hpp"
#include "tessera/base/counter_rng.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#define FILL_NORMALS_NAME fill_normals_baseline
#define FILL_NORMALS_LANES 2
#include "base/normals/normals_kernel.inc"
