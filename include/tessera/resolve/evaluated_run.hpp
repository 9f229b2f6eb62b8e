#pragma once
// The options that the run of a checkpoint leaves to those who evaluate it or generate with it.

#include "tessera/checkpoint/records.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Returns `given` with precision.linear and precision.fp8_smallest of `run`, the options of the run that a checkpoint
/// is of, unless they are given.
Options with_linears_of(Options given, const NamedTexts& run);

/// Returns `given` with the data, sizes and precision that it leaves open taken from `run`, the options of the run that
/// wrote the checkpoint. All of the validation set is evaluated if `given` names it, or if there was no run (`run` is
/// empty); otherwise as much as the run evaluated.
/// Throws UsageError if there is nothing to evaluate.
Options evaluation_options(const Options& given, const NamedTexts& run);

}  // namespace tessera
