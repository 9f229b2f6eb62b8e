#pragma once
// What every command that trains does first: the machine's shape, the model, the data, the plan.

#include <optional>

#include "tessera/checkpoint/reader.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// A run, resolved and planned, before its session is opened.
class PreparedRun {
 public:
  /// UsageError where options, model, data or memory do not fit together. `machine` says how many ranks share the
  /// machine.
  PreparedRun(RankContext& context, const Options& options, const MachineShape& machine);

  const MachineShape& machine() const { return machine_; }
  const PlannedRun& planned() const { return planned_; }
  const Dataset& data() const { return *data_; }
  /// The options with what this machine, the model and the strategy made of those that leave it to them (0, auto):
  /// device, threads, lanes, model sizes, sequence length, shard group, when gradients are reduced. They repeat the
  /// run. grid.ranks_per_node stays as given: it overrides what a machine says.
  Options resolved(const Options& options) const;
  /// Opens the session: allocates, initialises or reads weights, or goes on from what `load` finds. Collective.
  std::unique_ptr<TrainingSession> open(RankContext& context, const Options& options,
                                        const StateLoader& load = {}) const;

 private:
  void require_memory(RankContext& context, const Options& options) const;

  MachineShape machine_;
  std::unique_ptr<Dataset> data_;
  PlannedRun planned_;
  std::unique_ptr<HuggingFaceWeights> weights_;  ///< of model.from, a Hugging Face folder
  std::unique_ptr<CheckpointReader> parent_;     ///< of model.from, a checkpoint
};

/// What ranks of this machine share; applies grid.ranks_per_node to `world` and checks the options against the world.
/// UsageError when ranks were started with different options. Collective.
MachineShape settle_grid(World& world, const Options& options);

}  // namespace tessera
