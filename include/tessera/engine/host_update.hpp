#pragma once
// How fast a rank's host updates state that is offloaded.

#include "tessera/engine/compute.hpp"

namespace tessera {

/// Returns the elements a second that AdamW updates on the threads of the host's queue. The best of some short tries,
/// on memory of its own. Not while a segment is played.
double host_update_rate(const RankCompute& compute);

}  // namespace tessera
