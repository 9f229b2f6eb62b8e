#pragma once
// What ranks tell each other apart from data: that they compute with the same things, and that one has failed.

#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/rank_context.hpp"

namespace tessera {

/// Throws UsageError, the same on every rank, if a rank differs from rank 0. Collective over the world. The message:
/// "rank 1 has cuBLASLt 12.9.1, rank 0 has cuBLASLt 13.0.2: " + `allowed`.
void require_equal(RankContext& context, const std::string& mine, const std::string& allowed);
/// The same for facts by which ranks compute equal things, each with its name: "rank 1 differs from rank 0 in its
/// data".
void require_equal(RankContext& context, const std::vector<std::pair<std::string, std::string>>& facts);

/// Raises the notice, in a handler, with the exception that is being handled, unless it is a peer's.
void tell_peers(RankContext& context);

}  // namespace tessera
