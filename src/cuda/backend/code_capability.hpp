#pragma once
// What this build's code can do on the current GPU. The GPU may be newer than every one that it was compiled for.

namespace tessera {

/// The first compute capability, as CUDA numbers it, whose code converts to 8-bit floats and whose tensor cores
/// multiply them.
inline constexpr int kOldestWithFp8 = 89;

/// Returns the compute capability that the code was compiled for which the current GPU runs: 80 on one of 8.9 or 9.0,
/// if there is none for these.
int code_capability();

}  // namespace tessera
