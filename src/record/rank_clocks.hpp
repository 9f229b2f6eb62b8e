#pragma once
// The ranks' steady clocks against rank 0's. Ranks of one machine share a clock; between machines the difference is
// measured.

#include <cstdint>
#include <vector>

#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// A rank's clock: rank 0's time is its time plus `offset`, true within `uncertainty`. Nanoseconds; both 0 on rank 0's
/// machine.
struct RankClock {
  std::int64_t offset = 0, uncertainty = 0;
};

/// Returns every rank's clock on rank 0, nothing elsewhere. Collective: the ranks meet at a barrier, then one
/// rank of each other machine answers rank 0's questions.
std::vector<RankClock> compare_clocks(RankContext& context);

/// Rank 0's side of a comparison: asks `rank` for its time, several times. The answer that came back fastest counts,
/// because it was given at the middle of the time that it took, or at most half of that time away.
RankClock ask_for_time(ControlPlane& control, int rank);
/// The other rank's side.
void tell_time(ControlPlane& control);

}  // namespace tessera
