#pragma once
// Times of collectives: several communicators over the same ranks, measured in turns.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// A communicator to measure, the device whose memory it works on, and its buffer (of buffer_bytes) in its own memory.
struct Contender {
  std::string name;
  Communicator* communicator = nullptr;
  Device* device = nullptr;
  Stream* stream = nullptr;  ///< on a CPU a serial one
  std::byte* buffer = nullptr;
  std::function<void()> check;  ///< throws the errors of failed work, after the stream was waited for; may be empty
};

/// One collective of one size.
struct CollectiveCase {
  Collective collective = Collective::all_gather;
  std::int64_t elements = 0;  ///< per rank (all_gather, reduce_scatter: fp32), in total (all_reduce: int64)
  std::int64_t bytes = 0;     ///< the size in nccl-tests' sense: of the full buffer that is gathered or reduced
};

/// Returns 1 KiB, 4 KiB, ... up to `max_bytes`. Throws UsageError if that is below 1 KiB.
std::vector<std::int64_t> message_sizes(std::int64_t max_bytes);
/// Makes all_gather, reduce_scatter and all_reduce of these bytes, each rounded down to full elements, with at least
/// one per rank.
std::vector<CollectiveCase> collective_cases(std::int64_t ranks, const std::vector<std::int64_t>& sizes);
/// Returns the size of the largest buffer of these cases.
std::int64_t buffer_bytes(const std::vector<CollectiveCase>& cases);

/// Returns the factor from algorithm bandwidth to bus bandwidth, as nccl-tests' PERFORMANCE.md defines it: the part of
/// the size that each rank must send whatever the algorithm. That is (n-1)/n, twice that for an all-reduce, and 1 for a
/// broadcast. Bus bandwidths are comparable across collectives and numbers of ranks, and with the hardware's.
double bus_factor(Collective collective, std::int64_t ranks);

/// Bytes per second.
struct Bandwidths {
  double algorithm = 0, bus = 0;
};

/// Returns nccl-tests' algbw, the full buffer's bytes / time, and busbw.
Bandwidths bandwidths(const CollectiveCase& size, std::int64_t ranks, double seconds);

/// How often a case is measured.
struct Repetitions {
  std::int64_t warmup = 0, measured = 1;
};

/// Returns the seconds of one call for each contender, until its work is done: per repetition the slowest rank's, then
/// the median. Contenders take turns, so that a change of the machine's speed affects all of them. Small sizes are
/// called several times per repetition. The result of the first call is checked (InternalError when it is wrong).
/// Collective; the same times on all ranks.
std::vector<double> time_collective(RankContext& context, const std::vector<Contender>& contenders,
                                    const CollectiveCase& size, const Repetitions& repetitions);

}  // namespace tessera
