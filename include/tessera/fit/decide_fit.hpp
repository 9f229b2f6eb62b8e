#pragma once
// Options whose value is `fit`: finds the cheapest choice with which a run fits, and what a recomputation costs.

#include <cstdint>
#include <functional>

#include "tessera/config/options.hpp"
#include "tessera/fit/fit.hpp"

namespace tessera {

/// Returns the FLOPs that each rank recomputes per step.
std::int64_t recomputed_flops(const StepSchedule& schedule);

/// Returns the recomputation of fewest FLOPs with which the run fits: none, or one half or both of some of the blocks,
/// evenly spread; all of every block if nothing fits.
Recomputation fitting_recomputation(const RunShape& shape, const FitLimits& limits);

/// Returns the least part of the state to offload, unit by unit, with which a run fits `allowed` bytes of a device
/// (limited_bytes); all of it if that is not enough.
double least_offload(RunShape shape, std::int64_t allowed);

/// Returns the options with as little memory as they allow, where memory decides: all blocks recomputed, all of the
/// state offloaded. Inputs of blocks stay on the device, unless the options say otherwise.
Options least_options(Options options, const Architecture& architecture);

/// Returns the longest train.seq_len with which the run can fit, by what the other options leave to memory: the model's
/// context, or a multiple of 64 (that one even if it does not fit). UsageError if the device's limit is not known.
std::int64_t longest_sequence(const Options& options, const RunSite& site, const FitLimits& limits);

/// Returns whether an option's value is `fit`, so that a limit is needed.
bool has_fit(const Options& options);

/// Returns whether memory decides an option: one whose value is `fit`, or memory.keep_activated = auto on a GPU. The
/// latter does not apply to deterministic runs, because its choice shows in their bits.
bool is_decided_by_memory(const Options& options);

/// Returns the options with each `fit` decided for these limits, as if its choice had been given: first
/// shard.offload_fraction, then memory.checkpoint (with memory.offload_activations, unless that is given, where nothing
/// else makes the run fit). Throws UsageError for these if the device's limit is not known. The memory that is left
/// decides whether memory.keep_activated = auto becomes true or false. train.seq_len is decided before
/// (longest_sequence).
Options with_fit_decided(Options options, const RunSite& site, const FitLimits& limits);

/// Lets a rank that has all state keep its parameters in 16 bits from step to step, as under ddp, where a gather would
/// only be a cast: if they fit or the device's limit is not known, and the options do not ask for it to drop them. The
/// bits do not depend on it. `limits` is called where they matter.
RunShape with_copies_kept(RunShape shape, const Options& options, const std::function<FitLimits()>& limits);

}  // namespace tessera
