// The table of vector kernels for: AVX-512 F, BW, DQ, VL (compiled with these enabled, see cmake/Kernels.cmake).
// Everything but the table has internal linkage, so no wider instruction can leak into code that runs on any machine.
#if defined(__x86_64__)
#include "kernels/cpu/vector/lanes_avx512.hpp"
#include "kernels/cpu/vector/row_loops.hpp"
#include "kernels/cpu/vector/table.hpp"
#include "kernels/cpu/vector/vector_kernels.hpp"

namespace tessera {

constinit const VectorKernels kAvx512Kernels = make_table();

}  // namespace tessera
#endif
