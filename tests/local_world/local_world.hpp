#pragma once
// Ranks as threads of one process: the same communicators as between processes, thousands of cases in seconds.

#include <cstdint>
#include <functional>

#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// Runs `body` on `ranks` threads, one per rank, and returns when all have ended. Nodes are simulated: memory is shared
/// only inside one. When ranks throw, the others are freed (PeerError) and the first failure is rethrown. UsageError
/// when ranks_per_node does not divide ranks.
void run_ranks(std::int64_t ranks, std::int64_t ranks_per_node, const std::function<void(RankContext&)>& body);

}  // namespace tessera
