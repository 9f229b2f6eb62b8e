#pragma once
// A model that is used and not trained: planned, checked, loaded, and ready to be played.

#include <memory>
#include <string>

#include "tessera/engine/player.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// Words for messages: "generation", and what else would make it smaller: "generate.max_tokens".
struct ModelUse {
  std::string name, smaller;
};

/// A rank's model, ready to be played.
class LoadedModel {
 public:
  /// Verifies the plan, compares it over the ranks, checks their memory and reads the weights. `planned` must outlive
  /// this. UsageError if a rank's memory is too small or ranks differ; the rank with the least decides. Collective.
  LoadedModel(World& world, const ResolvedRun& run, const PlannedRun& planned, const ModelUse& use);

  Resources& resources() { return *resources_; }
  Optimizer& optimizer() { return optimizer_; }
  Player& player() { return *player_; }

 private:
  std::unique_ptr<Resources> resources_;
  Optimizer optimizer_{{}, 0};  ///< players need one; here it has no effect
  std::unique_ptr<Player> player_;
};

/// Returns "zero3 over 2 ranks, 509 MB each (parameters 497 MB, activations 12 MB)".
std::string ranks_text(const PlannedRun& planned);

/// Throws UsageError unless `model`, which a command names, exists; then sets model.from to it.
void name_model(Options& options, const std::filesystem::path& model);

}  // namespace tessera
