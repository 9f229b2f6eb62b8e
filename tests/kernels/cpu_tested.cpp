#include "kernels/tested.hpp"
#include "tessera/backend/thread_pool.hpp"

namespace tessera::testing {

DeviceKind tested_kind() { return DeviceKind::cpu; }

bool tested_has_fp8() { return true; }

GpuAttention tested_attention() { return GpuAttention::own; }

bool computes_documents() { return true; }

Tested open_tested(int threads, InstructionSet set, Pieces) {
  const auto pool = std::make_shared<ThreadPool>(threads);
  return {pool, make_serial_stream("test"), make_cpu_kernels(*pool, set)};
}

std::int64_t head_scratch_of_tested(const HeadShape& shape, Pieces) {
  return kernel_needs(DeviceKind::cpu).head(shape);
}

}  // namespace tessera::testing
