#pragma once
// Counts of what kernels did while they were played: instructions, memory traffic in the hardware's units, conflicts.

#include <array>
#include <cstdint>
#include <string>

#include "gpu_emulator/ptx/module.hpp"

namespace ptx {

/// Traffic of one kind. Global memory moves sectors of 32 bytes; shared memory answers a warp in waves of 128 bytes,
/// one word a bank.
struct Traffic {
  std::int64_t requested = 0;  ///< bytes that lanes asked for, each byte once per warp
  std::int64_t units = 0;      ///< sectors or waves
  std::int64_t least = 0;      ///< waves without bank conflicts
};

struct Counts {
  std::int64_t launches = 0, blocks = 0;
  std::array<std::int64_t, static_cast<std::size_t>(Kind::count)> instructions{};  ///< of warps
  std::int64_t lanes = 0;                                                          ///< sum of lanes over instructions
  Traffic load, store, shared;
};

/// Adds to what is known of the kernel. Threads may call it.
void note_counts(const std::string& kernel, const Counts& counts);

/// Whether TESSERA_PTX_REPORT names a file. Without one, traffic is not counted, because counting takes half of the
/// time.
bool is_report_wanted();

/// A table of all kernels, as tab-separated text, into the file that TESSERA_PTX_REPORT names, when the program ends;
/// nothing without it.
void write_report();

/// Sectors that `lanes` addresses of `bytes` each touch.
std::int64_t sectors(const std::array<std::uint64_t, kLanes>& address, Mask lanes, int bytes);
/// Bytes that they touch, each once.
std::int64_t distinct_bytes(const std::array<std::uint64_t, kLanes>& address, Mask lanes, int bytes);
/// Waves of shared memory for them, and how many there would be without conflicts.
std::int64_t waves(const std::array<std::uint64_t, kLanes>& address, Mask lanes, int bytes, std::int64_t& least);

}  // namespace ptx
