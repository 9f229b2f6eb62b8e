#pragma once
// cuDNN's deterministic attention backward is believed when it has shown its bits twice.

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "tessera/kernels/arguments/attention.hpp"

namespace tessera {

/// Plays a backward twice, with other contents in its scratch, and compares the gradients bit for bit. DeviceError if
/// they differ. Waits for the stream, which must not be captured. `name`: of the library.
void prove_deterministic(cudaStream_t stream, const AttentionBackward& a, std::int64_t scratch_bytes,
                         const std::string& name, const std::function<void()>& play);

}  // namespace tessera
