#pragma once
// `tessera train`.

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// Trains as the options say; what they leave open a resumed run takes from its checkpoint. Collective. Returns the
/// exit code; errors are exceptions.
int run_train(World& world, const Options& given, const Invocation& invocation);

}  // namespace tessera
