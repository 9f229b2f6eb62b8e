// The table of vector kernels for: Portable C++.
// Everything but the table has internal linkage, so no wider instruction can leak into code that runs on any machine.

#include "kernels/cpu/vector/lanes_scalar.hpp"
#include "kernels/cpu/vector/row_loops.hpp"
#include "kernels/cpu/vector/table.hpp"
#include "kernels/cpu/vector/vector_kernels.hpp"

namespace tessera {

constinit const VectorKernels kScalarKernels = make_table();

}  // namespace tessera
