#pragma once
// Whether cuDNN's ordered attention backward keeps its promise on this GPU, and whether it pays off.

#include <cuda_runtime_api.h>

#include <functional>
#include <span>

#include "tessera/kernels/arguments.hpp"
#include "tessera/kernels/attention_verdicts.hpp"

namespace tessera {

/// Times both ways to compute `a` (which write the same gradients, and work within a.scratch), and repeats the ordered
/// one: after other work, while a second stream works, and with other contents in its scratch. `spare`: device memory
/// that the second stream may write. Waits for the stream, which must not be captured.
AttentionVerdict try_ordered(cudaStream_t stream, const AttentionBackward& a, std::int64_t scratch_bytes,
                             std::span<std::byte> spare, const std::function<void()>& own,
                             const std::function<void()>& ordered);

}  // namespace tessera
