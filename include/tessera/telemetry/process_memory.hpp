#pragma once
// The memory that the process really holds, as the kernel counts it: to compare with the memory plan.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>

namespace tessera {

/// Returns the proportional set size of this process in bytes: private pages in full, shared pages divided by the
/// processes that map them (/proc/self/smaps_rollup). -1 if the kernel does not tell.
std::int64_t proportional_set_size();

/// The parts of a process's proportional set size, in bytes.
struct MappingBytes {
  std::int64_t total = 0;
  std::int64_t files = 0;   ///< of mapped files: the executable, libraries, data
  std::int64_t shared = 0;  ///< of memory that processes share: /dev/shm, memfd, System V
  std::int64_t heap = 0;    ///< of the heap that grows in place, where malloc takes small blocks from
  std::int64_t other = 0;   ///< of no file: regions, large blocks, stacks, code made at run time
};

/// Reads mappings as /proc/self/smaps lists them. IoError where a line is not understood.
MappingBytes mapping_bytes(std::istream& mappings);

/// Reads those of this process. IoError where the kernel does not tell.
MappingBytes mapping_bytes();

/// Returns how many bytes of `memory` lie in pages that are in memory for this mapping (mincore). Of private memory,
/// the pages that were touched; of shared memory, those that any process touched. Huge pages count in full. -1 if the
/// kernel does not tell (memory outside of the process, say a device's).
std::int64_t measured_bytes(std::span<const std::byte> memory);

}  // namespace tessera
