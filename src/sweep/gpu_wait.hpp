#pragma once
// Other people's processes on the GPUs that a row is about to use.

#include <cstdint>
#include <functional>
#include <string>

#include "sweep/child.hpp"

namespace tessera {

/// How many processes compute on the GPUs that this process may use, as nvidia-smi says; -1 where it does not tell.
/// (In some containers it says 0.)
std::int64_t gpu_processes();

/// Waits until nothing computes there, at most `patience` seconds, looking every `interval`; the first time it waits it
/// says so. Returns what is to be noted of the row: that the GPUs were busy all the time, or that nobody can tell;
/// empty where they are free. Ends early when somebody asks to end.
std::string wait_for_gpus(SweepSignals& signals, const std::function<void(const std::string&)>& say,
                          double patience = 300.0, double interval = 5.0);

}  // namespace tessera
