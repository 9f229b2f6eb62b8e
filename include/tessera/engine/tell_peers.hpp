#pragma once
// A failure of this rank, told to the others at once rather than when the process ends.

#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// Raises the notice, in a handler, with the exception that is being handled, unless it is a peer's.
void tell_peers(RankContext& context);

}  // namespace tessera
