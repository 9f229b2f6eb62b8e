#pragma once
// Other users' processes on the GPUs that a row is about to use.

#include <cstdint>
#include <functional>
#include <string>

#include "sweep/child.hpp"

namespace tessera {

/// Returns how many processes compute on the GPUs that this process may use, by nvidia-smi; -1 if it does not tell. In
/// some containers it reports 0.
std::int64_t gpu_processes();

/// Waits at most `patience` seconds until nothing computes there, looking every `interval`; the first time it has to
/// wait, it says so. Returns a note for the row if the GPUs were busy all the time, or if their use is not known; empty
/// if they are free. Ends early when asked to end.
std::string wait_for_gpus(SweepSignals& signals, const std::function<void(const std::string&)>& say,
                          double patience = 300.0, double interval = 5.0);

}  // namespace tessera
