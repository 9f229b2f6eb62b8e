#include "kernels/cpu/vector/vector_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "tessera/base/dtype.hpp"

#define TESSERA_KERNEL "kernels/cpu/vector/table.inc"
#include "tessera/base/each_instruction_set.inc"

namespace tessera {

const VectorKernels& vector_kernels(InstructionSet set) {
  static constexpr VectorKernels tables[] = TESSERA_VERSIONS(make_table());
  return tables[static_cast<std::size_t>(set)];
}

}  // namespace tessera
