#pragma once
// The backends, and the code that they share.

#include "tessera/engine/backend.hpp"
#include "tessera/engine/peers.hpp"

namespace tessera {

const Backend& cpu_backend();
const Backend& gpu_backend();

/// Requires the same libraries on all ranks, because others may sum in another order. Collective over the world.
inline void require_same_kernels(const Resources& all) {
  require_equal(all.context, all.compute->kernels(Queue::compute).description().text,
                "the same instruction set and matmul library on all ranks");
}

}  // namespace tessera
