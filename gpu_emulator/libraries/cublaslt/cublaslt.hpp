#pragma once
// Settings of the emulated cuBLASLt for tests, and what they may see of it.

#include <array>
#include <map>
#include <utility>

namespace emulator {

/// The number of algorithms of every matmul, all with the same bits.
inline constexpr int kMatmulVariants = 3;

/// The heuristic on this device puts the variant first (0 at start), the others behind it.
void set_favourite_matmul(int device, int variant);

/// All variants but this one take a few milliseconds more; -1: none does (at start).
void set_fast_matmul(int variant);

/// Matmuls launched since the last call, by device and variant.
std::map<std::pair<int, int>, int> take_matmul_launches();

/// How many matmuls with an epilogue (cublasLtEpilogue_t) were launched since the last call that asked for it.
int take_epilogue_launches(int epilogue);

/// Matmuls of 8-bit factors launched since the last call: without and with fast accumulation. (Their bits are the same
/// here.)
std::array<int, 2> take_fp8_launches();

}  // namespace emulator
