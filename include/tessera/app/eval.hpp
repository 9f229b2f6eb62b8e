#pragma once
// `tessera eval`: what a model that is not trained any further costs on validation sets, or answers.

#include <filesystem>

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// Evaluates `model`, a run, a checkpoint or a Hugging Face folder, and prints the results on rank 0. What is not given
/// is as the checkpoint's run had it, so that its own evaluation is repeated. Collective; returns the exit code.
int run_eval(World& world, const Options& options, const std::filesystem::path& model);

}  // namespace tessera
