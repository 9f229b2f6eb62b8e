#pragma once
// Checks what must be the same on every rank before anything is computed.

#include <string>

#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// Throws UsageError, the same on every rank, if a rank differs from rank 0. Collective over the world. The message:
/// "rank 1 has cuBLASLt 12.9.1, rank 0 has cuBLASLt 13.0.2: " + `allowed`.
void require_equal(RankContext& context, const std::string& mine, const std::string& allowed);

}  // namespace tessera
