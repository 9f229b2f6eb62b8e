// The table of vector kernels for: AVX2, FMA and F16C (compiled with -mavx2 -mfma -mf16c, see cmake/Kernels.cmake).
// Everything but the table has internal linkage, so no wider instruction can leak into code that runs on any machine.
#if defined(__x86_64__)
#include "kernels/cpu/vector/lanes_avx2.hpp"
#include "kernels/cpu/vector/row_loops.hpp"
#include "kernels/cpu/vector/table.hpp"
#include "kernels/cpu/vector/vector_kernels.hpp"

namespace tessera {

constinit const VectorKernels kAvx2Kernels = make_table();

}  // namespace tessera
#endif
