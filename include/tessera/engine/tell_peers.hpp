#pragma once
// Tells the other ranks about a failure of this rank at once, rather than when the process ends.

#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// Raises the notice, in a handler, with the exception that is being handled, unless it is a peer's.
void tell_peers(RankContext& context);

}  // namespace tessera
