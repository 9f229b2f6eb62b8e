#pragma once
// In which order an emulated GPU's threads and blocks come.

#include <cstdint>

namespace emulator {

/// 0: threads and blocks in ascending order (the start value is the environment's TESSERA_EMULATOR_SEED). Otherwise
/// they come in an order drawn from the seed; with even seeds one warp runs as far ahead of the others as it can.
void set_order_seed(std::uint64_t seed);
std::uint64_t order_seed();

}  // namespace emulator
