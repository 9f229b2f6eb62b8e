#pragma once
// When Slurm ends the job that this process is part of.

#include <optional>

namespace tessera {

/// Returns the end that was known when the job's script began ($SLURM_JOB_END_TIME), in seconds since 1970; infinity
/// without one.
double job_end_at_start();

/// Asks Slurm for the present end, which changes when the limit is extended or the job was suspended. Nothing if it
/// does not say so within `patience` seconds.
std::optional<double> job_end_now(double patience);

}  // namespace tessera
