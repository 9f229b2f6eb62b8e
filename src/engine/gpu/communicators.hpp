#pragma once
// How one rank's GPU talks to the others'.

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Opens the transport, the shared region in its memory, and a communicator for each queue and group. Notes what they
/// take outside the plan. Collective over the world. UsageError if a rank has another version of NCCL than rank 0.
std::unique_ptr<Communicators> open_gpu_communicators(Resources& all, const StepSchedule& schedule,
                                                      const MemoryPlan& plan);

/// Returns the bytes of a GPU with `total` that a rank's plan must leave free for cuBLASLt, cuDNN, graphs, and NCCL's
/// communicators. It is an estimate, because none of them tells beforehand; at most a quarter of the GPU.
std::int64_t kept_free_bytes(const StepSchedule& schedule, CommBackend backend, std::int64_t total);

}  // namespace tessera
