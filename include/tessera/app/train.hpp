#pragma once
// `tessera train`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Trains as the options say. A resumed run takes unset options from its checkpoint. Collective. Returns the exit code;
/// errors are exceptions.
int run_train(World& world, const Options& given, const Invocation& invocation);

}  // namespace tessera
