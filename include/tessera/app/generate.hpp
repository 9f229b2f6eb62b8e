#pragma once
// `tessera generate`.

#include <filesystem>

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Goes on with the prompts of the options, with the model of a run, a checkpoint or a Hugging Face folder. Text or
/// JSON goes to the standard output of rank 0, a summary to its standard error. Collective. Returns the exit code;
/// errors are exceptions.
int run_generate(World& world, Options options, const std::filesystem::path& model);

}  // namespace tessera
