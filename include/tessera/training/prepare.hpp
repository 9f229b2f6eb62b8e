#pragma once
// The first work of every command that trains: the machine's shape, the model, the data, the plan.

#include <functional>
#include <memory>
#include <string>

#include "tessera/comm/world.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/training/model_weights.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// Returns why the run is to stop; empty to go on.
using StopReason = std::function<std::string()>;

/// A run, resolved and planned, before its session is opened.
class PreparedRun {
 public:
  /// UsageError if options, model, data or memory do not fit together. `machine` says how many ranks share the machine.
  /// `stop` may end the preparation of text, which comes first, and the proof of the schedule. Collective.
  PreparedRun(RankContext& context, const Options& options, const MachineShape& machine, const StopReason& stop = {});

  const MachineShape& machine() const { return machine_; }
  const PlannedRun& planned() const { return planned_; }
  const Dataset& data() const { return *data_; }
  const ModelWeights& weights() const { return weights_; }
  std::int64_t steps() const { return steps_; }
  /// Returns the options with every 0 or auto replaced by its value for this machine, model and strategy. This concerns
  /// device, threads, run.lanes, model sizes, sequence length, shard group, when gradients are reduced. They repeat the
  /// run. grid.ranks_per_node stays as given: it overrides the machine's value. Also in: the warm-up of a fine-tuning,
  /// the tokenizer of a run whose weights it starts from, and what memory.checkpoint = fit took.
  Options resolved(const Options& options) const;
  /// Opens the session: allocates, initialises or reads weights, or goes on from the state of `load`. Collective.
  std::unique_ptr<TrainingSession> open(RankContext& context, const Options& options,
                                        const StateLoader& load = {}) const;

 private:
  /// The memory that a rank may take, and whose limit it is.
  struct MemoryLimit {
    std::int64_t bytes = 0;
    std::string name;
    std::int64_t machine = 0;  ///< of the machine's memory
  };
  MemoryLimit memory_limit(RankContext& context, const Options& options, const StepSchedule& schedule) const;
  Options decided_options(RankContext& context, const Options& options) const;
  void require_memory(RankContext& context, const Options& options) const;

  MachineShape machine_;
  ModelWeights weights_;
  std::string tokenizer_;  ///< data.tokenizer
  MemoryOptions memory_;   ///< without fit
  OffloadFraction offload_fraction_;
  std::int64_t steps_ = 0;
  std::unique_ptr<Dataset> data_;
  PlannedRun planned_;
};

/// Calls `open` on rank 0, which prepares text where that was not done, and then on the others. One rank speaks, and
/// waiting has no limit: a corpus may take hours. Collective.
void open_on_all(RankContext& context, const Options& options, const StopReason& stop,
                 const std::function<void(const CorpusSettings&)>& open);

/// Returns the shape of this machine. Applies grid.ranks_per_node to `world` and checks the options against the world.
/// UsageError when ranks were started with different options. Collective.
MachineShape resolve_grid(World& world, const Options& options);

}  // namespace tessera
