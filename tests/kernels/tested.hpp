#pragma once
// The kernels that a binary of this suite tests: chosen when it is linked. The CPU's (test_kernels); the GPU's over the
// emulated device (test_emulated_kernels); the GPU's on one (test_gpu_kernels).

#include <memory>

#include "tessera/backend/stream.hpp"
#include "tessera/kernels/gpu_attention.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera::testing {

/// Returns CPU or GPU (emulated or not).
DeviceKind tested_kind();

/// Returns whether the device multiplies 8-bit floats.
bool tested_has_fp8();

/// small: work that is usually one piece at test sizes is cut into several. loose: as without run.deterministic.
enum class Pieces { usual, small, loose };

struct Tested {
  std::shared_ptr<void> keeps;  ///< owns what kernels and stream use
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Kernels> kernels;
};

/// `threads`: of a CPU; on the emulated GPU another order of threads and blocks instead. GPU kernels take the test's
/// own memory, and copy (kernels/cuda/mirrored_kernels.hpp).
Tested open_tested(int threads, InstructionSet set, Pieces pieces);

/// Returns whose attention is tested. That of cuDNN is demanded (TESSERA_TEST_ATTENTION=cudnn, or cudnn-deterministic),
/// with UsageError for unsupported problems.
GpuAttention tested_attention();

/// Returns whether the tested attention is computed with documents apart. Before sm_90 cuDNN's backward is not.
bool computes_documents();

/// Scratch of the head as kernels opened with `pieces` divide it.
std::int64_t head_scratch_of_tested(const HeadShape& shape, Pieces pieces);

}  // namespace tessera::testing
